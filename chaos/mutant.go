package chaos

import (
	"github.com/simnode/simnode/control"
	"github.com/simnode/simnode/lbts"
)

// Mutant is a deliberate mistake at a seam between the machines; nil makes none.
type Mutant struct {
	// Name says what it does wrong.
	Name string
	// send changes a message that a machine sends: it returns what is sent in its place.
	send func(p *process, to int, m control.Message) []control.Message
	// hear changes what a machine is told.
	hear func(p *process, h control.Heard) control.Heard
	// frame changes the messages that a frame brought.
	frame func(l *peer, frame []byte, messages [][]byte) [][]byte
	// grant changes grants before a part takes them.
	grant func(s *share, grants []lbts.Grant) []lbts.Grant
	// noHold lets turns go on that should not.
	noHold bool
	// toAny sends what is for one process to any of its node.
	toAny bool
}

func (m *Mutant) sends(p *process, to int, x control.Message) []control.Message {
	if m == nil || m.send == nil {
		return []control.Message{x}
	}
	return m.send(p, to, x)
}

func (m *Mutant) heard(p *process, h control.Heard) control.Heard {
	if m == nil || m.hear == nil {
		return h
	}
	return m.hear(p, h)
}

func (m *Mutant) received(l *peer, frame []byte, messages [][]byte) [][]byte {
	if m == nil || m.frame == nil {
		return messages
	}
	return m.frame(l, frame, messages)
}

func (m *Mutant) granted(s *share, grants []lbts.Grant) []lbts.Grant {
	if m == nil || m.grant == nil {
		return grants
	}
	return m.grant(s, grants)
}

func (m *Mutant) sendsToAny() bool { return m != nil && m.toAny }

func (m *Mutant) ignoresHold() bool { return m != nil && m.noHold }
