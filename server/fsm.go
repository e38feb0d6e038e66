package server

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/simnode/simnode/control"
)

// machine is the replicated state: package cluster applies commands to it, the loop is told.
type machine struct {
	state atomic.Pointer[control.State]
	// changed is told of each new state.
	changed func(*control.State)

	mu sync.Mutex
	// began is the wall time at which a job's epoch began to run, in Unix milliseconds, for people.
	began map[string]int64
	// news is closed and replaced when the state changes.
	news chan struct{}
}

func newMachine(changed func(*control.State)) *machine {
	m := &machine{changed: changed, began: map[string]int64{}, news: make(chan struct{})}
	m.state.Store(&control.State{})
	return m
}

// Apply implements cluster.FSM.
func (m *machine) Apply(_ uint64, command []byte) []byte {
	cmd, err := control.UnmarshalCommand(command)
	if err != nil {
		return encodeAnswer(control.Answered{Error: err.Error()})
	}
	next, answer := m.state.Load().Apply(cmd)
	if cmd.Move != nil && cmd.Move.Epoch != 0 && answer.Error == "" {
		m.mu.Lock()
		m.began[cmd.Move.Job] = cmd.At
		m.mu.Unlock()
	}
	m.set(next)
	return encodeAnswer(answer)
}

func encodeAnswer(a control.Answered) []byte {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // it is made of strings
	}
	return data
}

// Snapshot implements cluster.FSM.
func (m *machine) Snapshot() ([]byte, error) { return control.MarshalState(m.state.Load()) }

// Restore implements cluster.FSM.
func (m *machine) Restore(data []byte) error {
	state := &control.State{}
	if data != nil {
		var err error
		if state, err = control.UnmarshalState(data); err != nil {
			return err
		}
	}
	m.set(state)
	return nil
}

func (m *machine) set(state *control.State) {
	m.state.Store(state)
	m.mu.Lock()
	close(m.news)
	m.news = make(chan struct{})
	for id := range m.began {
		if state.Job(id) == nil {
			delete(m.began, id)
		}
	}
	m.mu.Unlock()
	m.changed(state)
}

// watch returns the state and a channel that is closed when there is another one.
func (m *machine) watch() (*control.State, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Load(), m.news
}

// beganAt is when a job began to run, in Unix milliseconds, or 0 if that is not known here.
func (m *machine) beganAt(job string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.began[job]
}
