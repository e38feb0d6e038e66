// Package models lists the models that ship with simnode.
package models

import (
	"github.com/simnode/simnode/models/airspace"
	"github.com/simnode/simnode/models/life"
	"github.com/simnode/simnode/models/phold"
	"github.com/simnode/simnode/sim"
)

// All returns the models that ship, by name.
func All() []sim.Model {
	return []sim.Model{airspace.Model(), life.Model(), phold.Model()}
}
