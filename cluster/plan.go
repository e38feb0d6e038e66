package cluster

import (
	"fmt"
	"slices"
	"time"
)

// server is a node in the configuration of the log.
type server struct {
	name  string
	voter bool
}

// view is what the leader's plan depends on.
type view struct {
	now     time.Time
	started time.Time // when this node began to gossip
	self    string
	gone    time.Duration
	servers []server
	peers   []*peer // in order of name
	// formation of the leader.
	formation uint64
}

// action is a change of the configuration, or a step towards one.
type action string

const (
	actRemove  action = "remove"
	actDemote  action = "take the vote of"
	actAdd     action = "add"
	actInvite  action = "invite"
	actPromote action = "give a vote to"
)

type change struct {
	act  action
	name string
	why  string
	// reset asks a node that is added to delete what it has.
	reset bool
}

// plan returns what would bring the configuration closer to what gossip says, the most urgent first. Each is
// safe alone, but not two at once: after one that changed the configuration a new plan is due.
func plan(v view) []change {
	peers := map[string]*peer{}
	for _, p := range v.peers {
		peers[p.name] = p
	}
	servers := slices.Clone(v.servers)
	slices.SortFunc(servers, func(a, b server) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	alive := func(name string) bool {
		p := peers[name]
		return name == v.self || p != nil && p.alive && p.meta.running
	}
	voters, member, spare := 0, map[string]bool{}, 0
	for _, s := range servers {
		member[s.name] = true
		if s.voter {
			voters++
		} else if p := peers[s.name]; p != nil && alive(s.name) && mayVote(p.meta.role) && !p.meta.leaving {
			spare++
		}
	}
	// rest reports whether without a voter a majority of the others is alive.
	rest := func(without string) bool {
		n := 0
		for _, s := range servers {
			if s.voter && s.name != without && alive(s.name) {
				n++
			}
		}
		return n > (voters-1)/2
	}

	var urgent, invites, promotions []change
	for _, s := range servers {
		if s.name == v.self {
			continue
		}
		p := peers[s.name]
		switch {
		case p == nil && v.now.Sub(v.started) < v.gone:
		case p == nil || !p.alive && !p.meta.leaving && v.now.Sub(p.since) >= v.gone:
			if !s.voter || rest(s.name) && (voters > 3 || spare > 0) {
				urgent = append(urgent, change{actRemove, s.name, fmt.Sprintf("it has not been there for %v", v.gone), false})
			}
		case p.meta.leaving:
			if !s.voter || rest(s.name) {
				urgent = append(urgent, change{actRemove, s.name, "it leaves", false})
			}
		case !p.alive:
		case s.voter && !p.meta.running:
			if rest(s.name) {
				urgent = append(urgent, change{actDemote, s.name, "it came back with an empty disk", false})
			}
		case s.voter && !mayVote(p.meta.role):
			if rest(s.name) {
				urgent = append(urgent, change{actDemote, s.name, "it only works from now on", false})
			}
		case s.voter:
		case !p.meta.running:
			invites = append(invites, change{actInvite, s.name, "it waits", false})
		case mayVote(p.meta.role) && voters < MaxVoters:
			promotions = append(promotions, change{actPromote, s.name, fmt.Sprintf("%d of at most %d nodes vote", voters, MaxVoters), false})
		}
	}
	for _, p := range v.peers {
		if p.name == v.self || member[p.name] || !p.alive || p.meta.leaving || foreign(v.formation, p) {
			continue
		}
		invites = append(invites, change{actAdd, p.name, "it came", p.meta.running})
	}
	return slices.Concat(urgent, promotions, invites)
}

// foreign reports whether a node belongs to a cluster that was founded apart from the given one.
func foreign(formation uint64, p *peer) bool {
	return p.meta.formation != 0 && formation != 0 && p.meta.formation != formation
}

// mayFound reports whether this node is to found the cluster.
func mayFound(self string, expected int, peers []*peer) bool {
	able := 0
	for _, p := range peers {
		if p.meta.running || p.meta.formation != 0 {
			return false // even if it is dead: it may come back
		}
		if !p.alive || p.meta.leaving || !mayVote(p.meta.role) {
			continue
		}
		if able++; able == 1 && p.name != self {
			return false
		}
	}
	return able >= expected
}

// quorum returns how many voters a founding of an expected size needs until commands are taken.
func quorum(expected int) int { return min(expected, MaxVoters)/2 + 1 }

// givesWay returns the leader of another cluster that one which nobody used yet gives way to, or nil. One that
// has lost its leader gives way to any.
func givesWay(formation uint64, orphaned bool, peers []*peer) *peer {
	for _, p := range peers {
		if p.alive && p.meta.term != 0 && foreign(formation, p) && (orphaned || p.meta.founded || p.meta.formation < formation) {
			return p
		}
	}
	return nil
}
