package chaos

import (
	"slices"
	"time"

	"github.com/simnode/simnode/control"
)

// gossip is a model of a membership protocol: nodes hear of each other directly or by way of a third one,
// and take for dead who was not heard for a while.
type gossip struct {
	w *world
	r *stream
	// heard is when a node heard of another one last, boot of which process.
	heard [][]time.Duration
	boot  [][]string
	told  [][]control.Node
}

func newGossip(w *world, seed uint64) *gossip {
	g := &gossip{w: w, r: newStream(seed, streamGossip)}
	for range w.hosts {
		g.heard = append(g.heard, make([]time.Duration, len(w.hosts)))
		g.boot = append(g.boot, make([]string, len(w.hosts)))
		g.told = append(g.told, nil)
	}
	return g
}

// round lets every node look around.
func (g *gossip) round() {
	for i, h := range g.w.hosts {
		if !h.running() {
			continue
		}
		for j := range g.w.hosts {
			if g.reaches(i, j) {
				g.heard[i][j], g.boot[i][j] = g.w.now, g.w.hosts[j].p.boot
			}
		}
		if h.role == control.Works {
			continue
		}
		nodes := g.view(i)
		if g.told[i] == nil || !slices.Equal(nodes, g.told[i]) || g.r.Bernoulli(0.05) {
			g.told[i] = nodes
			h.input(control.Members{Nodes: nodes})
		}
	}
	g.w.after(g.w.settings.gossipEvery, g.round)
}

func (g *gossip) reaches(i, j int) bool {
	if i == j || g.w.net.connected(i, j) {
		return true
	}
	for k := range g.w.hosts {
		if g.w.net.connected(i, k) && g.w.net.connected(k, j) {
			return true
		}
	}
	return false
}

// view is the nodes that one has ever heard of, in order of name.
func (g *gossip) view(i int) (nodes []control.Node) {
	for j, h := range g.w.hosts {
		if g.boot[i][j] == "" {
			continue
		}
		nodes = append(nodes, control.Node{
			Name: h.name, Boot: g.boot[i][j], Role: h.role, Workers: h.workers, Alive: g.w.now-g.heard[i][j] <= g.w.settings.suspect,
		})
	}
	return nodes
}

// forget is for a node whose process is a new one.
func (g *gossip) forget(i int) {
	clear(g.boot[i])
	g.told[i] = nil
}
