package chaos

import (
	"hash/crc32"
	"slices"
	"time"

	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// Mutant is a deliberate mistake at a seam between the machines; nil makes none.
type Mutant struct {
	// Name says what it does wrong.
	Name string
	// send changes a message that a machine sends: it returns what is sent in its place, nil for nothing.
	send func(p *process, m control.Message) control.Message
	// hear changes what a machine is told.
	hear func(p *process, h control.Heard) control.Heard
	// frame changes the messages that a frame brought.
	frame func(l *peer, frame []byte, messages [][]byte) [][]byte
	// grant changes a grant before a part takes it.
	grant func(g lbts.Grant) lbts.Grant
	// times changes the times of a coordinator.
	times func(c *control.Config)
	// noHold lets turns go on that should not, toAny sends what is for one process to any of its node.
	noHold, toAny bool
	// lie is what an executor does wrong with checkpoints.
	lie string
}

// says reports whether an executor does something wrong with checkpoints.
func (m *Mutant) says(what string) bool { return m != nil && m.lie == what }

// reads returns the checkpoint that is read where one is to be restored.
func (m *Mutant) reads(job *control.Job, number uint64) uint64 {
	if n := len(job.Checkpoints); m.says("an older one read") && n > 1 && job.Checkpoints[n-2].Epoch == job.Checkpoints[n-1].Epoch {
		return job.Checkpoints[n-2].Number
	}
	return number
}

func (m *Mutant) sends(p *process, x control.Message) control.Message {
	if m == nil || m.send == nil {
		return x
	}
	return m.send(p, copied(x))
}

// copied returns a copy of a message that shares nothing with it.
func copied(m control.Message) control.Message {
	c, err := control.Parse(control.Append(nil, m))
	if err != nil {
		panic(err) // play tells of it
	}
	return c
}

func (m *Mutant) heard(p *process, h control.Heard) control.Heard {
	if m == nil || m.hear == nil {
		return h
	}
	h.Message = copied(h.Message)
	return m.hear(p, h)
}

func (m *Mutant) received(l *peer, frame []byte, messages [][]byte) [][]byte {
	if m == nil || m.frame == nil {
		return messages
	}
	return m.frame(l, frame, messages)
}

func (m *Mutant) granted(grants []lbts.Grant) []lbts.Grant {
	if m == nil || m.grant == nil {
		return grants
	}
	list := slices.Clone(grants)
	for i := range list {
		list[i] = m.grant(list[i])
	}
	return list
}

func (m *Mutant) config(c control.Config) control.Config {
	if m != nil && m.times != nil {
		m.times(&c)
	}
	return c
}

func (m *Mutant) ignoresHold() bool { return m != nil && m.noHold }
func (m *Mutant) sendsToAny() bool  { return m != nil && m.toAny }

// changes makes a send of a function that changes messages of one sort.
func changes[T control.Message](change func(p *process, m T)) func(*process, control.Message) control.Message {
	return func(p *process, m control.Message) control.Message {
		if x, ok := m.(T); ok {
			change(p, x)
		}
		return m
	}
}

// asidesOf returns what goes with a report, or nil.
func asidesOf(m control.Message) *control.Asides {
	switch m := m.(type) {
	case *control.Report:
		return &m.Asides
	case *control.Full:
		return &m.Asides
	case *control.CutDone:
		return &m.Asides
	}
	return nil
}

// Mutants returns all mutants. Each is made anew: they keep no state from run to run, but some do in a run.
func Mutants() []*Mutant {
	return slices.Concat(linkMutants(), takeoverMutants(), reportMutants(), memberMutants(), checkpointMutants())
}

func linkMutants() []*Mutant {
	return []*Mutant{
		{Name: "links deliver again what comes again", frame: func(l *peer, frame []byte, messages [][]byte) [][]byte {
			key := crc32.ChecksumIEEE(frame)
			if l.seen == nil {
				l.seen = map[uint32][][]byte{}
			}
			if len(messages) == 0 {
				return l.seen[key]
			}
			l.seen[key] = slices.Clone(messages)
			return messages
		}},
		{Name: "links deliver out of order", frame: func(_ *peer, _ []byte, messages [][]byte) [][]byte {
			slices.Reverse(messages)
			return messages
		}},
		{Name: "links lose a batch", send: func(_ *process, m control.Message) control.Message {
			if b, ok := m.(*control.Batch); ok && b.Number == 2 {
				return nil
			}
			return m
		}},
		{Name: "links lose observations", send: func(_ *process, m control.Message) control.Message {
			if b, ok := m.(*control.Observed); ok && b.Number == 3 {
				return nil
			}
			return m
		}},
		{Name: "what is for one process goes to the one before it", toAny: true},
	}
}

func takeoverMutants() []*Mutant {
	return []*Mutant{
		{Name: "a takeover does not wait for what is on the way", send: changes(func(_ *process, m *control.Settle) { clear(m.Frames) })},
		{Name: "a takeover forgets the bounds that are held", send: changes(func(_ *process, m *control.Full) {
			for i := range m.Regions {
				m.Regions[i].Held = 0
			}
		})},
		{Name: "a takeover forgets cuts", send: changes(func(_ *process, m *control.Frozen) { m.CutNumber, m.CutAt, m.CutDone = 0, 0, true })},
		{Name: "a takeover takes a cut for complete", send: changes(func(_ *process, m *control.Frozen) { m.CutDone = true })},
		{Name: "a takeover forgets the end", send: changes(func(_ *process, m *control.Frozen) { m.Finishing = nil })},
		{Name: "members obey coordinators of earlier terms", hear: func(p *process, h control.Heard) control.Heard {
			if head := headerOf(h.Message); head.Term > 0 && head.Term < p.term && !control.ForCoordinator(h.Message) {
				head.Term, h.From = p.term, p.agent.Status().Coordinator
			}
			return h
		}},
		{Name: "members take messages of other epochs", hear: func(p *process, h control.Heard) control.Heard {
			if s := p.exec.share; s != nil && !control.ForCoordinator(h.Message) {
				headerOf(h.Message).Epoch = s.job.Epoch
			}
			return h
		}},
		{Name: "a coordinator takes who is silent for lost at once", times: func(c *control.Config) {
			c.LostAfter, c.GoneAfter = c.SilentAfter, c.SilentAfter
		}},
		{Name: "a coordinator waits for ever for who is lost", times: func(c *control.Config) {
			c.LostAfter, c.GoneAfter = 24*time.Hour, 24*time.Hour
		}},
	}
}

func reportMutants() []*Mutant {
	return []*Mutant{
		{Name: "reports forget what was sent", send: changes(func(_ *process, m *control.Report) {
			for i := range m.Regions {
				m.Regions[i].Sent = nil
			}
		})},
		{Name: "reports come before what they count on", send: reportsBeforeBatches()},
		{Name: "reports state what has not come", send: changes(func(_ *process, m *control.Report) {
			for i := range m.Regions {
				for k := range m.Regions[i].Received {
					m.Regions[i].Received[k].Batch++
				}
			}
		})},
		{Name: "reports state a later next event", send: changes(func(_ *process, m *control.Report) {
			for i := range m.Regions {
				m.Regions[i].Next = m.Regions[i].Next.Add(1)
			}
		})},
		{Name: "reports forget failures", send: func(_ *process, m control.Message) control.Message {
			if a := asidesOf(m); a != nil {
				a.Failure = nil
			}
			return m
		}},
		{Name: "reports forget that an entity asked for the end", send: func(_ *process, m control.Message) control.Message {
			if a := asidesOf(m); a != nil {
				a.StopAsked = false
			}
			return m
		}},
		{Name: "reports forget observations", send: func(_ *process, m control.Message) control.Message {
			if a := asidesOf(m); a != nil {
				a.Observed = 0
			}
			return m
		}},
	}
}

// reportsBeforeBatches states what was sent one report late.
func reportsBeforeBatches() func(*process, control.Message) control.Message {
	return func(p *process, m control.Message) control.Message {
		r, ok := m.(*control.Report)
		if !ok {
			return m
		}
		for i := range r.Regions {
			x := &r.Regions[i]
			if p.late == nil {
				p.late = map[int][]lbts.Sent{}
			}
			x.Sent, p.late[x.Region] = p.late[x.Region], x.Sent
		}
		return m
	}
}

func memberMutants() []*Mutant {
	return []*Mutant{
		{Name: "grants forget what they need", send: changes(func(_ *process, m *control.Grants) {
			for i := range m.Grants {
				m.Grants[i].Needs = nil
			}
		})},
		{Name: "the bound itself is run", grant: func(g lbts.Grant) lbts.Grant {
			g.Bound = g.Bound.Add(1)
			return g
		}},
		{Name: "regions run farther than they may", grant: func(g lbts.Grant) lbts.Grant {
			g.Bound = g.Bound.Add(sim.Second)
			return g
		}},
		{Name: "regions run while they are held", noHold: true},
		{Name: "the floor passes before observations are in", send: changes(func(_ *process, m *control.Floor) { clear(m.Frames) })},
		{Name: "the end comes early", send: changes(func(_ *process, m *control.Finish) { m.At-- })},
	}
}

func checkpointMutants() []*Mutant {
	return []*Mutant{
		{Name: "a part is told to be durable before it is", lie: "own part not awaited"},
		{Name: "the copy of a part is not awaited", lie: "copy not awaited"},
		{Name: "what is read of a checkpoint is not checked", lie: "no hash check"},
		{Name: "an older checkpoint is restored", lie: "an older one read"},
		{Name: "what others restored is lost", send: changes(func(_ *process, m *control.Restored) {
			if len(m.Data) > 0 && m.Data[0] == pieceOfPart {
				m.Data = m.Data[:1]
			}
		})},
		{Name: "the floor at a checkpoint is left out", send: withoutFloors()},
	}
}

// withoutFloors leaves out the floors at the times of checkpoints.
func withoutFloors() func(*process, control.Message) control.Message {
	at := sim.Time(-1)
	return func(_ *process, m control.Message) control.Message {
		switch m := m.(type) {
		case *control.Cut:
			if m.Save > 0 {
				at = m.At
			}
		case *control.Floor:
			if m.At == at {
				return nil
			}
		}
		return m
	}
}
