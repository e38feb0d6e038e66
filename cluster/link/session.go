package link

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
)

// Config of a Session. The zero value of a field stands for its default.
type Config struct {
	// Window is how many bytes may wait for acknowledgement, sent or not; default 16 MiB. One message of
	// any allowed size is taken when nothing waits.
	Window int
	// MaxMessage is the largest message in bytes, sent or received; default and most 64 MiB.
	MaxMessage int
	// Fragment is how many bytes of a message go into one frame; default 2 MiB, at least 64 bytes and
	// at most what fits into MaxFrame.
	Fragment int
	// Resend is how long after its transmission a frame is sent again if it was not acknowledged; it
	// doubles up to eight times itself while nothing is acknowledged. 0, the default, means never: right
	// for a channel that loses nothing until it breaks.
	Resend time.Duration
	// HelloEvery is between hellos while the other end does not answer; default 1 s.
	HelloEvery time.Duration
	// AckBytes received without an acknowledgement sent cause one; default 256 KiB. AckDelay is the
	// longest time that one is held back; default 20 ms.
	AckBytes int
	AckDelay time.Duration
	// Ahead is how many frames that came too early are kept; default 64. Only channels that reorder or
	// lose need any.
	Ahead int
	// CompressAbove is the size in bytes above which messages are compressed (s2) if that saves an
	// eighth; 0, the default, means never. Both ends understand either.
	CompressAbove int
}

const (
	maxMessage = 64 << 20
	// maxRetired is how many replaced peers are remembered; it bounds how long, in restarts, the hellos
	// of a dead process may be on the way.
	maxRetired = 1024
)

func (c Config) withDefaults() (Config, error) {
	c.Window = cmp.Or(c.Window, 16<<20)
	c.MaxMessage = cmp.Or(c.MaxMessage, maxMessage)
	c.Fragment = cmp.Or(c.Fragment, 2<<20)
	c.HelloEvery = cmp.Or(c.HelloEvery, time.Second)
	c.AckBytes = cmp.Or(c.AckBytes, 256<<10)
	c.AckDelay = cmp.Or(c.AckDelay, 20*time.Millisecond)
	c.Ahead = cmp.Or(c.Ahead, 64)
	switch {
	case min(c.Window, c.MaxMessage, c.Fragment, c.AckBytes, c.Ahead) < 0 || c.CompressAbove < 0:
		return c, fmt.Errorf("link: negative size in %+v", c)
	case min(c.HelloEvery, c.AckDelay) < 0 || c.Resend < 0:
		return c, fmt.Errorf("link: negative time in %+v", c)
	case c.MaxMessage > maxMessage:
		return c, fmt.Errorf("link: messages of %d bytes, at most %d can be allowed", c.MaxMessage, maxMessage)
	case c.Fragment < frameCost || c.Fragment > MaxFrame-headSize:
		return c, fmt.Errorf("link: fragments of %d bytes, %d to %d are allowed", c.Fragment, frameCost, MaxFrame-headSize)
	}
	return c, nil
}

// Stats counts what a Session did since it was made.
type Stats struct {
	// Messages given to Send and handed out by Receive.
	MessagesSent, MessagesReceived uint64
	// Frames and bytes transmitted, whatever became of them, and received, refused ones included.
	FramesSent, BytesSent         uint64
	FramesReceived, BytesReceived uint64
	// Resent are data frames transmitted again, Acks frames that carried nothing else.
	Resent, Acks uint64
	// Duplicates are data frames received before, Early those dropped because they came too early.
	Duplicates, Early uint64
	// Refused are frames of other processes, clusters or versions, and malformed ones.
	Refused uint64
	// Replaced counts how often the other end was replaced; Dropped the frames that had not been
	// acknowledged then.
	Replaced, Dropped uint64
}

// Arrival is what a received frame brought.
type Arrival struct {
	// Replaced says that the other end is another process, or another session of the same process, than
	// before.
	Replaced bool
	// Messages that came whole, in order. The slice is valid until the next call of Receive; the
	// messages belong to the caller, but several may share memory with the frame.
	Messages [][]byte
}

// Session is one end of a link. Its methods must not be called at the same time. Times are durations
// since any fixed moment, and never go back.
type Session struct {
	self Identity
	me   end
	name string // of the peer
	cfg  Config

	// peer is the other end; empty while unknown. confirmed says that it answered since Reconnected.
	peer             end
	known, confirmed bool
	number           uint64 // of our hellos; those from floor on were sent to be echoed by a new peer
	floor            uint64
	echo             uint64 // largest number in hellos of peer
	retired          []uint64
	retiredAt        int

	// A hello is due at once if helloNow, else at helloAt unless confirmed. It answers answer if that
	// is not empty.
	helloNow   bool
	helloAt    time.Duration
	answer     end
	answerEcho uint64

	txToken, rxToken uint64
	tx               sender
	rx               receiver
	head             head
	out              [][]byte
	stats            Stats
}

// sender is the half of a Session that sends.
type sender struct {
	// queue of frames from number first on that are not acknowledged; those before next have been looked
	// at by Next since something fell due.
	queue   []outgoing
	gone    int // frames at the front of queue that are acknowledged
	first   uint64
	next    int // index in queue
	backlog int
	resend  time.Duration
}

// outgoing is a frame to be sent.
type outgoing struct {
	body []byte
	sum  uint32
	kind kind
	due  bool
	sent bool
	at   time.Duration // when it was sent last
}

// receiver is the half of a Session that receives.
type receiver struct {
	next  uint64 // number of the frame expected
	parts [][]byte
	size  int     // of parts
	early []early // ring by number; nil until needed
	ahead int     // bytes in early
	// An acknowledgement is due at once if ackNow, else at ackAt if bytes are not 0.
	ackNow bool
	ackAt  time.Duration
	bytes  int
}

// early is a frame that came too early.
type early struct {
	here bool
	kind kind
	body []byte
}

// New makes a Session for the link between self and the node named peer.
func New(self Identity, peer string, cfg Config) (*Session, error) {
	if err := self.Check(); err != nil {
		return nil, fmt.Errorf("link: own identity: %w", err)
	}
	if len(peer) == 0 || len(peer) > 255 {
		return nil, fmt.Errorf("link: peer name of %d bytes, 1 to 255 expected", len(peer))
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Session{self: self, me: end{self.Boot, self.Session}, name: peer, cfg: cfg, number: 1, floor: 1, helloNow: true}
	s.reset()
	return s, nil
}

// reset makes both directions begin again.
func (s *Session) reset() {
	s.tx = sender{first: 1, resend: s.cfg.Resend}
	s.rx = receiver{next: 1}
}

// Peer returns the boot id of the other end, "" while it is unknown.
func (s *Session) Peer() string { return s.peer.boot }

// Connected reports whether the other end has answered since the last Reconnected.
func (s *Session) Connected() bool { return s.confirmed }

// Backlog returns how many bytes wait for acknowledgement, sent or not, with a little for each frame.
func (s *Session) Backlog() int { return s.tx.backlog }

// Stats returns the counts so far.
func (s *Session) Stats() Stats { return s.stats }

// Send queues a message. The Session keeps it, so it must not be changed afterwards. It returns ErrFull
// when the window has no room and ErrTooLarge when the message could never be sent; then it was not queued.
func (s *Session) Send(message []byte) error {
	if len(message) > s.cfg.MaxMessage {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(message), s.cfg.MaxMessage)
	}
	if s.tx.backlog > 0 && s.tx.backlog+len(message)+frameCost > s.cfg.Window {
		return ErrFull
	}
	last := kindData
	if s.cfg.CompressAbove > 0 && len(message) > s.cfg.CompressAbove {
		if packed := s2.Encode(nil, message); len(packed) < len(message)-len(message)/8 {
			message, last = packed, kindPacked
		}
	}
	for len(message) > s.cfg.Fragment {
		s.tx.push(message[:s.cfg.Fragment:s.cfg.Fragment], kindPart)
		message = message[s.cfg.Fragment:]
	}
	s.tx.push(message, last)
	s.stats.MessagesSent++
	return nil
}

func (t *sender) push(body []byte, k kind) {
	if t.gone > 0 && len(t.queue) == cap(t.queue) {
		n := copy(t.queue, t.queue[t.gone:])
		clear(t.queue[n:])
		t.queue, t.next, t.gone = t.queue[:n], t.next-t.gone, 0
	}
	t.queue = append(t.queue, outgoing{body: body, sum: checksum(body), kind: k, due: true})
	t.backlog += len(body) + frameCost
}

// Reconnected says that the channel is a new one: what was sent on the old one may be lost. Both ends
// exchange hellos and go on from what was received.
func (s *Session) Reconnected(now time.Duration) {
	s.number++
	s.confirmed, s.helloNow, s.helloAt = false, true, now
}

// Tick lets time pass. It matters no earlier than Deadline.
func (s *Session) Tick(now time.Duration) {
	if !s.confirmed && now >= s.helloAt {
		s.helloNow = true
	}
	if s.rx.bytes > 0 && now >= s.rx.ackAt {
		s.rx.ackNow = true
	}
	if at, ok := s.resendAt(); ok && now >= at {
		s.tx.again(now - s.tx.resend)
		s.tx.resend = min(2*s.tx.resend, 8*s.cfg.Resend)
	}
}

// resendAt returns when the oldest frame is to be sent again.
func (s *Session) resendAt() (time.Duration, bool) {
	t := &s.tx
	if s.cfg.Resend == 0 || !s.confirmed || t.gone == len(t.queue) || t.queue[t.gone].due {
		return 0, false
	}
	return t.queue[t.gone].at + t.resend, true
}

// again makes frames due that were sent no later than at.
func (t *sender) again(at time.Duration) {
	for i := t.gone; i < len(t.queue); i++ {
		if o := &t.queue[i]; o.sent && o.at <= at {
			o.due = true
		}
	}
	t.next = t.gone
}

// Deadline returns when Tick has to be called next, if nothing else happens before.
func (s *Session) Deadline() (at time.Duration, ok bool) {
	earliest := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if !s.confirmed && !s.helloNow {
		earliest(s.helloAt)
	}
	if s.rx.bytes > 0 && !s.rx.ackNow {
		earliest(s.rx.ackAt)
	}
	if t, some := s.resendAt(); some {
		earliest(t)
	}
	return at, ok
}

// Ready reports whether Next has a frame.
func (s *Session) Ready() bool {
	if s.helloNow {
		return true
	}
	return s.confirmed && (s.rx.ackNow || s.tx.skip())
}

// skip moves next to the first frame that is due and reports whether there is one.
func (t *sender) skip() bool {
	for t.next < len(t.queue) && !t.queue[t.next].due {
		t.next++
	}
	return t.next < len(t.queue)
}

// Next returns the next frame to be transmitted, or false if there is none now.
func (s *Session) Next(now time.Duration) (f Frame, ok bool) {
	switch {
	case s.helloNow:
		f = s.hello(now)
	case !s.confirmed:
		return Frame{}, false
	case s.tx.skip():
		t := &s.tx
		o := &t.queue[t.next]
		f = s.head.numbered(o.kind, s.txToken, t.first+uint64(t.next-t.gone), s.rx.next-1, o.body, o.sum)
		if o.sent {
			s.stats.Resent++
		}
		o.due, o.sent, o.at = false, true, now
		t.next++
		s.rx.acknowledged()
	case s.rx.ackNow:
		f = s.head.numbered(kindAck, s.txToken, 0, s.rx.next-1, nil, 0)
		s.rx.acknowledged()
		s.stats.Acks++
	default:
		return Frame{}, false
	}
	s.stats.FramesSent++
	s.stats.BytesSent += uint64(f.Len())
	return f, true
}

func (r *receiver) acknowledged() { r.ackNow, r.bytes = false, 0 }

// hello makes the hello that is due.
func (s *Session) hello(now time.Duration) Frame {
	h := hello{from: s.self, toName: s.name, to: s.peer, number: s.number, echo: s.echo, asks: !s.confirmed}
	if s.answer != (end{}) && s.answer != s.peer {
		h.to, h.echo, h.asks = s.answer, s.answerEcho, true
	} else if s.known {
		h.received = s.rx.next - 1
		s.rx.acknowledged()
	}
	s.answer, s.answerEcho = end{}, 0
	s.helloNow, s.helloAt = false, now+s.cfg.HelloEvery
	return plain(kindHello, h.append(nil))
}

// Receive takes in a frame, whole and as it was transmitted, and returns what it brought. The Session
// keeps it, so it must not be changed afterwards. On an error the frame had no effect, except that it may
// cause a hello; the Session stays usable. Pulses and refusals have no effect either.
func (s *Session) Receive(now time.Duration, frame []byte) (Arrival, error) {
	s.stats.FramesReceived++
	s.stats.BytesReceived += uint64(len(frame))
	a, err := s.receive(now, frame)
	if err != nil {
		s.stats.Refused++
		return Arrival{}, err
	}
	s.stats.MessagesReceived += uint64(len(a.Messages))
	return a, nil
}

func (s *Session) receive(now time.Duration, frame []byte) (Arrival, error) {
	r, err := parse(frame)
	if err != nil {
		return Arrival{}, err
	}
	switch r.kind {
	case kindHello:
		return s.greeted(r.body)
	case kindPulse, kindRefusal:
		return Arrival{}, nil
	}
	if !s.known || r.token != s.rxToken {
		// Perhaps the other end does not know yet who we are.
		s.helloNow = s.helloNow || now >= s.helloAt
		return Arrival{}, ErrStale
	}
	if err := s.checkAck(r.ack); err != nil {
		return Arrival{}, err
	}
	if r.kind == kindAck {
		s.acked(r.ack)
		return Arrival{}, nil
	}
	if r.seq == 0 {
		return Arrival{}, fmt.Errorf("%w: data numbered 0, numbers begin at 1", ErrFrame)
	}
	s.out = s.out[:0]
	if err := s.data(now, r); err != nil {
		return Arrival{}, err
	}
	s.acked(r.ack)
	return Arrival{Messages: s.out}, nil
}

// greeted takes in a hello.
func (s *Session) greeted(body []byte) (Arrival, error) {
	h, err := parseHello(body, s.self.Version)
	if err != nil {
		return Arrival{}, err
	}
	if err := s.check(&h); err != nil {
		return Arrival{}, err
	}
	from := end{h.from.Boot, h.from.Session}
	forMe := h.to == s.me
	fresh := forMe && h.echo == s.number
	alive := forMe && h.echo >= s.floor && h.echo <= s.number
	switch {
	case slices.Contains(s.retired, token(from, s.me)):
		return Arrival{}, fmt.Errorf("%w: process %s of %s was replaced by %s", ErrStale, from, s.name, s.peer)
	case s.known && from == s.peer:
		if forMe {
			if err := s.checkAck(h.received); err != nil {
				return Arrival{}, err
			}
			s.acked(h.received)
		}
		s.echo = max(s.echo, h.number)
		if fresh && !s.confirmed {
			s.confirm()
		}
		s.helloNow = s.helloNow && !s.confirmed || h.asks
		return Arrival{}, nil
	case !alive:
		s.answer, s.answerEcho, s.helloNow = from, h.number, true
		return Arrival{}, nil
	case h.received != 0:
		return Arrival{}, fmt.Errorf("%w: a hello of a new process acknowledges %d frames", ErrFrame, h.received)
	}
	replaced := s.adopt(from, h.number, fresh)
	s.helloNow = h.asks || !fresh
	return Arrival{Replaced: replaced}, nil
}

// check refuses hellos that are not from this cluster, version and peer.
func (s *Session) check(h *hello) error {
	switch {
	case h.from.Version != s.self.Version:
		return fmt.Errorf("%w: %s speaks version %d, %s version %d; run the same release on both",
			ErrVersion, s.name, h.from.Version, s.self.Name, s.self.Version)
	case h.from.Cluster != s.self.Cluster:
		return fmt.Errorf("%w: %s belongs to cluster %q, %s to %q", ErrCluster, h.from.Name, h.from.Cluster, s.self.Name, s.self.Cluster)
	case h.from.Name != s.name:
		return fmt.Errorf("%w: %q where %q was expected", ErrName, h.from.Name, s.name)
	case h.toName != s.self.Name:
		return fmt.Errorf("%w: %s speaks to %q, this is %q", ErrName, s.name, h.toName, s.self.Name)
	}
	return nil
}

// confirm says that peer answers on the present channel: what it has not received is sent again.
func (s *Session) confirm() {
	s.confirmed = true
	s.tx.resend = s.cfg.Resend
	for i := s.tx.gone; i < len(s.tx.queue); i++ {
		s.tx.queue[i].due = true
	}
	s.tx.next = s.tx.gone
}

// adopt takes the process at the other end for the peer, and reports whether there was one before. Fresh
// says that it has answered on the present channel.
func (s *Session) adopt(peer end, number uint64, fresh bool) (replaced bool) {
	if s.known {
		s.stats.Replaced++
		s.stats.Dropped += uint64(len(s.tx.queue) - s.tx.gone)
		s.retire()
		s.reset()
		replaced = true
	}
	s.peer, s.known, s.echo = peer, true, number
	s.answer, s.answerEcho = end{}, 0
	s.txToken, s.rxToken = token(s.me, peer), token(peer, s.me)
	// Echoes that others sent of this number count no longer.
	s.number++
	s.floor = s.number
	s.confirmed = false
	if fresh {
		s.confirm()
	}
	return replaced
}

// retire remembers that the peer never comes back.
func (s *Session) retire() {
	if len(s.retired) < maxRetired {
		s.retired = append(s.retired, s.rxToken)
		return
	}
	s.retired[s.retiredAt] = s.rxToken
	s.retiredAt = (s.retiredAt + 1) % maxRetired
}

// checkAck refuses the acknowledgement of what was never sent.
func (s *Session) checkAck(ack uint64) error {
	t := &s.tx
	if ack < t.first {
		return nil
	}
	if n := ack - t.first + 1; n > uint64(len(t.queue)-t.gone) || !t.queue[t.gone+int(n)-1].sent {
		return fmt.Errorf("%w: frame %d is acknowledged, which was not sent", ErrFrame, ack)
	}
	return nil
}

// acked drops what the peer has received; checkAck has passed.
func (s *Session) acked(ack uint64) {
	t := &s.tx
	if ack < t.first {
		return
	}
	t.resend = s.cfg.Resend
	for ; t.first <= ack; t.first++ {
		t.backlog -= len(t.queue[t.gone].body) + frameCost
		t.queue[t.gone] = outgoing{}
		t.gone++
	}
	if t.gone == len(t.queue) {
		t.queue, t.gone = t.queue[:0], 0
		t.next = 0
	}
	t.next = max(t.next, t.gone)
}

// data takes in a data frame and appends to out the messages that it completes.
func (s *Session) data(now time.Duration, r received) error {
	x := &s.rx
	switch ahead := r.seq - x.next; {
	case r.seq < x.next:
		s.stats.Duplicates++
		x.ackNow = true
		return nil
	case ahead > uint64(s.cfg.Ahead):
		s.stats.Early++
		return nil
	case ahead > 0:
		if x.early == nil {
			x.early = make([]early, s.cfg.Ahead+1)
		}
		e := &x.early[r.seq%uint64(len(x.early))]
		if e.here {
			s.stats.Duplicates++
			return nil
		}
		if x.ahead+len(r.body)+frameCost > s.cfg.Window {
			s.stats.Early++
			return nil
		}
		x.ahead += len(r.body) + frameCost
		*e = early{true, r.kind, r.body}
		return nil
	}
	if err := s.accept(now, r.kind, r.body); err != nil {
		return err
	}
	for x.early != nil {
		e := &x.early[x.next%uint64(len(x.early))]
		if !e.here {
			return nil
		}
		k, body := e.kind, e.body
		*e = early{}
		x.ahead -= len(body) + frameCost
		if err := s.accept(now, k, body); err != nil {
			// It will be sent again and refused then; what came before it is to be handed out.
			s.stats.Refused++
			return nil
		}
	}
	return nil
}

// accept takes in the frame that is next.
func (s *Session) accept(now time.Duration, k kind, body []byte) error {
	x := &s.rx
	if x.size+len(body) > s.cfg.MaxMessage || len(x.parts)*frameCost > s.cfg.MaxMessage {
		return fmt.Errorf("%w: a message of more than %d bytes, or in too many parts", ErrFrame, s.cfg.MaxMessage)
	}
	if k == kindPart {
		if len(body) == 0 {
			return fmt.Errorf("%w: an empty part of a message", ErrFrame)
		}
		x.parts, x.size = append(x.parts, body), x.size+len(body)
	} else {
		message, err := x.whole(body, k == kindPacked, s.cfg.MaxMessage)
		if err != nil {
			return err
		}
		s.out = append(s.out, message)
		x.parts, x.size = nil, 0
	}
	if x.bytes == 0 {
		x.ackAt = now + s.cfg.AckDelay
	}
	x.bytes += len(body) + frameCost
	x.ackNow = x.ackNow || x.bytes >= s.cfg.AckBytes
	x.next++
	return nil
}

// whole puts a message together that ends with last.
func (x *receiver) whole(last []byte, packed bool, limit int) ([]byte, error) {
	message := last[:len(last):len(last)]
	if len(x.parts) > 0 {
		message = bytes.Join(append(x.parts, last), nil)
	}
	if !packed {
		return message, nil
	}
	n, err := s2.DecodedLen(message)
	if err != nil || n > limit {
		return nil, fmt.Errorf("%w: a compressed message that says %d bytes, at most %d are allowed (%v)", ErrFrame, n, limit, err)
	}
	out, err := s2.Decode(nil, message)
	if err != nil {
		return nil, fmt.Errorf("%w: a compressed message: %v", ErrFrame, err)
	}
	return out, nil
}
