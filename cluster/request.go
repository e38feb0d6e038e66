package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A request is a byte that says what it is, the length of what follows (4 bytes, little-endian) and that. An
// answer has the same form; its byte is a status.
const (
	askApply  byte = 1 // milliseconds to wait (4 bytes), command
	askEnter  byte = 2 // an invitation
	askStatus byte = 3 // nothing
	// askCommitted has no body; the answer is a commitment.
	askCommitted byte = 4

	statusOK     byte = 0
	statusRetry  byte = 1 // not now, or not here; the text says why
	statusRefuse byte = 2 // never; the text says why
)

// maxRequest bounds requests and answers.
const maxRequest = MaxCommand + 1024

// idleLimit is how long a connection for requests stays open unused.
const idleLimit = time.Minute

// errRefused is an answer that no retry will change.
var errRefused = errors.New("refused")

func writeMessage(w io.Writer, kind byte, body []byte) error {
	if len(body) > maxRequest {
		return fmt.Errorf("%w: a message of %d bytes, at most %d are sent", errRefused, len(body), maxRequest)
	}
	b := make([]byte, 0, 5+len(body))
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	_, err := w.Write(append(b, body...))
	return err
}

// readMessage reads a message; memory grows with what has arrived, not with what is claimed.
func readMessage(r io.Reader) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxRequest {
		return 0, nil, fmt.Errorf("a message claims %d bytes, at most %d are taken", n, maxRequest)
	}
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, r, int64(n)); err != nil {
		return 0, nil, fmt.Errorf("a message of %d bytes ends after %d: %w", n, buf.Len(), err)
	}
	return head[0], buf.Bytes(), nil
}

// invitation asks a node to take part in the log.
type invitation struct {
	formation, term uint64
	// boot and instance of the node that is meant: one that took part anew since then is not.
	boot     string
	instance uint64
	// reset says that the node is not in the log's configuration, so that what it has is of no use.
	reset bool
}

func (i *invitation) encode() []byte {
	var b []byte
	for _, v := range []uint64{i.formation, i.term, i.instance} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	reset := byte(0)
	if i.reset {
		reset = 1
	}
	return append(append(b, reset), i.boot...)
}

func parseInvitation(b []byte) (i invitation, err error) {
	if len(b) < 26 || len(b) > 25+maxBoot || b[24] > 1 {
		return i, fmt.Errorf("an invitation of %d bytes is malformed", len(b))
	}
	return invitation{
		formation: binary.LittleEndian.Uint64(b), term: binary.LittleEndian.Uint64(b[8:]),
		instance: binary.LittleEndian.Uint64(b[16:]), reset: b[24] == 1, boot: string(b[25:]),
	}, nil
}

// status is what a node says of its part in the log.
type status struct {
	// formation of the cluster that it takes part in, and the last index of that one's log.
	formation uint64
	last      uint64
	// member says, if the node leads, whether who asks is in the configuration.
	leads, member bool
}

func (s *status) encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, s.formation)
	b = binary.LittleEndian.AppendUint64(b, s.last)
	flags := byte(0)
	if s.leads {
		flags |= 1
	}
	if s.member {
		flags |= 2
	}
	return append(b, flags)
}

func parseStatus(b []byte) (status, error) {
	if len(b) != 17 || b[16] > 3 {
		return status{}, fmt.Errorf("a status of %d bytes is malformed", len(b))
	}
	return status{
		formation: binary.LittleEndian.Uint64(b), last: binary.LittleEndian.Uint64(b[8:]),
		leads: b[16]&1 != 0, member: b[16]&2 != 0,
	}, nil
}

// callers keeps one idle connection to each node that requests were sent to.
type callers struct {
	mu   sync.Mutex
	idle map[string]call // by name
	done bool
}

type call struct {
	addr string
	conn net.Conn
}

// maxIdle is how many connections are kept.
const maxIdle = 16

// take returns the connection to a node at an address, nil if there is none; one to where it was before is
// closed.
func (p *callers) take(name, addr string) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.idle[name]
	if !ok {
		return nil
	}
	delete(p.idle, name)
	if c.addr != addr {
		_ = c.conn.Close()
		return nil
	}
	return c.conn
}

func (p *callers) put(name, addr string, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.idle[name]; p.done || taken || len(p.idle) >= maxIdle {
		_ = conn.Close()
		return
	}
	if p.idle == nil {
		p.idle = map[string]call{}
	}
	p.idle[name] = call{addr, conn}
}

// drop closes the connection to a node that is gone.
func (p *callers) drop(name string) { p.take(name, "") }

func (p *callers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = true
	for _, c := range p.idle {
		_ = c.conn.Close()
	}
	p.idle = nil
}

// ask sends a request to a node and waits for the answer.
func (c *Cluster) ask(ctx context.Context, name string, kind byte, body []byte) ([]byte, error) {
	addr, ok := c.resolve(name)
	if !ok {
		return nil, unknown(name)
	}
	if conn := c.callers.take(name, addr); conn != nil {
		answer, err := c.exchange(ctx, name, addr, conn, kind, body)
		// An idle connection may have been closed meanwhile: what was sent on it may be sent again, since
		// all requests may be repeated.
		if err == nil || errors.Is(err, errRefused) || errors.Is(err, errAnswered) || ctx.Err() != nil {
			return answer, err
		}
	}
	timeout := c.c.Timing.Request
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(d))
	}
	if timeout <= 0 {
		return nil, context.DeadlineExceeded
	}
	conn, err := c.net.Dial(kindRequest, name, addr, timeout)
	if err != nil {
		return nil, err
	}
	return c.exchange(ctx, name, addr, conn, kind, body)
}

// errAnswered marks an error that the other node answered.
var errAnswered = errors.New("answered")

func (c *Cluster) exchange(ctx context.Context, name, addr string, conn net.Conn, kind byte, body []byte) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if err := writeMessage(conn, kind, body); err != nil {
		stop()
		return nil, errors.Join(err, conn.Close())
	}
	got, answer, err := readMessage(conn)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, fmt.Errorf("no answer: %w", errors.Join(ctx.Err(), err))
	}
	if stop() {
		c.callers.put(name, addr, conn)
	} else {
		_ = conn.Close()
	}
	switch got {
	case statusOK:
		return answer, nil
	case statusRefuse:
		return nil, fmt.Errorf("%w: %s", errRefused, answer)
	}
	return nil, fmt.Errorf("%w: %s", errAnswered, answer)
}

func (c *Cluster) askStatus(ctx context.Context, name string) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, c.c.Timing.Request)
	defer cancel()
	b, err := c.ask(ctx, name, askStatus, []byte(c.c.Name))
	if err != nil {
		return status{}, err
	}
	return parseStatus(b)
}

func (c *Cluster) askEnter(ctx context.Context, name string, i invitation) error {
	ctx, cancel := context.WithTimeout(ctx, c.c.Timing.Request+shutdownLimit)
	defer cancel()
	_, err := c.ask(ctx, name, askEnter, i.encode())
	return err
}

// serving answers requests until the node stops.
func (c *Cluster) serving(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.wait.Go(func() { c.serve(conn) })
	}
}

// serve answers the requests of one connection, one after another.
func (c *Cluster) serve(conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	defer stop()
	for {
		if err := conn.SetDeadline(time.Now().Add(idleLimit)); err != nil {
			return
		}
		kind, body, err := readMessage(conn)
		if err != nil {
			return
		}
		status, answer := c.answer(kind, body)
		if err := conn.SetDeadline(time.Now().Add(idleLimit)); err != nil {
			return
		}
		if err := writeMessage(conn, status, answer); err != nil {
			return
		}
	}
}

func (c *Cluster) answer(kind byte, body []byte) (byte, []byte) {
	answer, err := c.handle(kind, body)
	switch {
	case err == nil:
		return statusOK, answer
	case errors.Is(err, errRefused):
		return statusRefuse, []byte(err.Error())
	}
	return statusRetry, []byte(err.Error())
}

func (c *Cluster) handle(kind byte, body []byte) ([]byte, error) {
	switch kind {
	case askApply:
		if len(body) < 4 {
			return nil, fmt.Errorf("%w: a request to apply of %d bytes", errRefused, len(body))
		}
		wait := time.Duration(binary.LittleEndian.Uint32(body)) * time.Millisecond
		ctx, cancel := context.WithTimeout(c.ctx, min(wait, idleLimit/2))
		defer cancel()
		return c.applyHere(ctx, body[4:])
	case askEnter:
		i, err := parseInvitation(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		return nil, c.enter(i)
	case askStatus:
		return c.status(string(body))
	case askCommitted:
		ctx, cancel := context.WithTimeout(c.ctx, c.c.Timing.Request)
		defer cancel()
		k, err := c.committed(ctx)
		return k.encode(), err
	}
	return nil, fmt.Errorf("%w: no request of kind %d is known", errRefused, kind)
}

func (c *Cluster) status(asking string) ([]byte, error) {
	rep := c.replica()
	if rep == nil {
		return nil, errors.New("this node takes no part in the log")
	}
	s := status{formation: rep.bound, last: rep.LastIndex(), leads: c.leads() != 0}
	servers, _, err := configuration(rep)
	if err != nil {
		return nil, err
	}
	for _, v := range servers {
		if v.name == asking {
			s.member = true
		}
	}
	return s.encode(), nil
}

// enter follows an invitation to take part in the log.
func (c *Cluster) enter(i invitation) error {
	c.life.Lock()
	defer c.life.Unlock()
	defer c.stir()
	rep := c.replica()
	switch {
	case c.isLeaving() || c.ctx.Err() != nil:
		return errors.New("this node leaves")
	case i.boot != c.c.Boot:
		return errors.New("another process of this node's name is meant")
	case i.formation == 0:
		return fmt.Errorf("%w: an invitation to no cluster", errRefused)
	case rep == nil:
		return c.join(i.formation, false)
	case rep.bound != i.formation:
		return c.elsewhere()
	case rep.empty() || !i.reset:
		return nil
	case i.instance != rep.instance:
		return errors.New("this node took part anew since then")
	}
	_, founded := c.founding()
	if term := rep.CurrentTerm(); i.term < term && founded {
		// Who invites may lead no longer, and not know that this node was added meanwhile. If it does
		// lead, adding the node as it is lets it learn of the term.
		c.c.Log.Info("this node keeps its log: it has seen a later term", "term", term, "inviting", i.term)
		return nil
	}
	if err := c.forget("it was removed from the cluster and takes part anew"); err != nil {
		return err
	}
	return c.join(i.formation, false)
}

// elsewhere says why a node follows no invitation from another cluster. Only its own look at gossip takes it
// from one to the other, so that two leaders do not pull at it in turn.
func (c *Cluster) elsewhere() error {
	if _, founded := c.founding(); founded {
		return errors.New("this node belongs to another cluster of the same name; stop it, delete its data folder, and start it again to take it in")
	}
	return errors.New("this node takes part in another cluster of the same name, which was founded at the same time; one of the two gives way")
}
