package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func identity(name, boot string, session uint64) Identity {
	return Identity{Cluster: "test", Name: name, Boot: boot, Session: session, Version: 1}
}

func mustNew(t testing.TB, self Identity, peer string, cfg Config) *Session {
	s, err := New(self, peer, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// host is one end of a link in a test, with what must come out of it.
type host struct {
	name    string
	other   *host
	cfg     Config
	s       *Session
	boots   int
	forgets int
	// epoch counts the processes, sessions and replacements so far: messages carry it. sent counts the
	// messages of it.
	epoch, sent uint64
	// got counts messages received of epoch from of the other host since the last replacement.
	got, from uint64
	// last is the largest from ever, of any process here.
	last uint64
}

func (h *host) start(t testing.TB, sameBoot bool) {
	if sameBoot {
		h.forgets++
	} else {
		h.boots++
	}
	id := identity(h.name, fmt.Sprint("boot", h.boots), uint64(h.forgets))
	h.s = mustNew(t, id, h.other.name, h.cfg)
	h.epoch, h.sent, h.got, h.from = h.epoch+1, 0, 0, 0
}

// send queues a message of about size bytes and reports whether there was room.
func (h *host) send(t testing.TB, size int) bool {
	m := make([]byte, 16, 16+size)
	binary.LittleEndian.PutUint64(m, h.epoch)
	binary.LittleEndian.PutUint64(m[8:], h.sent)
	for i := range size {
		m = append(m, byte(uint64(i)*h.sent>>3))
	}
	before := h.s.Backlog()
	err := h.s.Send(m)
	if errors.Is(err, ErrFull) {
		if before == 0 {
			t.Fatal("full with nothing in it")
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if before > 0 && before+len(m) > h.s.cfg.Window {
		t.Fatalf("%d bytes taken with a backlog of %d", len(m), before)
	}
	h.sent++
	return true
}

// receive gives a frame to the session and checks what comes out of it.
func (h *host) receive(t testing.TB, now time.Duration, frame []byte) error {
	a, err := h.s.Receive(now, frame)
	if a.Replaced {
		h.epoch, h.sent, h.got, h.from = h.epoch+1, 0, 0, 0
	}
	for _, m := range a.Messages {
		epoch, n := binary.LittleEndian.Uint64(m), binary.LittleEndian.Uint64(m[8:])
		if h.got == 0 {
			if epoch < h.last {
				t.Fatalf("%s: epoch %d of the other side after %d", h.name, epoch, h.last)
			}
			h.from, h.last = epoch, epoch
		}
		if epoch != h.from || n != h.got {
			t.Fatalf("%s: message %d of epoch %d, want %d of %d", h.name, n, epoch, h.got, h.from)
		}
		for i, b := range m[16:] {
			if b != byte(uint64(i)*n>>3) {
				t.Fatalf("%s: message %d differs at byte %d", h.name, n, i)
			}
		}
		h.got++
	}
	return err
}

// wire holds frames on their way to a host.
type wire struct {
	to     *host
	frames [][]byte
}

func (w *wire) transmit(now time.Duration, most int) {
	for range most {
		f, ok := w.to.other.s.Next(now)
		if !ok {
			return
		}
		w.frames = append(w.frames, f.AppendTo(nil))
	}
}

func (w *wire) deliver(t testing.TB, now time.Duration, i int, keep bool) {
	frame := w.frames[i]
	if !keep {
		w.frames = slices.Delete(w.frames, i, i+1)
	}
	if err := w.to.receive(t, now, frame); err != nil && !errors.Is(err, ErrStale) {
		t.Fatalf("%s refuses: %v", w.to.name, err)
	}
}

func pair(t testing.TB, cfg Config) (a, b *host) {
	a, b = &host{name: "a", cfg: cfg}, &host{name: "b", cfg: cfg}
	a.other, b.other = b, a
	a.start(t, false)
	b.start(t, false)
	return a, b
}

// bySeed runs a test for many seeds, each by its name, and checks that all together did what it is about.
func bySeed(t *testing.T, test func(t *testing.T, dice *rand.Rand) Stats) (sum Stats) {
	n := uint64(1500)
	if testing.Short() {
		n = 200
	}
	for seed := range n {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			st := test(t, rand.New(rand.NewPCG(seed, 0)))
			sum.Resent += st.Resent
			sum.Duplicates += st.Duplicates
			sum.Early += st.Early
			sum.Refused += st.Refused
			sum.Replaced += st.Replaced
			sum.Dropped += st.Dropped
			sum.Acks += st.Acks
		})
	}
	return sum
}

// drawConfig draws small limits, so that they are met.
func drawConfig(dice *rand.Rand) Config {
	ms := func(most int) time.Duration { return time.Duration(1+dice.IntN(most)) * time.Millisecond }
	cfg := Config{
		Window:     200 + dice.IntN(5000),
		Fragment:   64 + dice.IntN(200),
		Resend:     ms(50),
		HelloEvery: ms(50),
		AckBytes:   1 + dice.IntN(1000),
		AckDelay:   ms(20),
		Ahead:      1 + dice.IntN(8),
	}
	if dice.IntN(2) == 0 {
		cfg.CompressAbove = 50
	}
	return cfg
}

// Whatever a channel and restarts do, each process gets a prefix of what was sent to it; once the channel
// is sound, all of it.
func TestFault14LossDuplicationReordering(t *testing.T) {
	sum := bySeed(t, func(t *testing.T, dice *rand.Rand) Stats {
		a, b := pair(t, drawConfig(dice))
		wires := [2]*wire{{to: a}, {to: b}}
		now := time.Duration(0)
		restarts := dice.IntN(4)
		if dice.IntN(2) == 0 {
			connect(t, a, b)
		}
		steps := dice.IntN(600)
		quiet := steps * (1 + dice.IntN(4)) / 4 // no messages from then on
		for step := range steps {
			w := wires[dice.IntN(2)]
			pick := func() int { return dice.IntN(len(w.frames)) }
			switch op := dice.IntN(40); {
			case op < 8 && step < quiet:
				w.to.send(t, dice.IntN(600))
			case op >= 8 && op < 16:
				w.transmit(now, op)
			case op < 17 && len(w.frames) > 0:
				w.deliver(t, now, pick(), true)
			case op < 25 && len(w.frames) > 0:
				w.deliver(t, now, pick(), false)
			case op < 30 && len(w.frames) > 0:
				w.deliver(t, now, 0, false)
			case op < 32 && len(w.frames) > 0:
				i := pick()
				w.frames = slices.Delete(w.frames, i, i+1)
			case op < 37:
				now += time.Duration(dice.IntN(60)) * time.Millisecond
				a.s.Tick(now)
				b.s.Tick(now)
			case op == 37:
				w.to.s.Reconnected(now)
			case op == 38 && restarts > 0:
				restarts--
				w.to.start(t, dice.IntN(2) == 0)
			}
		}
		heal(t, wires, now)
		for _, h := range [...]*host{a, b} {
			if h.s.Backlog() != 0 {
				t.Fatalf("%s: backlog %d", h.name, h.s.Backlog())
			}
			if h.sent > 0 && (h.other.got != h.sent || h.other.from != h.epoch) {
				t.Fatalf("%s got %d of epoch %d, sent were %d of %d", h.other.name, h.other.got, h.other.from, h.sent, h.epoch)
			}
			if h.other.s.Peer() != h.s.self.Boot {
				t.Fatalf("%s takes %q for %q", h.other.name, h.other.s.Peer(), h.s.self.Boot)
			}
			if h.s.rx.ahead != 0 {
				t.Fatalf("%s: %d bytes ahead", h.name, h.s.rx.ahead)
			}
		}
		return a.s.Stats()
	})
	if sum.Resent == 0 || sum.Duplicates == 0 || sum.Early == 0 || sum.Refused == 0 || sum.Replaced == 0 || sum.Dropped == 0 || sum.Acks == 0 {
		t.Errorf("not all happened: %+v", sum)
	}
}

// heal delivers all that is on the way and follows, and then lets time pass until nothing is left to do.
// It fails if that takes too long.
func heal(t testing.TB, wires [2]*wire, now time.Duration) {
	for range 2000 {
		for _, w := range wires {
			w.transmit(now, 10000)
			for len(w.frames) > 0 {
				w.deliver(t, now, 0, false)
			}
		}
		if wires[0].to.s.Ready() || wires[1].to.s.Ready() {
			continue
		}
		next, some := time.Duration(0), false
		for _, w := range wires {
			if at, ok := w.to.s.Deadline(); ok && (!some || at < next) {
				next, some = at, true
			}
		}
		if !some {
			return
		}
		now = max(now, next)
		for _, w := range wires {
			w.to.s.Tick(now)
		}
	}
	t.Fatal("no rest after 2000 rounds")
}

// A channel that breaks (and loses the end of what was sent) and is made again, one in each direction, as
// with TCP: no time passes, nothing is sent again without need.
func TestFault16ResumeAfterBreaks(t *testing.T) {
	sum := bySeed(t, func(t *testing.T, dice *rand.Rand) Stats {
		cfg := drawConfig(dice)
		cfg.Resend, cfg.Ahead = 0, 1
		a, b := pair(t, cfg)
		wires := [2]*wire{{to: a}, {to: b}}
		old := map[*host]*wire{a: {to: a}, b: {to: b}}
		broken := false
		for range dice.IntN(400) {
			w := wires[dice.IntN(2)]
			switch op := dice.IntN(30); {
			case op < 9:
				w.to.send(t, dice.IntN(600))
			case op < 16:
				w.transmit(0, 1+op)
			case op < 29 && len(w.frames) > 0:
				w.deliver(t, 0, 0, false)
			case op == 29:
				broken = true
				// Some of what the old connection carries arrives, be it after what the new one does.
				for o := old[w.to]; len(o.frames) > 0; {
					o.deliver(t, 0, 0, false)
				}
				old[w.to].frames = w.frames[:dice.IntN(len(w.frames)+1)]
				w.frames = nil
				w.to.other.s.Reconnected(0)
			}
			if o := old[w.to]; len(o.frames) > 0 && dice.IntN(3) == 0 {
				o.deliver(t, 0, 0, false)
			}
		}
		heal(t, wires, 0)
		for _, h := range [...]*host{a, b} {
			if h.s.Backlog() != 0 || h.other.got != h.sent {
				t.Fatalf("%s: backlog %d, %d of %d arrived", h.name, h.s.Backlog(), h.other.got, h.sent)
			}
			st := h.s.Stats()
			if !broken && (st.Resent > 0 || st.Duplicates > 0) || st.Refused > 0 || st.Early > 0 {
				t.Fatalf("%s: %+v", h.name, st)
			}
		}
		return a.s.Stats()
	})
	if sum.Resent == 0 || sum.Duplicates == 0 {
		t.Errorf("not all happened: %+v", sum)
	}
}

// connect lets two sessions talk until nothing is left to say.
func connect(t testing.TB, a, b *host) {
	heal(t, [2]*wire{{to: a}, {to: b}}, 0)
}

// The hello of a process that died long ago must not bring it back, be it one that was known or one that
// never was.
func TestFault29HelloOfADeadProcess(t *testing.T) {
	a, b := pair(t, Config{})
	wb := &wire{to: b}
	wb.transmit(0, 1)
	late := wb.frames[0] // hello of a's first process, which b does not know yet
	a.start(t, false)
	connect(t, a, b)
	if err := b.receive(t, 0, late); err != nil {
		t.Fatal(err)
	}
	connect(t, a, b)
	if b.s.Peer() != "boot2" || b.s.Stats().Replaced != 0 || !a.s.Connected() || !b.s.Connected() {
		t.Fatalf("b takes %q for a", b.s.Peer())
	}

	a.s.Reconnected(0)
	wb.frames = nil
	wb.transmit(0, 1)
	late = wb.frames[0] // hello of a's second process, which b knows
	wb.frames = nil
	a.send(t, 10)
	a.start(t, false)
	b.send(t, 10)
	connect(t, a, b)
	if b.s.Peer() != "boot3" || b.s.Stats().Replaced != 1 {
		t.Fatalf("b takes %q for a; %+v", b.s.Peer(), b.s.Stats())
	}
	if err := b.receive(t, 0, late); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "boot2") || !strings.Contains(err.Error(), "boot3") {
		t.Fatalf("late hello: %v", err)
	}
}

// A process that was replaced but lives on is refused for good, and its frames are counted.
func TestFault29ZombieIsRefused(t *testing.T) {
	a, b := pair(t, Config{})
	connect(t, a, b)
	zombie := &host{name: "a", other: b, cfg: a.cfg, s: a.s, epoch: 100}
	a.start(t, false)
	connect(t, a, b)
	zombie.send(t, 10)
	zombie.s.Reconnected(0)
	for range 5 {
		f, ok := zombie.s.Next(0)
		if !ok {
			zombie.s.Tick(time.Hour)
			continue
		}
		if err := b.receive(t, 0, f.AppendTo(nil)); !errors.Is(err, ErrStale) {
			t.Fatalf("zombie: %v", err)
		}
	}
	if st := b.s.Stats(); st.Refused < 3 || st.Replaced != 1 {
		t.Fatalf("%+v", st)
	}
	if b.s.Peer() != "boot2" {
		t.Fatalf("peer %q", b.s.Peer())
	}
}

func TestFault34VersionSkew(t *testing.T) {
	old := identity("a", "x", 0)
	young := identity("b", "y", 0)
	young.Version = 7
	a, b := mustNew(t, old, "b", Config{}), mustNew(t, young, "a", Config{})
	for _, c := range []struct{ from, to *Session }{{a, b}, {b, a}} {
		f, _ := c.from.Next(0)
		_, err := c.to.Receive(0, f.AppendTo(nil))
		if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "version 1") || !strings.Contains(err.Error(), "version 7") {
			t.Errorf("%v", err)
		}
		if c.to.Stats().Refused != 1 || c.to.Peer() != "" {
			t.Errorf("refused %d, peer %q", c.to.Stats().Refused, c.to.Peer())
		}
	}
	// A later version may lay out the rest of its hello differently.
	h := hello{from: young}
	body := append(h.append(nil)[:len(helloMagic)+4], "something else"...)
	f := plain(kindHello, body)
	if _, err := a.Receive(0, f.AppendTo(nil)); !errors.Is(err, ErrVersion) {
		t.Error(err)
	}
}

func TestOthersAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		change func(*Identity)
		peer   string
		want   error
		text   []string
	}{
		{func(id *Identity) { id.Cluster = "prod" }, "b", ErrCluster, []string{`"prod"`, `"test"`}},
		{func(id *Identity) { id.Name = "c" }, "b", ErrName, []string{`"c"`, `"a"`}},
		{func(*Identity) {}, "d", ErrName, []string{`"d"`, `"b"`}},
	} {
		id := identity("a", "x", 0)
		c.change(&id)
		a, b := mustNew(t, id, c.peer, Config{}), mustNew(t, identity("b", "y", 0), "a", Config{})
		f, _ := a.Next(0)
		_, err := b.Receive(0, f.AppendTo(nil))
		if !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
			continue
		}
		for _, text := range c.text {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%v does not name %s", err, text)
			}
		}
	}
}

func TestFault32LengthsAreCheckedFirst(t *testing.T) {
	prefix := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}
	if _, err := Length(prefix, 0); !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), "4294967303") {
		t.Errorf("4 GiB: %v", err)
	}
	binary.LittleEndian.PutUint32(prefix, MaxFrame-PrefixSize)
	if n, err := Length(prefix, 0); n != MaxFrame || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	binary.LittleEndian.PutUint32(prefix, MaxFrame-PrefixSize+1)
	if _, err := Length(prefix, 0); err == nil {
		t.Error("too large")
	}
	binary.LittleEndian.PutUint32(prefix, 0)
	if _, err := Length(prefix, 0); err == nil {
		t.Error("empty")
	}
}

// raw makes sealed frames of a peer that keeps no rule.
func raw(s *Session, k kind, seq, ack uint64, body []byte) []byte {
	var h head
	f := h.numbered(k, s.rxToken, seq, ack, body, checksum(body))
	return f.AppendTo(nil)
}

func TestFault32FramesThatNoPeerSends(t *testing.T) {
	a, b := pair(t, Config{MaxMessage: 4096, Window: 1 << 20})
	a.send(t, 10)
	connect(t, a, b)
	s := b.s
	for name, frame := range map[string][]byte{
		"nothing":        {},
		"cut off":        raw(s, kindData, 2, 0, []byte("hello"))[:20],
		"number 0":       raw(s, kindData, 0, 0, nil),
		"ack of nothing": raw(s, kindAck, 0, 1, nil),
		"ack of all":     raw(s, kindAck, 0, ^uint64(0), nil),
		"unknown kind":   func() []byte { f := plain(99, nil); return f.AppendTo(nil) }(),
		"short head":     func() []byte { f := plain(kindAck, nil); return f.AppendTo(nil) }(),
		"empty part":     raw(s, kindPart, 2, 0, nil),
		"too long":       raw(s, kindData, 2, 0, make([]byte, 5000)),
		"not compressed": raw(s, kindPacked, 2, 0, []byte("\xff\xff\xff")),
		"4 GiB inflated": raw(s, kindPacked, 2, 0, binary.AppendUvarint(nil, 1<<32-1)),
		"bad hello":      func() []byte { f := plain(kindHello, []byte("hi")); return f.AppendTo(nil) }(),
		"hello cut short": func() []byte {
			h := hello{from: a.s.self}
			f := plain(kindHello, h.append(nil)[:40])
			return f.AppendTo(nil)
		}(),
	} {
		before := s.Stats().Refused
		if _, err := s.Receive(0, frame); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
		if s.Stats().Refused != before+1 {
			t.Errorf("%s is not counted", name)
		}
	}
	// Many parts that never end a message.
	n := uint64(2)
	for ; n < 1000; n++ {
		if _, err := s.Receive(0, raw(s, kindPart, n, 0, []byte{1})); err != nil {
			break
		}
	}
	if n > 100 {
		t.Errorf("%d parts kept", n)
	}
	// Frames that never fill the gap.
	a, b = pair(t, Config{Window: 4096, Ahead: 1000})
	connect(t, a, b)
	for n := uint64(2); n < 1000; n++ {
		if _, err := b.s.Receive(0, raw(b.s, kindData, n, 0, make([]byte, 1000))); err != nil {
			t.Fatal(err)
		}
	}
	if b.s.rx.ahead > 4096 {
		t.Errorf("%d bytes ahead", b.s.rx.ahead)
	}
}

// Every flipped bit is found.
func TestFault24FlippedBits(t *testing.T) {
	a, b := pair(t, Config{})
	connect(t, a, b)
	a.send(t, 30)
	f, _ := a.s.Next(0)
	good := f.AppendTo(nil)
	for i := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := b.s.Receive(0, bad); !errors.Is(err, ErrFrame) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	if err := b.receive(t, 0, good); err != nil || b.got != 1 {
		t.Fatal(err, b.got)
	}
}

func TestBackPressure(t *testing.T) {
	a, b := pair(t, Config{Window: 1000})
	if err := a.s.Send(make([]byte, maxMessage+1)); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if !a.send(t, 5000) {
		t.Fatal("a message larger than the window is taken when nothing waits")
	}
	if a.send(t, 0) {
		t.Fatal("more than the window")
	}
	connect(t, a, b)
	n := 0
	for ; a.send(t, 0); n++ {
	}
	if n < 5 || n > 1000/frameCost {
		t.Fatalf("%d empty messages in a window of 1000 bytes", n)
	}
}

func TestFewAcks(t *testing.T) {
	a, b := pair(t, Config{})
	connect(t, a, b)
	for range 10000 {
		if !a.send(t, 100) {
			t.Fatal("full")
		}
		f, _ := a.s.Next(0)
		if err := b.receive(t, 0, f.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		for {
			f, ok := b.s.Next(0)
			if !ok {
				break
			}
			if err := a.receive(t, 0, f.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st := b.s.Stats(); st.Acks == 0 || st.Acks > 10 {
		t.Fatalf("%d acks for 1.8 MB", st.Acks)
	}
	// The rest is acknowledged after a while.
	if at, ok := b.s.Deadline(); !ok || at != 20*time.Millisecond {
		t.Fatal(at, ok)
	}
	connect(t, a, b)
	if a.s.Backlog() != 0 {
		t.Fatal(a.s.Backlog())
	}
}

// Sending and receiving does not allocate per frame, but for the frame itself and for the message.
func TestAllocations(t *testing.T) {
	a, b := pair(t, Config{})
	connect(t, a, b)
	message := make([]byte, 100)
	buffers := make([][]byte, 2100)
	for i := range buffers {
		buffers[i] = make([]byte, 0, 200)
	}
	i := 0
	n := testing.AllocsPerRun(2000, func() {
		if err := a.s.Send(message); err != nil {
			t.Fatal(err)
		}
		f, _ := a.s.Next(0)
		buffers[i] = f.AppendTo(buffers[i])
		if _, err := b.s.Receive(0, buffers[i]); err != nil {
			t.Fatal(err)
		}
		i++
		if f, ok := b.s.Next(0); ok {
			if _, err := a.s.Receive(0, f.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 0 {
		t.Errorf("%v allocations a message", n)
	}
}

func TestCompression(t *testing.T) {
	a, b := pair(t, Config{CompressAbove: 100, Fragment: 1000})
	connect(t, a, b)
	before := a.s.Stats().BytesSent
	text := bytes.Repeat([]byte("simulation "), 10000)
	noise := make([]byte, 50000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	var got [][]byte
	for _, m := range [][]byte{text, noise, []byte("short")} {
		if err := a.s.Send(m); err != nil {
			t.Fatal(err)
		}
		for {
			f, ok := a.s.Next(0)
			if !ok {
				break
			}
			arrival, err := b.s.Receive(0, f.AppendTo(nil))
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, arrival.Messages...)
		}
	}
	if len(got) != 3 || !bytes.Equal(got[0], text) || !bytes.Equal(got[1], noise) || string(got[2]) != "short" {
		t.Fatalf("%d messages", len(got))
	}
	if n := a.s.Stats().BytesSent - before; n > 65000 {
		t.Errorf("%d bytes", n)
	}
}

func TestConfigIsChecked(t *testing.T) {
	id := identity("a", "x", 0)
	for _, cfg := range []Config{{Window: -1}, {Fragment: 10}, {Fragment: MaxFrame}, {MaxMessage: maxMessage + 1}, {Resend: -1}, {AckDelay: -1}, {CompressAbove: -1}} {
		if _, err := New(id, "b", cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	for _, id := range []Identity{{}, {Cluster: "c", Name: strings.Repeat("n", 256), Boot: "b"}} {
		if _, err := New(id, "b", Config{}); err == nil {
			t.Errorf("%+v is taken", id)
		}
	}
	if _, err := New(id, "", Config{}); err == nil {
		t.Error("no peer name is taken")
	}
}

func TestManyRestarts(t *testing.T) {
	a, b := pair(t, Config{})
	for range 3000 {
		connect(t, a, b)
		a.start(t, false)
	}
	if len(b.s.retired) != maxRetired {
		t.Fatalf("%d are remembered", len(b.s.retired))
	}
}

func TestSignals(t *testing.T) {
	p, r, d := Pulse(), Refusal(strings.Repeat("x", 5000)), plain(kindHello, nil)
	if pulse, refusal, _ := Signal(p.AppendTo(nil)); !pulse || refusal {
		t.Error("pulse")
	}
	if pulse, refusal, text := Signal(r.AppendTo(nil)); pulse || !refusal || len(text) != maxRefusal {
		t.Error("refusal")
	}
	if pulse, refusal, _ := Signal(d.AppendTo(nil)); pulse || refusal {
		t.Error("hello")
	}
	bad := p.AppendTo(nil)
	bad[5]++
	if pulse, _, _ := Signal(bad); pulse {
		t.Error("checksum")
	}
}

func FuzzReceive(f *testing.F) {
	a, b := pair(f, Config{})
	connect(f, a, b)
	a.send(f, 100)
	frame, _ := a.s.Next(0)
	f.Add(frame.AppendTo(nil))
	a.s.Reconnected(0)
	frame, _ = a.s.Next(0)
	f.Add(frame.AppendTo(nil))
	f.Add(raw(b.s, kindPacked, 1, 0, []byte("\x05\x10hello")))
	f.Add(raw(b.s, kindPart, 3, 0, []byte("part")))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, b := pair(t, Config{MaxMessage: 1 << 16, Window: 1 << 16})
		connect(t, a, b)
		// As it is, and with what a fuzzer cannot guess put right.
		for range 3 {
			_, _ = b.s.Receive(0, bytes.Clone(data))
			_, _, _ = Signal(data)
			if len(data) > kindAt {
				data = bytes.Clone(data)
				repair(data, b.s.rxToken)
			}
		}
		b.s.Tick(time.Second)
		for range 100 {
			if _, ok := b.s.Next(time.Second); !ok {
				return
			}
		}
		t.Fatal("one frame causes a hundred")
	})
}

// repair makes length, token and checksum of a frame right.
func repair(frame []byte, token uint64) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-PrefixSize))
	head := kindAt + 1
	if k := kind(frame[kindAt]); k >= kindData && k <= kindAck && len(frame) >= headSize {
		head = headSize
		binary.LittleEndian.PutUint64(frame[kindAt+1:], token)
	}
	sum := checksum(append(bytes.Clone(frame[head:]), frame[kindAt:head]...))
	binary.LittleEndian.PutUint32(frame[4:], sum)
}

func FuzzHello(f *testing.F) {
	h := hello{from: identity("a", "x", 3), toName: "b", to: end{"y", 4}, number: 1, echo: 2, received: 3, asks: true}
	f.Add(h.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHello(data, 1)
		if err != nil || h.from.Version != 1 {
			return
		}
		if again := h.append(nil); !bytes.Equal(again, data) {
			t.Fatalf("%x became %x", data, again)
		}
	})
}

func BenchmarkSession(b *testing.B) {
	for _, size := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := pair(b, Config{})
			connect(b, x, y)
			message := make([]byte, size)
			var frame []byte
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := x.s.Send(message); err != nil {
					b.Fatal(err)
				}
				for {
					f, ok := x.s.Next(0)
					if !ok {
						break
					}
					frame = f.AppendTo(frame[:0])
					if _, err := y.s.Receive(0, frame); err != nil {
						b.Fatal(err)
					}
				}
				if f, ok := y.s.Next(0); ok {
					if _, err := x.s.Receive(0, f.AppendTo(nil)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
