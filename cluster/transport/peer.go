package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simnode/simnode/cluster/link"
)

// peer is the link with one node.
type peer struct {
	m      *Mesh
	name   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	// wake says that the session may have a frame, hurry that dialling is worth while now.
	wake, hurry chan struct{}

	// delivery is held while what a frame brought is handed out, so that it is in order even when two
	// connections are read. It comes before mu.
	delivery sync.Mutex

	mu      sync.Mutex
	session *link.Session
	up      bool
	// out is the connection that we dialled, in the one that the node dialled; nil if there is none.
	out, in *connection
	readers int
	// full is closed when there may be room again; nil if nobody waits.
	full  chan struct{}
	pulse bool
	stats PeerStats
}

// connection of a link in one direction.
type connection struct {
	net.Conn
	addr string
	// heard is when something was read last; busy says that what was read is being handed out.
	heard atomic.Int64
	busy  atomic.Bool
	// broken is closed at the first error, which why holds from then on.
	broken chan struct{}
	once   sync.Once
	why    error
}

func (m *Mesh) connection(conn net.Conn, addr string) *connection {
	c := &connection{Conn: conn, addr: addr, broken: make(chan struct{})}
	c.heard.Store(int64(m.now()))
	return c
}

// fail closes the connection; the first reason counts.
func (c *connection) fail(why error) {
	c.once.Do(func() {
		c.why = why
		_ = c.Close()
		close(c.broken)
	})
}

const (
	// mostReaders is how many connections that a node dialled may be read at a time: the last one and
	// some whose messages are still being handed out.
	mostReaders = 4
	// mostBatch is about how many bytes are written at once.
	mostBatch = 256 << 10
	// copied frames have bodies up to this size; larger ones are written from where they are.
	copied = 8 << 10
	// maxSignal is the largest frame that comes back on a connection.
	maxSignal = 2 << 10
	// signalTime is how long a sign of life may take to write.
	signalTime = time.Second
)

var (
	errSilent   = errors.New("no sign of life")
	errMoved    = errors.New("the node has another address now")
	errReplaced = errors.New("the node has made another connection")
)

func newPeer(m *Mesh, name string, session *link.Session) *peer {
	p := &peer{m: m, name: name, session: session, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(m.ctx)
	return p
}

// end closes what the link has open. Nothing is handed out any more, but for a message that is just being.
func (p *peer) end(why error) {
	p.cancel(why)
	p.mu.Lock()
	out, in := p.out, p.in
	p.mu.Unlock()
	for _, c := range []*connection{out, in} {
		if c != nil {
			c.fail(why)
		}
	}
}

// signal puts something into a channel of one place.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (p *peer) send(message []byte) error {
	p.mu.Lock()
	err := p.session.Send(message)
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sending to %s: %w", p.name, err)
	}
	signal(p.wake)
	return nil
}

// room returns what is closed when something was acknowledged from now on.
func (p *peer) room() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full == nil {
		p.full = make(chan struct{})
	}
	return p.full
}

// tick lets time pass.
func (p *peer) tick(now time.Duration) {
	p.mu.Lock()
	p.session.Tick(now)
	ready := p.session.Ready()
	p.mu.Unlock()
	if ready {
		signal(p.wake)
	}
}

// check ends connections that are silent or lead elsewhere, and asks for a sign of life.
func (p *peer) check(now time.Duration, addr string, known bool) {
	p.mu.Lock()
	out, in := p.out, p.in
	p.pulse = true
	p.mu.Unlock()
	signal(p.wake)
	for _, c := range []*connection{out, in} {
		if c == nil || c.busy.Load() {
			continue
		}
		if silent := now - time.Duration(c.heard.Load()); silent > p.m.o.DeadAfter {
			c.fail(fmt.Errorf("%w for %v", errSilent, silent.Round(time.Millisecond)))
		}
	}
	if out != nil && known && out.addr != addr {
		out.fail(fmt.Errorf("%w: %s", errMoved, addr))
	}
}

// run dials and writes until the end.
func (p *peer) run() {
	var backoff time.Duration
	var told string
	for p.ctx.Err() == nil {
		c, err := p.dial()
		if err == nil {
			told = ""
			if p.write(c); p.lost(c) {
				backoff = 0
			}
		} else if p.ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			p.m.t.event(Event{What: Unreachable, Peer: p.name, Err: err})
		}
		backoff = min(max(2*backoff, p.m.o.BackoffMin), p.m.o.BackoffMax)
		if p.pause(backoff/2 + rand.N(backoff)) {
			backoff = 0
		}
	}
}

// pause waits for d, or until there is reason to hurry.
func (p *peer) pause(d time.Duration) (hurry bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	case <-p.hurry:
		return true
	}
	return false
}

// dial connects to the node, wherever it is now.
func (p *peer) dial() (*connection, error) {
	addr, ok := p.m.o.Resolve(p.name)
	if !ok {
		return nil, fmt.Errorf("%s: no address is known", p.name)
	}
	p.mu.Lock()
	p.stats.Dials++
	p.mu.Unlock()
	conn, _, err := p.m.t.dial(p.ctx, KindLink, p.name, addr, p.m.t.o.HandshakeTimeout)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if errors.Is(err, ErrRefused) {
			p.stats.RefusedThere++
		}
		return nil, err
	}
	c := p.m.connection(conn, addr)
	p.out = c
	p.stats.Connects++
	p.session.Reconnected(p.m.now())
	if p.ctx.Err() != nil {
		c.fail(context.Cause(p.ctx))
	}
	p.m.wait.Go(func() { p.signs(c) })
	return c, nil
}

// lost forgets a connection that we dialled and reports whether it had been of use.
func (p *peer) lost(c *connection) (useful bool) {
	p.mu.Lock()
	p.out = nil
	useful = p.up
	p.up = false
	p.stats.Lost++
	p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.m.t.event(Event{What: LinkDown, Peer: p.name, Addr: c.addr, Err: c.why})
	}
	return useful
}

// signs reads what comes back on a connection that we dialled: signs of life, and why we are refused.
func (p *peer) signs(c *connection) {
	r := bufio.NewReaderSize(c, maxSignal)
	for {
		frame, err := readFrame(r, maxSignal)
		if err != nil {
			c.fail(err)
			return
		}
		c.heard.Store(int64(p.m.now()))
		if _, refusal, text := link.Signal(frame); refusal {
			p.mu.Lock()
			p.stats.RefusedThere++
			p.mu.Unlock()
			c.fail(fmt.Errorf("%w: %s", ErrRefused, printable(text)))
			return
		}
	}
}

// write writes frames to a connection until it is broken.
func (p *peer) write(c *connection) {
	b := newBatch(c)
	for {
		for p.collect(b) {
			if err := b.flush(); err != nil {
				c.fail(err)
				<-c.broken
				return
			}
		}
		select {
		case <-p.wake:
		case <-c.broken:
			return
		}
	}
}

// collect puts frames into a batch; false if there are none.
func (p *peer) collect(b *batch) bool {
	now := p.m.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulse {
		p.pulse = false
		f := link.Pulse()
		b.add(&f)
	}
	for b.size < mostBatch {
		f, ok := p.session.Next(now)
		if !ok {
			break
		}
		b.add(&f)
	}
	return b.size > 0
}

// listen reads a connection that the node dialled until it is broken.
func (p *peer) listen(conn net.Conn) {
	c := p.m.connection(conn, conn.RemoteAddr().String())
	p.mu.Lock()
	old := p.in
	tooMany := p.readers >= mostReaders
	if !tooMany {
		p.in = c
		p.readers++
	}
	p.mu.Unlock()
	if tooMany {
		c.fail(fmt.Errorf("%d connections from it are being read", mostReaders))
		p.m.t.refused(p.name, conn, c.why)
		return
	}
	if old != nil {
		old.fail(errReplaced)
	}
	if p.ctx.Err() != nil {
		c.fail(context.Cause(p.ctx))
	}
	signal(p.hurry) // it lives
	p.read(c)
	p.mu.Lock()
	p.readers--
	if p.in == c {
		p.in = nil
	}
	if !errors.Is(c.why, errReplaced) {
		p.stats.Lost++
	}
	p.mu.Unlock()
}

// read takes in frames until the connection is broken.
func (p *peer) read(c *connection) {
	r := bufio.NewReaderSize(&lively{p: p, c: c}, 64<<10)
	for {
		frame, err := readFrame(r, 0)
		if err == nil {
			err = p.take(c, frame)
		} else if !errors.Is(err, link.ErrFrame) {
			c.fail(err)
			return
		}
		if err != nil {
			if p.ctx.Err() == nil {
				p.refuse(c, err)
			}
			c.fail(err)
			return
		}
	}
}

// lively reads a connection that the node dialled, and gives signs of life in return while anything comes,
// so that a large frame on a slow line is not taken for silence.
type lively struct {
	p        *peer
	c        *connection
	answered time.Duration
}

func (l *lively) Read(b []byte) (int, error) {
	n, err := l.c.Read(b)
	if n == 0 {
		return n, err
	}
	now := l.p.m.now()
	l.c.heard.Store(int64(now))
	if now-l.answered >= l.p.m.o.Keepalive/2 {
		l.answered = now
		if e := reply(l.c, link.Pulse()); e != nil {
			return n, e
		}
	}
	return n, err
}

// refuse tells the other side and the counts why it is refused.
func (p *peer) refuse(c *connection, why error) {
	p.mu.Lock()
	p.stats.RefusedHere++
	p.mu.Unlock()
	p.m.t.refused(p.name, c, why)
	_ = reply(c, link.Refusal(why.Error()))
}

// reply writes a small frame on a connection that the node dialled.
func reply(c *connection, f link.Frame) error {
	if err := c.SetWriteDeadline(time.Now().Add(signalTime)); err != nil {
		return err
	}
	_, err := c.Write(f.AppendTo(nil))
	return err
}

// take hands a frame to the session and what it brought to the callbacks.
func (p *peer) take(c *connection, frame []byte) error {
	now := p.m.now()
	if pulse, _, _ := link.Signal(frame); pulse {
		return nil // reading it was answered
	}
	c.busy.Store(true)
	defer func() {
		c.heard.Store(int64(p.m.now()))
		c.busy.Store(false)
	}()
	p.delivery.Lock()
	defer p.delivery.Unlock()

	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return context.Cause(p.ctx)
	}
	before := p.session.Backlog()
	arrival, err := p.session.Receive(now, frame)
	boot, ready := p.session.Peer(), p.session.Ready()
	rose := p.session.Connected() && !p.up && p.out != nil
	addr := ""
	if rose {
		p.up, addr = true, p.out.addr
	}
	if p.full != nil && p.session.Backlog() < before {
		close(p.full)
		p.full = nil
	}
	p.mu.Unlock()

	if ready {
		signal(p.wake)
	}
	if rose {
		p.m.t.event(Event{What: LinkUp, Peer: p.name, Addr: addr})
	}
	if arrival.Replaced && p.m.o.Replaced != nil {
		p.m.o.Replaced(p.name, boot)
	}
	for _, message := range arrival.Messages {
		p.m.o.Received(p.name, boot, message)
	}
	return err
}

// readFrame reads one frame of at most limit bytes.
func readFrame(r *bufio.Reader, limit int) ([]byte, error) {
	prefix, err := r.Peek(link.PrefixSize)
	if err != nil {
		return nil, err
	}
	n, err := link.Length(prefix, limit)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, n)
	_, err = io.ReadFull(r, frame)
	return frame, err
}
