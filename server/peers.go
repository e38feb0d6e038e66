package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/cluster/link"
	"github.com/simnode/simnode/sim"
)

// The first byte of what goes over links.
const (
	payloadControl byte = iota + 1
	payloadQuestion
	payloadAnswer
	payloadCopy
)

// Bounds of what nodes ask one another.
const (
	maxQuestion = 4 << 10
	maxAnswer   = 4 << 20
	// maxServed is how many questions of all nodes are answered at once; more are refused.
	maxServed = 32
	// askFor is how long an answer may take unless the caller's context ends before.
	askFor = 5 * time.Second
	// linesInAnswer is how many log lines go into an answer.
	linesInAnswer = 500
)

// What nodes ask one another.
const (
	askProgress = "progress"
	askLogs     = "logs"
	askResult   = "result"
	askFile     = "file"
)

// question is what a node asks another one.
type question struct {
	ID  uint64 `json:"id"`
	Ask string `json:"ask"`
	Job string `json:"job,omitempty"`
	// File and Offset say which part of a file is wanted.
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// After is the number of a log line; Last asks for that many of the last lines instead.
	After uint64 `json:"after,omitempty"`
	Last  int    `json:"last,omitempty"`
}

// answer is what it gets; fields that were not asked for are empty.
type answer struct {
	ID       uint64    `json:"id"`
	Kind     api.Kind  `json:"kind,omitempty"`
	Error    string    `json:"error,omitempty"`
	Progress *progress `json:"progress,omitempty"`
	Result   *result   `json:"result,omitempty"`
	Data     []byte    `json:"data,omitempty"`
	// Lines of a log, and the number of the last one.
	Lines []api.LogLine `json:"lines,omitempty"`
	After uint64        `json:"after,omitempty"`
}

// progress is what a coordinator knows of how far a job is.
type progress struct {
	Now    sim.Time `json:"now"`
	End    sim.Time `json:"end"`
	Events uint64   `json:"events"`
	Rate   float64  `json:"rate"`
	// Waits says what the job waits for.
	Waits string `json:"waits,omitempty"`
}

// peers lets nodes ask one another, over their links.
type peers struct {
	links links
	log   *slog.Logger
	// serve answers a question of another node.
	serve func(context.Context, *question) (*answer, error)
	ctx   context.Context
	slots chan struct{}
	group sync.WaitGroup

	mu    sync.Mutex
	last  uint64
	asked map[uint64]asked
}

// asked is a question that waits for its answer.
type asked struct {
	node string
	to   chan *answer
}

func newPeers(ctx context.Context, log *slog.Logger, serve func(context.Context, *question) (*answer, error)) *peers {
	return &peers{log: log, serve: serve, ctx: ctx, slots: make(chan struct{}, maxServed), asked: map[uint64]asked{}}
}

// ask asks a node and waits for the answer.
func (p *peers) ask(ctx context.Context, node string, q question) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	to := make(chan *answer, 1)
	p.mu.Lock()
	p.last++
	q.ID = p.last
	p.asked[q.ID] = asked{node, to}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.asked, q.ID)
		p.mu.Unlock()
	}()
	if err := p.send(ctx, node, payloadQuestion, &q); err != nil {
		return nil, api.Errorf(api.Unavailable, "node %s cannot be asked: %v", node, err)
	}
	select {
	case a := <-to:
		if a.Error != "" {
			return nil, &api.Error{Kind: a.Kind, Text: a.Error}
		}
		return a, nil
	case <-p.ctx.Done():
		return nil, api.Errorf(api.Unavailable, "this node ends; ask another one")
	case <-ctx.Done():
		return nil, api.Errorf(api.Unavailable, "node %s does not answer; simnode nodes tells whether it is there", node)
	}
}

// send sends a question or answer, waiting for room.
func (p *peers) send(ctx context.Context, node string, kind byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.sendRaw(ctx, node, append([]byte{kind}, data...))
}

// sendRaw sends a payload, waiting for room.
func (p *peers) sendRaw(ctx context.Context, node string, payload []byte) error {
	for {
		err := p.links.Send(node, payload)
		if !errors.Is(err, link.ErrFull) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// hear takes a question or answer in. It does not wait.
func (p *peers) hear(from string, kind byte, data []byte) error {
	if kind == payloadAnswer {
		return p.answered(from, data)
	}
	q := &question{}
	if len(data) > maxQuestion {
		return fmt.Errorf("a question of %d bytes: %d are the most", len(data), maxQuestion)
	}
	if err := json.Unmarshal(data, q); err != nil {
		return fmt.Errorf("a question that cannot be read: %w", err)
	}
	select {
	case p.slots <- struct{}{}:
	default:
		return fmt.Errorf("question %q was not answered: %d are being answered", q.Ask, maxServed)
	}
	p.group.Go(func() {
		defer func() { <-p.slots }()
		p.reply(from, q)
	})
	return nil
}

func (p *peers) answered(from string, data []byte) error {
	a := &answer{}
	if len(data) > maxAnswer {
		return fmt.Errorf("an answer of %d bytes: %d are the most", len(data), maxAnswer)
	}
	if err := json.Unmarshal(data, a); err != nil {
		return fmt.Errorf("an answer that cannot be read: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.asked[a.ID]; ok && w.node == from {
		w.to <- a
		delete(p.asked, a.ID)
	}
	return nil
}

// reply answers a question.
func (p *peers) reply(to string, q *question) {
	ctx, cancel := context.WithTimeout(p.ctx, askFor)
	defer cancel()
	a, err := p.serve(ctx, q)
	if err != nil {
		a = &answer{Kind: api.Unavailable, Error: err.Error()}
		var told *api.Error
		if errors.As(err, &told) {
			a.Kind = told.Kind
		}
	}
	a.ID = q.ID
	if err := p.send(ctx, to, payloadAnswer, a); err != nil {
		p.log.Debug("an answer was not sent", "to", to, "error", err)
	}
}

// wait waits for answers being made; the context given at first must be done.
func (p *peers) wait() { p.group.Wait() }
