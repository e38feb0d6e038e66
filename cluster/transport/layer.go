package transport

import (
	"fmt"
	"net"
	"sync"
)

// Stream is a connection past its preambles.
type Stream struct {
	net.Conn
	peer string
	done func()
	once sync.Once
}

// Peer returns the name of the node at the other side; with TLS its certificate carries it.
func (s *Stream) Peer() string { return s.peer }

// Close closes the connection.
func (s *Stream) Close() error {
	if s.done != nil {
		s.once.Do(s.done)
	}
	return s.Conn.Close()
}

// stream wraps an accepted connection and counts it while it is open.
func (t *Transport) stream(conn net.Conn, peer string) *Stream {
	t.count(1)
	return &Stream{Conn: conn, peer: peer, done: func() { t.count(-1) }}
}

func (t *Transport) count(n int) {
	t.mu.Lock()
	t.counts.Streams += n
	t.mu.Unlock()
}

// layer is a listener for the streams of one kind.
type layer struct {
	t       *Transport
	kind    byte
	streams chan *Stream
	ended   chan struct{}
	once    sync.Once
}

// waitingStreams is how many streams of a kind may wait for Accept.
const waitingStreams = 64

// Layer returns a listener for the streams of one kind, which must not be KindLink. Only one can be open
// for a kind at a time. Streams that nobody accepts are closed when too many wait.
func (t *Transport) Layer(kind byte) (net.Listener, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, ErrClosed
	case kind == KindLink || t.layers[kind] != nil:
		return nil, fmt.Errorf("transport: streams of kind %d have a listener already", kind)
	}
	l := &layer{t: t, kind: kind, streams: make(chan *Stream, waitingStreams), ended: make(chan struct{})}
	t.layers[kind] = l
	return l, nil
}

// offer hands a stream to Accept.
func (l *layer) offer(s *Stream) {
	select {
	case l.streams <- s:
	default:
		_ = s.Close()
		l.t.refused(s.peer, s, fmt.Errorf("%d streams of kind %d wait already", waitingStreams, l.kind))
		return
	}
	select {
	case <-l.ended: // perhaps after it was emptied
		l.empty()
	default:
	}
}

// Accept waits for the next stream. It returns ErrClosed once the listener is closed.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case <-l.ended:
		return nil, ErrClosed
	default:
	}
	select {
	case s := <-l.streams:
		return s, nil
	case <-l.ended:
		return nil, ErrClosed
	}
}

// Close closes the listener and the streams that wait.
func (l *layer) Close() error {
	l.t.mu.Lock()
	if l.t.layers[l.kind] == l {
		delete(l.t.layers, l.kind)
	}
	l.t.mu.Unlock()
	l.end()
	return nil
}

func (l *layer) end() {
	l.once.Do(func() { close(l.ended) })
	l.empty()
}

func (l *layer) empty() {
	for {
		select {
		case s := <-l.streams:
			_ = s.Close()
		default:
			return
		}
	}
}

// Addr returns the address of the port.
func (l *layer) Addr() net.Addr { return l.t.Addr() }
