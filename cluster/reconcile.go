package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// tending looks at what there is to do, until the node stops.
func (c *Cluster) tending() {
	ticker := time.NewTicker(c.c.Timing.Reconcile)
	defer ticker.Stop()
	t := tender{c: c, barred: map[barring]time.Time{}, boots: map[string]string{}, led: time.Now()}
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		case <-c.kick:
		}
		t.step()
	}
}

// tender is what one goroutine remembers between steps.
type tender struct {
	c *Cluster
	// barred are actions and nodes that did not answer, until when they are not tried again.
	barred map[barring]time.Time
	// foreigners were told of.
	foreigners map[string]bool
	led        time.Time // when there was a leader last
	moaned     time.Time
	cautious   bool // elections are not stood for
	dropped    int
	boots      map[string]string // of nodes, by name
}

type barring struct {
	act  action
	name string
}

func (t *tender) step() {
	c := t.c
	c.life.Lock()
	rep := c.replica()
	formation, founded := c.founding()
	peers := c.gossip.all()
	var err error
	switch {
	case rep == nil:
		err = t.found(peers)
	case formation != 0 && !founded:
		if p := givesWay(formation, time.Since(t.led) > c.c.Timing.GoneAfter, peers); p != nil {
			err = c.forget(fmt.Sprintf("another cluster of this name was founded at the same time, and nobody has used this one; it is led by %s", p.name))
			rep = nil
		}
	}
	c.life.Unlock()
	if err != nil {
		c.c.Log.Warn("the node cannot take part in the cluster", "error", err)
	}
	c.announce()
	if rep == nil {
		t.complain(peers)
		return
	}
	t.caution(rep)
	t.renew(rep, peers)
	if term := c.leads(); term != 0 {
		t.lead(rep, term)
	}
	t.strangers(formation, founded, peers)
	t.prune(rep)
	t.complain(peers)
}

// found founds the cluster if that is this node's to do. life is held.
func (t *tender) found(peers []*peer) error {
	c := t.c
	since, contacted := c.gossip.settled()
	if c.isLeaving() || !mayVote(c.c.Role) || !contacted || time.Since(since) < c.c.Timing.Settle || !mayFound(c.c.Name, c.c.Expected, peers) {
		return nil
	}
	c.c.Log.Info("this node founds the cluster", "cluster", c.c.Cluster, "expected", c.c.Expected)
	return c.join(newFormation(), true)
}

// caution keeps a node whose log has no room from standing for election.
func (t *tender) caution(rep *replica) {
	full := t.c.isFull()
	if full == t.cautious {
		return
	}
	rc := rep.ReloadableConfig()
	rc.HeartbeatTimeout = t.c.c.Timing.Heartbeat
	if full {
		rc.HeartbeatTimeout *= 20
	}
	rc.ElectionTimeout = rc.HeartbeatTimeout
	if err := rep.ReloadConfig(rc); err != nil {
		t.c.c.Log.Warn("election timeout cannot be changed", "error", err)
		return
	}
	t.cautious = full
}

// lead does what is the leader's to do.
func (t *tender) lead(rep *replica, term uint64) {
	c := t.c
	for c.leads() == term && c.ctx.Err() == nil {
		servers, index, err := configuration(rep)
		if err != nil {
			return
		}
		if err := t.settle(rep, servers); err != nil {
			c.c.Log.Debug("founding the cluster", "error", err)
			return
		}
		v := view{
			now: time.Now(), started: c.started, self: c.c.Name, gone: c.c.Timing.GoneAfter,
			servers: servers, peers: c.gossip.all(), formation: rep.bound,
		}
		if !t.change(rep, term, plan(v), index) {
			return
		}
	}
}

// settle writes the founding into the log, once.
func (t *tender) settle(rep *replica, servers []server) error {
	c := t.c
	formation, founded, _ := c.machine.facts()
	if formation == 0 {
		return entry(rep, entryFormation, binary.LittleEndian.AppendUint64(nil, rep.bound))
	}
	if founded {
		return nil
	}
	voters := 0
	for _, s := range servers {
		if s.voter {
			voters++
		}
	}
	if voters < quorum(c.c.Expected) {
		return nil
	}
	if err := entry(rep, entryFounded, nil); err != nil {
		return err
	}
	c.c.Log.Info("the cluster is founded", "cluster", c.c.Cluster, "voters", voters)
	return nil
}

// newFormation returns a number that names a cluster founded now.
func newFormation() uint64 {
	var id [8]byte
	for {
		_, _ = rand.Read(id[:])
		if f := binary.LittleEndian.Uint64(id[:]); f != 0 {
			return f
		}
	}
}

func entry(rep *replica, kind byte, data []byte) error {
	return rep.Apply(append([]byte{kind}, data...), applyQueue).Error()
}

// change makes the first change of a plan that can be made now. It returns false if there is none.
func (t *tender) change(rep *replica, term uint64, changes []change, index uint64) bool {
	c := t.c
	for _, ch := range changes {
		bar := barring{ch.act, ch.name}
		if until, ok := t.barred[bar]; ok && time.Now().Before(until) {
			continue
		}
		done, err := t.make(rep, term, ch, index)
		if err != nil {
			t.barred[bar] = time.Now().Add(time.Second)
			c.c.Log.Info("cannot "+string(ch.act)+" node", "node", ch.name, "reason", ch.why, "error", err)
			if c.leads() != term {
				return false
			}
			continue
		}
		if done {
			delete(t.barred, bar)
			c.c.Log.Info(string(ch.act)+" node", "node", ch.name, "reason", ch.why)
			return true
		}
	}
	return false
}

// changeLimit is how long a change may wait to be taken by raft.
const changeLimit = 2 * time.Second

func (t *tender) make(rep *replica, term uint64, ch change, index uint64) (done bool, err error) {
	id, addr := raft.ServerID(ch.name), raft.ServerAddress(ch.name)
	switch ch.act {
	case actRemove:
		return true, rep.RemoveServer(id, index, changeLimit).Error()
	case actDemote:
		return true, rep.DemoteVoter(id, index, changeLimit).Error()
	case actInvite:
		t.barred[barring{ch.act, ch.name}] = time.Now().Add(time.Second) // gossip takes a moment to tell
		return false, t.invite(rep, term, ch)
	case actAdd:
		if err := t.invite(rep, term, ch); err != nil {
			return false, err
		}
		return true, rep.AddNonvoter(id, addr, index, changeLimit).Error()
	}
	commit := rep.CommitIndex()
	s, err := t.c.askStatus(t.c.ctx, ch.name)
	if err != nil || s.formation != rep.bound || s.last < commit {
		return false, err
	}
	return true, rep.AddVoter(id, addr, index, changeLimit).Error()
}

// invite asks a node to take part in the log.
func (t *tender) invite(rep *replica, term uint64, ch change) error {
	c := t.c
	p := c.gossip.peer(ch.name)
	if p == nil {
		return fmt.Errorf("gossip does not know it any more")
	}
	if ch.reset {
		// What this node believes of the configuration must be so.
		if err := rep.VerifyLeader().Error(); err != nil {
			return err
		}
	}
	return c.askEnter(c.ctx, ch.name, invitation{formation: rep.bound, term: term, boot: p.meta.boot, instance: p.meta.instance, reset: ch.reset})
}

// strangers tells of nodes that belong to another cluster of the same name.
func (t *tender) strangers(formation uint64, founded bool, peers []*peer) {
	if !founded {
		return
	}
	for _, p := range peers {
		if !p.alive || !p.meta.founded || !foreign(formation, p) || t.foreigners[p.meta.boot] {
			continue
		}
		if t.foreigners == nil || len(t.foreigners) > 1000 {
			t.foreigners = map[string]bool{}
		}
		t.foreigners[p.meta.boot] = true
		t.c.c.Log.Error("a node of this cluster's name was founded apart and is left out; stop it, delete its data folder, and start it again to take it in",
			"node", p.name, "addr", p.addr, "cluster", t.c.c.Cluster)
	}
}

// prune forgets nodes that are gone and that the log does not know.
func (t *tender) prune(rep *replica) {
	c := t.c
	var member map[string]bool
	for _, p := range c.gossip.all() {
		limit := 2 * c.c.Timing.GoneAfter
		if p.meta.leaving {
			limit = 10 * time.Second
		}
		if p.alive || time.Since(p.since) < limit {
			continue
		}
		if member == nil {
			servers, _, err := configuration(rep)
			if err != nil {
				return
			}
			member = map[string]bool{}
			for _, s := range servers {
				member[s.name] = true
			}
		}
		if !member[p.name] {
			c.gossip.forget(p.name)
			c.net.Forget(p.name)
			maps.DeleteFunc(t.barred, func(b barring, _ time.Time) bool { return b.name == p.name })
			delete(t.boots, p.name)
			t.drop(rep, p.name)
		}
	}
}

// renew closes what is open to earlier processes of nodes that came back.
func (t *tender) renew(rep *replica, peers []*peer) {
	for _, p := range peers {
		boot, known := t.boots[p.name]
		if known && boot != p.meta.boot {
			t.drop(rep, p.name)
		}
		t.boots[p.name] = p.meta.boot
	}
}

// maxDropped is how many nodes may be gone until raft's buffers for connections to them are given back.
const maxDropped = 32

// drop closes what is open to a node that is gone.
func (t *tender) drop(rep *replica, name string) {
	t.c.callers.drop(name)
	rep.streams.drop(name)
	if t.dropped++; t.dropped >= maxDropped {
		t.dropped = 0
		rep.trans.CloseStreams() // the others are dialled again at once
	}
}

// complain tells people what the cluster waits for, now and then.
func (t *tender) complain(peers []*peer) {
	c := t.c
	now := time.Now()
	if name, _ := c.Leader(); name != "" {
		t.led, t.moaned = now, time.Time{}
		return
	}
	if now.Sub(t.led) < 5*time.Second || now.Sub(t.moaned) < 10*time.Second {
		return
	}
	t.moaned = now
	var list []string
	able := 0
	for _, p := range peers {
		state := "gone"
		if p.alive {
			state = "there"
			if mayVote(p.meta.role) {
				able++
			}
		}
		list = append(list, p.name+" "+state)
	}
	args := []any{"for", now.Sub(t.led).Round(time.Second), "nodes", strings.Join(list, ", ")}
	if rep := c.replica(); rep != nil {
		if servers, _, err := configuration(rep); err == nil {
			var voters []string
			for _, s := range servers {
				if s.voter {
					voters = append(voters, s.name)
				}
			}
			args = append(args, "voters", strings.Join(voters, ", "))
		}
	} else {
		args = append(args, "expected", c.c.Expected, "able_to_coordinate", able)
	}
	if why := c.gossip.why(); why != "" {
		args = append(args, "cannot_join", why)
	}
	c.c.Log.Log(context.Background(), slog.LevelWarn, "the cluster has no leader", args...)
}

// configuration returns the servers of the log and the index that they are of.
func configuration(rep *replica) ([]server, uint64, error) {
	future := rep.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil, 0, err
	}
	var servers []server
	for _, s := range future.Configuration().Servers {
		servers = append(servers, server{string(s.ID), s.Suffrage == raft.Voter})
	}
	return servers, future.Index(), nil
}
