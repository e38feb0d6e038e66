package server

import (
	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/cluster"
)

// Nodes implements api.Backend.
func (b backend) Nodes() []api.NodeStatus {
	var list []api.NodeStatus
	for _, n := range b.cluster.Nodes() {
		list = append(list, api.NodeStatus{
			Name: n.Name, Role: n.Role, Address: n.Addr, API: n.API, Workers: n.Workers, State: stateOf(n),
			Voter: n.Voter, Leader: n.Leader, Heard: n.LastHeard, Version: b.versionOf(n.Name),
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
	case !n.Alive:
		return "suspect"
	}
	return "alive"
}

// versionOf is the version of this node; of others it is not known.
func (b backend) versionOf(node string) string {
	if node == b.config.Name {
		return b.config.Version
	}
	return ""
}
