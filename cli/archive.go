package cli

import "github.com/simnode/simnode/checkpoint"

type archive struct{}

func (*archive) copy(*checkpoint.Store, *checkpoint.Manifest, func(string)) {}
