// Command simnode runs the models that ship with simnode.
package main

import (
	"github.com/simnode/simnode/cli"
	"github.com/simnode/simnode/models"
)

func main() { cli.Main(models.All()...) }
