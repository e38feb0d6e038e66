package control

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// generated are members of a run that do nothing but report: they take grants, run events up to them that
// lie a random time apart, send to regions that they can reach, and receive.
type generated struct {
	c       *Coordinator
	rng     *rand.Rand
	n       int // regions
	perNode int
	shape   Shape
	next    []sim.Time
	bound   []sim.Time
	waits   [][]lbts.Grant // bounds that wait for frames
	frames  [][]uint64     // by member, then member
	took    [][]uint64
	queue   []int // members with something to report
	queued  []bool
	inbox   [][]lbts.Received // by region
	now     time.Duration
	reports int
	state   *State
}

const benchGap = 1000 // mean time between events of a region, in ticks

// newGenerated makes a run of nodes with regions each. Spatial regions stand on a square, send to their
// neighbours, and reach others the later the farther they are; else each sends to any other with one
// lookahead.
func newGenerated(b *testing.B, nodes, perNode int, spatial bool) *generated {
	n := nodes * perNode
	g := &generated{
		c: NewCoordinator("n", Config{FloorEvery: time.Hour, ExpectedNodes: nodes}), rng: rand.New(rand.NewPCG(1, 2)), n: n, perNode: perNode,
		next: make([]sim.Time, n), bound: make([]sim.Time, n), waits: make([][]lbts.Grant, n), queued: make([]bool, nodes), inbox: make([][]lbts.Received, n),
		frames: make([][]uint64, nodes), took: make([][]uint64, nodes),
	}
	g.shape = Shape{End: sim.Never, CutEvery: sim.Forever, Lookahead: []sim.Duration{benchGap}}
	if spatial {
		side := int(math.Ceil(math.Sqrt(float64(n))))
		g.shape.Lookahead = make([]sim.Duration, n*n)
		for to := range n {
			for from := range n {
				far := max(abs(to%side-from%side), abs(to/side-from/side))
				g.shape.Lookahead[to*n+from] = sim.Duration(max(far, 1)) * benchGap
			}
		}
	}
	data := []byte("x")
	s := must(b, &State{}, Command{Key: "u", Upload: &Upload{Hash: hashOf(data), Size: 1, Data: data}})
	s = must(b, s, Command{Key: "s", Submit: &Submit{Bundle: hashOf(data)}})
	start := &Start{Job: "job-1"}
	for m := range nodes {
		g.frames[m], g.took[m] = make([]uint64, nodes), make([]uint64, nodes)
		start.Members, start.Boots = append(start.Members, fmt.Sprintf("n%04d", m)), append(start.Boots, "1")
		for range perNode {
			start.Owner = append(start.Owner, m)
		}
	}
	for i := range g.next {
		g.next[i] = sim.Time(g.rng.IntN(benchGap))
	}
	s = must(b, s, Command{Key: "st", Start: start})
	g.state = must(b, s, Command{Key: "r", Move: &Move{Job: "job-1", To: Running, Epoch: 1}})
	g.c.Step(0, Applied{g.state})
	g.c.Step(0, Lead{1})
	for m := range nodes {
		g.hear(m, &Frozen{Header: g.c.header(), Sent: make([]uint64, nodes), CutDone: true})
	}
	for m := range nodes {
		full := &Full{Header: g.c.header(), Shape: g.shape}
		for i := m * perNode; i < (m+1)*perNode; i++ {
			full.Regions = append(full.Regions, RegionState{i, g.next[i], 0})
		}
		g.hear(m, full)
	}
	return g
}

func abs(x int) int { return max(x, -x) }

func (g *generated) hear(m int, message Message) {
	g.now += time.Microsecond
	g.take(g.c.Step(g.now, Heard{g.name(m), "1", message}))
}

func (g *generated) name(m int) string { return g.state.Jobs[0].Members[m] }

// take takes grants.
func (g *generated) take(out []Output) {
	for _, o := range out {
		s, ok := o.(Send)
		if !ok {
			continue
		}
		if x, ok := s.Message.(*Grants); ok {
			for _, grant := range x.Grants {
				g.waits[grant.Region] = append(g.waits[grant.Region], grant)
				g.wake(grant.Region)
			}
		}
	}
}

// wake lets the grants of a region count whose frames are in, and queues its member if it can run.
func (g *generated) wake(i int) {
	m := i / g.perNode
	keep := g.waits[i][:0]
	for _, x := range g.waits[i] {
		come := true
		for _, need := range x.Needs {
			come = come && g.took[m][need.From/g.perNode] >= need.Batch
		}
		if come {
			g.bound[i] = max(g.bound[i], x.Bound)
		} else {
			keep = append(keep, x)
		}
	}
	g.waits[i] = keep
	if (g.next[i] < g.bound[i] || len(g.inbox[i]) > 0) && !g.queued[m] {
		g.queued[m] = true
		g.queue = append(g.queue, m)
	}
}

// turn runs all regions of the next member and returns its report; frames arrive at once.
func (g *generated) turn() (m int, r *Report) {
	k := g.rng.IntN(len(g.queue))
	m = g.queue[k]
	g.queue[k] = g.queue[len(g.queue)-1]
	g.queue = g.queue[:len(g.queue)-1]
	g.queued[m] = false
	r = &Report{Header: g.c.header()}
	var touched []int
	for i := m * g.perNode; i < (m+1)*g.perNode; i++ {
		if g.next[i] >= g.bound[i] && len(g.inbox[i]) == 0 {
			continue
		}
		now := g.next[i]
		for g.next[i] < g.bound[i] {
			now = g.next[i]
			g.next[i] += sim.Time(1 + g.rng.IntN(2*benchGap))
		}
		x := lbts.Report{Region: i, Next: g.next[i], Received: g.inbox[i]}
		g.inbox[i] = nil
		if j := g.other(i); j >= 0 && j/g.perNode != m && now < g.bound[i] {
			to := j / g.perNode
			g.frames[m][to]++
			least := now.Add(g.ahead(i, j)).Add(sim.Duration(g.rng.IntN(benchGap)))
			x.Sent = []lbts.Sent{{To: j, Batch: g.frames[m][to], Least: least}}
			g.inbox[j] = append(g.inbox[j][:len(g.inbox[j]):len(g.inbox[j])], lbts.Received{From: i, Batch: g.frames[m][to]})
			g.inbox[j] = latest(g.inbox[j])
			g.took[to][m] = g.frames[m][to]
			g.next[j] = min(g.next[j], least)
			touched = append(touched, to)
		}
		r.Regions = append(r.Regions, x)
	}
	for _, to := range touched {
		for i := to * g.perNode; i < (to+1)*g.perNode; i++ {
			g.wake(i)
		}
	}
	g.reports++
	return m, r
}

// latest keeps the last of each channel.
func latest(list []lbts.Received) []lbts.Received {
	last := len(list) - 1
	for k := range last {
		if list[k].From == list[last].From {
			list[k] = list[last]
			return list[:last]
		}
	}
	return list
}

func (g *generated) ahead(from, to int) sim.Duration {
	if len(g.shape.Lookahead) == 1 {
		return g.shape.Lookahead[0]
	}
	return g.shape.Lookahead[to*g.n+from]
}

// other is a region to send to.
func (g *generated) other(i int) int {
	if len(g.shape.Lookahead) == 1 {
		return (i + 1 + g.rng.IntN(g.n-1)) % g.n
	}
	side := int(math.Ceil(math.Sqrt(float64(g.n))))
	x, y := i%side+g.rng.IntN(3)-1, i/side+g.rng.IntN(3)-1
	if j := y*side + x; x >= 0 && y >= 0 && x < side && j < g.n && j != i {
		return j
	}
	return -1
}

// BenchmarkCoordinator tells what a report costs and how many grants follow from it. A batch is how many
// reports wait while one step is made.
func BenchmarkCoordinator(b *testing.B) {
	for _, size := range []struct{ nodes, perNode int }{{8, 2}, {64, 2}, {256, 2}, {1000, 1}} {
		for _, spatial := range []bool{false, true} {
			for _, batch := range []int{1, 16} {
				shape := "uniform"
				if spatial {
					shape = "spatial"
				}
				b.Run(fmt.Sprintf("nodes=%d/regions=%d/%s/batch=%d", size.nodes, size.nodes*size.perNode, shape, batch), func(b *testing.B) {
					g := newGenerated(b, size.nodes, size.perNode, spatial)
					b.ResetTimer()
					b.StopTimer()
					before := g.c.Counts()
					var spent time.Duration
					for g.reports < b.N {
						var ins []Input
						for len(ins) < batch && len(g.queue) > 0 && g.reports < b.N {
							m, r := g.turn()
							ins = append(ins, Heard{g.name(m), "1", r})
						}
						if len(ins) == 0 {
							b.Fatalf("nobody can go on: %s", g.c.Status().Awaited)
						}
						g.now += time.Microsecond
						begin := time.Now()
						out := g.c.StepAll(g.now, ins)
						spent += time.Since(begin)
						g.take(out)
					}
					after := g.c.Counts()
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(spent.Nanoseconds())/float64(g.reports), "ns/report")
					b.ReportMetric(float64(after.Grants-before.Grants)/float64(g.reports), "grants/report")
					b.ReportMetric(float64(after.Messages-before.Messages)/float64(g.reports), "messages/report")
				})
			}
		}
	}
}
