package chaos

import (
	"fmt"
	"time"

	"github.com/simnode/simnode/cluster/link"
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/sim"
)

// stream is a random stream of a subsystem.
type stream struct{ sim.Rand }

// Subsystems with a stream of their own, so that one draws the same whatever another one does.
const (
	streamTopology sim.EntityID = iota + 1
	streamSettings
	streamProgram
	streamFaults
	streamNetwork
	streamLog
	streamWork
	streamUser
	streamGossip
	streamShots
	streamSaves
)

func newStream(seed uint64, subsystem sim.EntityID) *stream {
	return &stream{sim.NewRand(seed, subsystem)}
}

// n returns a number in [0, n).
func (s *stream) n(n int) int { return int(s.IntN(int64(n))) }

// in returns a duration in [a, b).
func (s *stream) in(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(s.IntN(int64(b-a)))
}

// exp returns an exponential duration.
func (s *stream) exp(mean time.Duration) time.Duration {
	return time.Duration(s.ExpDuration(sim.Duration(mean)))
}

// pick returns one of a list.
func pick[T any](s *stream, list ...T) T { return list[s.n(len(list))] }

// settings are all that a seed draws but for faults and programs.
type settings struct {
	roles   []control.Role
	workers []int
	// rates are how fast the clocks run.
	rates []float64

	config control.Config
	tick   time.Duration
	// batched says that a coordinator takes all inputs of a moment at once.
	batched bool

	net  netSettings
	link link.Config

	// Of the replicated log: time between heartbeats, until a leader without followers steps down, until
	// an election begins, to commit, to tell a follower.
	heartbeat, lease, election, commit, replicate time.Duration

	// Of gossip: time between rounds, and until a node that is not heard counts as dead.
	gossipEvery, suspect time.Duration

	// Of work: time for a step of the protocol's machines, for a turn, to set a job up, to write an item
	// of results.
	step, turn, setup, write time.Duration
	turnEvents               uint64
	// store and sync are the times to write a piece of a checkpoint, and to make it durable.
	store, sync time.Duration
	flush       float64
	// fullLinks and fullDisk are how much may wait until a node says backlog, in bytes and items.
	fullLinks, fullDisk int

	jobs []jobSettings
}

type jobSettings struct {
	program        uint64
	regions, nodes int
	trace          bool
	checkpoints    control.Checkpoints
	// after the start of the cluster, when it is submitted.
	at time.Duration
}

// netSettings are how links behave where nothing is wrong.
type netSettings struct {
	// stream keeps order and loses nothing until it breaks. Otherwise each frame may be lost, come twice
	// or damaged, or be overtaken.
	stream             bool
	delay, jitter      time.Duration
	loss, twice, harm  float64
	spike              float64 // probability of a much longer delay
	spikeDelay         time.Duration
	breaksAfterHealing float64 // of a stream
}

// drawSettings draws what the seed decides.
func drawSettings(seed uint64) *settings {
	r := newStream(seed, streamTopology)
	s := &settings{}
	nodes := pick(r, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8)
	workers, voters := 0, 0
	for range nodes {
		role := pick(r, control.Both, control.Both, control.Both, control.Works, control.Coordinates)
		if role != control.Coordinates {
			workers++
		}
		if role != control.Works {
			voters++
		}
		s.roles = append(s.roles, role)
		s.workers = append(s.workers, 1+r.n(2))
		s.rates = append(s.rates, 1)
	}
	if workers == 0 || voters == 0 {
		s.roles[0] = control.Both
	}
	workers = 0
	for _, role := range s.roles {
		if role != control.Coordinates {
			workers++
		}
	}
	s.draw(newStream(seed, streamSettings))
	for range pick(r, 1, 1, 1, 2) {
		j := jobSettings{program: seed / programShare, trace: r.Bernoulli(0.5), at: r.in(0, 2*time.Second)}
		j.nodes = pick(r, workers, workers, 1+r.n(workers))
		j.regions = pick(r, 0, 1+r.n(8), 2+r.n(15))
		s.jobs = append(s.jobs, j)
	}
	s.drawSaves(newStream(seed, streamSaves))
	return s
}

// drawSaves draws when checkpoints are taken and how long that takes.
func (s *settings) drawSaves(r *stream) {
	ms := time.Millisecond
	for i := range s.jobs {
		c := &s.jobs[i].checkpoints
		if r.Bernoulli(0.6) {
			c.EverySim = pick(r, 500*sim.Millisecond, sim.Second, 3*sim.Second, 7*sim.Second)
		}
		if r.Bernoulli(0.5) {
			c.Every = int64(r.in(20*ms, pick(r, 100*ms, 2*time.Second)) / ms)
		}
		c.KeepLast, c.KeepEvery = r.n(4), uint64(r.n(4))
	}
	s.store, s.sync = r.in(ms/100, pick(r, ms, 10*ms)), r.in(ms, pick(r, 5*ms, 100*ms))
	s.config.SaveWait, s.config.RetryAfter = r.in(10*time.Second, 30*time.Second), r.in(50*ms, 2*time.Second)
	s.config.HolderWait, s.config.MostRecoveries = r.in(5*time.Second, 30*time.Second), 1000
}

// programShare is how many neighbouring seeds share a program, whose reference is then run once.
const programShare = 4

func (s *settings) draw(r *stream) {
	if r.Bernoulli(0.5) {
		for i := range s.rates {
			s.rates[i] = r.Uniform(0.8, 1.25)
		}
	}
	ms := time.Millisecond
	s.config = control.Config{
		PingEvery: r.in(50*ms, 250*ms), SilentAfter: r.in(500*ms, 1000*ms), LostAfter: r.in(3*time.Second, 5*time.Second),
		GoneAfter: r.in(8*time.Second, 15*time.Second), AskEvery: r.in(200*ms, 1000*ms), FloorEvery: r.in(1*ms, 100*ms), ExpectedNodes: 1,
	}
	s.tick = r.in(20*ms, 100*ms)
	s.batched = r.Bernoulli(0.7)
	s.net = netSettings{stream: r.Bernoulli(0.4), delay: r.in(ms/20, 2*ms), jitter: r.in(0, pick(r, ms/10, ms, 10*ms))}
	if r.Bernoulli(0.3) {
		s.net.spike, s.net.spikeDelay = r.Uniform(0, 0.02), r.in(10*ms, 200*ms)
	}
	s.net.breaksAfterHealing = r.Float64()
	s.link = link.Config{
		HelloEvery: r.in(50*ms, 300*ms), AckDelay: r.in(ms, 20*ms), AckBytes: pick(r, 64, 4<<10, 64<<10),
		Window: pick(r, 4<<10, 64<<10, 1<<20), Fragment: pick(r, 64, 1<<10, 64<<10), Ahead: pick(r, 4, 64),
		CompressAbove: pick(r, 0, 0, 512),
	}
	if !s.net.stream {
		s.link.Resend = r.in(10*ms, 50*ms)
		if r.Bernoulli(0.7) {
			s.net.loss = r.Uniform(0, pick(r, 0.01, 0.15))
			s.net.twice = r.Uniform(0, pick(r, 0.01, 0.2))
			s.net.harm = r.Uniform(0, 0.01)
		}
	}
	s.heartbeat, s.lease, s.election = r.in(30*ms, 100*ms), r.in(100*ms, 800*ms), r.in(200*ms, 1500*ms)
	s.commit, s.replicate = r.in(ms, 30*ms), r.in(ms, pick(r, 5*ms, 200*ms))
	s.gossipEvery, s.suspect = r.in(50*ms, 300*ms), r.in(500*ms, 3*time.Second)
	s.step, s.turn = r.in(ms/100, ms/5), r.in(ms/10, pick(r, 4*ms, 20*ms))
	s.setup, s.write = r.in(ms, pick(r, 20*ms, 500*ms)), r.in(ms/100, ms)
	s.turnEvents = pick(r, uint64(1), 4, 16, 64)
	s.flush = pick(r, 0.1, 0.5, 1)
	s.fullLinks, s.fullDisk = pick(r, 8<<10, 128<<10, 8<<20), pick(r, 8, 100, 10000)
}

// String tells what kind of cluster it is.
func (s *settings) String() string {
	links := "stream"
	if !s.net.stream {
		links = fmt.Sprintf("datagrams (loss %.3f, twice %.3f)", s.net.loss, s.net.twice)
	}
	return fmt.Sprintf("roles %v, workers %v, %d jobs, links %s, delay %v, jitter %v", s.roles, s.workers, len(s.jobs), links, s.net.delay, s.net.jitter)
}
