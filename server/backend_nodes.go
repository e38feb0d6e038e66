package server

import (
	"time"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/cluster"
)

// Nodes implements api.Backend.
func (b backend) Nodes() []api.NodeStatus {
	var list []api.NodeStatus
	for _, n := range b.cluster.Nodes() {
		if n.Name == b.config.Name {
			n.LastHeard = time.Now()
		}
		list = append(list, api.NodeStatus{
			Name: n.Name, Role: n.Role, Address: n.Addr, API: n.API, Workers: n.Workers, State: stateOf(n),
			Voter: n.Voter, Leader: n.Leader, Heard: n.LastHeard, Version: n.Release,
		})
	}
	return list
}

func stateOf(n cluster.NodeInfo) string {
	switch {
	case n.Leaving && n.Alive:
		return "leaving"
	case n.Leaving:
		return "gone"
	case n.Stopping && n.Alive:
		return "stopping"
	case n.Stopping:
		return "stopped"
	case !n.Alive:
		return "suspect"
	}
	return "alive"
}
