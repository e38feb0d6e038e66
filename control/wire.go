package control

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/simnode/simnode/lbts"
	"github.com/simnode/simnode/sim"
)

// Append appends a message as it goes over a link: a byte for its kind, then its fields in order, numbers
// as varints (base 128, as in protocol buffers), lists and texts with their length before them.
func Append(dst []byte, m Message) []byte {
	dst = append(dst, m.kind())
	h := header(m)
	dst = number(dst, h.Epoch)
	dst = number(dst, h.Term)
	switch m := m.(type) {
	case *Settle:
		dst = numbers(dst, m.Frames)
		return flag(dst, m.Shape)
	case *Grants:
		return appendGrants(number(number(dst, m.Serial), m.Cut), m.Grants)
	case *Cut:
		return appendSaving(moment(number(dst, m.Number), m.At), m.Saving)
	case *Abandon:
		return number(dst, m.Number)
	case *Unfit:
		return text(number(number(dst, m.Number), uint64(m.Part)), m.Reason)
	case *Stored:
		return appendPart(text(number(dst, m.Number), m.Err), &m.Part)
	case *Restored:
		return blob(flag(dst, m.Last), m.Data)
	case *Floor:
		return numbers(moment(dst, m.At), m.Frames)
	case *Finish:
		return text(append(moment(dst, m.At), byte(m.How)), m.Reason)
	case *Frozen:
		return appendFrozen(dst, m)
	case *Full:
		return appendFull(dst, m)
	case *Report:
		return appendAsides(appendReports(dst, m.Regions), &m.Asides)
	case *CutDone:
		dst = number(number(dst, m.Number), uint64(len(m.Next)))
		for _, t := range m.Next {
			dst = moment(dst, t)
		}
		return appendAsides(dst, &m.Asides)
	case *Recorded:
		return blob(dst, m.Result)
	case *Broken:
		return flag(text(dst, m.Reason), m.Elsewhere)
	case *Pong:
		return text(dst, m.Busy)
	case *Batch:
		return blob(number(dst, m.Number), m.Data)
	case *Parcel:
		return blob(appendSaving(moment(number(dst, m.Number), m.At), m.Saving), m.Data)
	case *Observed:
		return blob(number(dst, m.Number), m.Data)
	case *Final:
		return blob(flag(dst, m.Last), m.Data)
	}
	return dst // Assume, Retrieve, Retrieved and Ping have nothing more
}

func appendSaving(dst []byte, s Saving) []byte { return number(number(dst, s.Save), s.Last) }

func appendPart(dst []byte, p *CheckpointPart) []byte {
	dst = text(text(text(dst, p.Member), p.Boot), p.Partner)
	dst = number(flag(dst, p.Archived), uint64(len(p.Regions)))
	for _, r := range p.Regions {
		dst = number(dst, uint64(r))
	}
	dst = number(number(text(dst, p.Root), p.Base), uint64(p.Chunks))
	for _, n := range [...]uint64{p.Bytes, p.Entities, p.Events, p.Digest} {
		dst = number(dst, n)
	}
	return dst
}

// header returns the header of a message.
func header(m Message) *Header {
	switch m := m.(type) {
	case *Assume:
		return &m.Header
	case *Settle:
		return &m.Header
	case *Grants:
		return &m.Header
	case *Cut:
		return &m.Header
	case *Floor:
		return &m.Header
	case *Finish:
		return &m.Header
	case *Ping:
		return &m.Header
	case *Frozen:
		return &m.Header
	case *Full:
		return &m.Header
	case *Report:
		return &m.Header
	case *CutDone:
		return &m.Header
	case *Recorded:
		return &m.Header
	case *Broken:
		return &m.Header
	case *Pong:
		return &m.Header
	case *Batch:
		return &m.Header
	case *Parcel:
		return &m.Header
	case *Observed:
		return &m.Header
	case *Final:
		return &m.Header
	case *Retrieve:
		return &m.Header
	case *Abandon:
		return &m.Header
	case *Retrieved:
		return &m.Header
	case *Unfit:
		return &m.Header
	case *Stored:
		return &m.Header
	}
	return &m.(*Restored).Header
}

func number(dst []byte, n uint64) []byte       { return binary.AppendUvarint(dst, n) }
func moment(dst []byte, t sim.Time) []byte     { return binary.AppendUvarint(dst, uint64(t)) }
func length(dst []byte, d sim.Duration) []byte { return binary.AppendUvarint(dst, uint64(d)) }
func blob(dst, data []byte) []byte             { return append(number(dst, uint64(len(data))), data...) }
func text(dst []byte, s string) []byte         { return append(number(dst, uint64(len(s))), s...) }

func flag(dst []byte, on bool) []byte {
	if on {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func numbers(dst []byte, list []uint64) []byte {
	dst = number(dst, uint64(len(list)))
	for _, n := range list {
		dst = number(dst, n)
	}
	return dst
}

func appendGrants(dst []byte, grants []lbts.Grant) []byte {
	dst = number(dst, uint64(len(grants)))
	for i := range grants {
		g := &grants[i]
		dst = moment(number(dst, uint64(g.Region)), g.Bound)
		dst = number(dst, uint64(len(g.Needs)))
		for _, n := range g.Needs {
			dst = number(number(dst, uint64(n.From)), n.Batch)
		}
	}
	return dst
}

func appendReports(dst []byte, reports []lbts.Report) []byte {
	dst = number(dst, uint64(len(reports)))
	for i := range reports {
		r := &reports[i]
		dst = moment(number(dst, uint64(r.Region)), r.Next)
		dst = number(dst, uint64(len(r.Sent)))
		for _, s := range r.Sent {
			dst = moment(number(number(dst, uint64(s.To)), s.Batch), s.Least)
		}
		dst = number(dst, uint64(len(r.Received)))
		for _, s := range r.Received {
			dst = number(number(dst, uint64(s.From)), s.Batch)
		}
	}
	return dst
}

// Bits of the byte that begins Asides.
const (
	asideStop byte = 1 << iota
	asideBacklog
	asideFailure
)

func appendAsides(dst []byte, a *Asides) []byte {
	bits := byte(0)
	if a.StopAsked {
		bits |= asideStop
	}
	if a.Backlog {
		bits |= asideBacklog
	}
	if a.Failure != nil {
		bits |= asideFailure
	}
	dst = number(number(append(dst, bits), a.Observed), a.Events)
	if f := a.Failure; f != nil {
		dst = text(number(number(moment(dst, f.Time), f.Key), f.Seq), f.Text)
	}
	return dst
}

func appendFrozen(dst []byte, m *Frozen) []byte {
	dst = number(numbers(dst, m.Sent), m.Observed)
	dst = appendSaving(flag(moment(number(dst, m.CutNumber), m.CutAt), m.CutDone), m.CutSaving)
	dst = flag(flag(moment(number(dst, m.Save), m.SaveAt), m.SaveGivenUp), m.Restored)
	dst = flag(dst, m.Finishing != nil)
	if f := m.Finishing; f != nil {
		dst = number(number(dst, f.Epoch), f.Term)
		dst = text(append(moment(dst, f.At), byte(f.How)), f.Reason)
	}
	return dst
}

func appendFull(dst []byte, m *Full) []byte {
	dst = number(dst, uint64(len(m.Regions)))
	for _, r := range m.Regions {
		dst = moment(moment(number(dst, uint64(r.Region)), r.Next), r.Held)
	}
	s := &m.Shape
	dst = length(length(moment(dst, s.End), s.CutEvery), s.StopEvery)
	dst = number(dst, uint64(len(s.Lookahead)))
	for _, d := range s.Lookahead {
		dst = length(dst, d)
	}
	return appendAsides(number(dst, s.Digest), &m.Asides)
}

// Malformed is the error of bytes that are no message.
type Malformed struct {
	// At is the byte where it was noticed, Reason what is wrong there.
	At     int
	Reason string
}

func (e *Malformed) Error() string {
	return fmt.Sprintf("malformed message at byte %d: %s", e.At, e.Reason)
}

// Parse reads a message that Append wrote, and refuses all else with a *Malformed. What it allocates is
// bounded by the length of data. Payloads (Data and Result) are parts of data, which must not be changed
// as long as they are in use.
func Parse(data []byte) (Message, error) {
	r := &reader{data: data}
	m := r.message(r.byte("kind"))
	if r.err == nil && r.at < len(r.data) {
		r.fail("%d bytes are left over", len(r.data)-r.at)
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

// reader takes fields off the front of data; after an error all fields are zero.
type reader struct {
	data []byte
	at   int
	err  error
}

func (r *reader) message(kind byte) Message {
	if r.err != nil {
		return nil
	}
	h := Header{r.number("epoch"), r.number("term")}
	switch kind {
	case kindAssume:
		return &Assume{h}
	case kindPing:
		return &Ping{h}
	case kindSettle:
		return &Settle{h, r.numbers("frames"), r.flag("shape")}
	case kindGrants:
		return &Grants{h, r.number("serial"), r.number("cut"), r.grants()}
	case kindCut:
		return &Cut{h, r.number("cut"), r.time("time of the cut"), r.saving()}
	case kindRetrieve:
		return &Retrieve{h}
	case kindRetrieved:
		return &Retrieved{h}
	case kindAbandon:
		return &Abandon{h, r.number("checkpoint")}
	case kindUnfit:
		return &Unfit{h, r.number("checkpoint"), r.index("part", MaxMembers), r.text("reason")}
	case kindStored:
		m := &Stored{Header: h, Number: r.number("checkpoint"), Err: r.text("reason")}
		m.Part = r.part()
		return m
	case kindRestored:
		last := r.flag("last")
		return &Restored{h, r.blob("entities"), last}
	case kindFloor:
		return &Floor{h, r.time("floor"), r.numbers("frames")}
	case kindFinish:
		return r.finish(h)
	case kindFrozen:
		return r.frozen(h)
	case kindFull:
		return r.full(h)
	case kindReport:
		return &Report{h, r.reports(), r.asides()}
	case kindCutDone:
		return &CutDone{h, r.number("cut"), r.times("next events"), r.asides()}
	case kindRecorded:
		return &Recorded{h, r.blob("result")}
	case kindBroken:
		return &Broken{h, r.text("reason"), r.flag("elsewhere")}
	case kindPong:
		return &Pong{h, r.text("doing")}
	case kindBatch:
		return &Batch{h, r.number("frame"), r.blob("events")}
	case kindParcel:
		return &Parcel{h, r.number("cut"), r.time("time of the cut"), r.saving(), r.blob("parcel")}
	case kindObserved:
		return &Observed{h, r.number("frame"), r.blob("observations")}
	case kindFinal:
		return r.final(h)
	}
	r.at = 0
	r.fail("kind %d is unknown", kind)
	return nil
}

func (r *reader) final(h Header) Message {
	last := r.flag("last")
	return &Final{h, r.blob("result"), last}
}

func (r *reader) finish(h Header) *Finish {
	f := &Finish{Header: h, At: r.time("end"), How: Ending(r.byte("ending"))}
	if r.err == nil && (f.How < EndReached || f.How > EndFailed) {
		r.fail("ending %d is unknown", f.How)
	}
	f.Reason = r.text("reason")
	return f
}

func (r *reader) frozen(h Header) *Frozen {
	m := &Frozen{
		Header: h, Sent: r.numbers("frames"), Observed: r.number("observed"), CutNumber: r.number("cut"),
		CutAt: r.time("time of the cut"), CutDone: r.flag("cut done"), CutSaving: r.saving(),
		Save: r.number("checkpoint"), SaveAt: r.time("time of the checkpoint"), SaveGivenUp: r.flag("checkpoint given up"), Restored: r.flag("restored"),
	}
	if r.flag("finishing") {
		m.Finishing = r.finish(Header{r.number("epoch"), r.number("term")})
	}
	return m
}

func (r *reader) saving() Saving { return Saving{r.number("checkpoint"), r.number("last checkpoint")} }

func (r *reader) part() CheckpointPart {
	p := CheckpointPart{Member: r.text("node"), Boot: r.text("process"), Partner: r.text("partner"), Archived: r.flag("archived")}
	for n := r.count("regions", MaxRegions, 1); n > 0; n-- {
		p.Regions = append(p.Regions, r.index("region", MaxRegions))
	}
	p.Root, p.Base, p.Chunks = r.text("root"), r.number("base"), r.index("chunks", math.MaxInt32)
	p.Bytes, p.Entities, p.Events, p.Digest = r.number("bytes"), r.number("entities"), r.number("events"), r.number("digest")
	return p
}

func (r *reader) full(h Header) *Full {
	m := &Full{Header: h}
	for n := r.count("regions", MaxRegions, 3); n > 0; n-- {
		m.Regions = append(m.Regions, RegionState{r.index("region", MaxRegions), r.time("next event"), r.time("bound")})
	}
	m.Shape = Shape{End: r.time("end"), CutEvery: r.duration("cuts"), StopEvery: r.duration("stops")}
	if n := r.count("lookahead", MaxRegions*MaxRegions, 1); n > 0 {
		m.Shape.Lookahead = make([]sim.Duration, n)
		for i := range m.Shape.Lookahead {
			m.Shape.Lookahead[i] = r.duration("lookahead")
		}
	}
	m.Shape.Digest = r.number("digest")
	m.Asides = r.asides()
	return m
}

func (r *reader) grants() []lbts.Grant {
	n := r.count("grants", MaxRegions, 3)
	if n == 0 {
		return nil
	}
	list := make([]lbts.Grant, n)
	for i := range list {
		g := &list[i]
		g.Region, g.Bound = r.index("region", MaxRegions), r.time("bound")
		if k := r.count("needs", MaxRegions, 2); k > 0 {
			g.Needs = make([]lbts.Need, k)
		}
		for j := range g.Needs {
			g.Needs[j] = lbts.Need{From: r.index("region", MaxRegions), Batch: r.number("frame")}
		}
	}
	return list
}

func (r *reader) reports() []lbts.Report {
	n := r.count("reports", MaxRegions, 4)
	if n == 0 {
		return nil
	}
	list := make([]lbts.Report, n)
	for i := range list {
		x := &list[i]
		x.Region, x.Next = r.index("region", MaxRegions), r.time("next event")
		if k := r.count("channels sent on", MaxRegions, 3); k > 0 {
			x.Sent = make([]lbts.Sent, k)
		}
		for j := range x.Sent {
			x.Sent[j] = lbts.Sent{To: r.index("region", MaxRegions), Batch: r.number("frame"), Least: r.time("least time")}
		}
		if k := r.count("channels received from", MaxRegions, 2); k > 0 {
			x.Received = make([]lbts.Received, k)
		}
		for j := range x.Received {
			x.Received[j] = lbts.Received{From: r.index("region", MaxRegions), Batch: r.number("frame")}
		}
	}
	return list
}

func (r *reader) asides() Asides {
	bits := r.byte("asides")
	if bits&^(asideStop|asideBacklog|asideFailure) != 0 {
		r.fail("asides %#x are unknown", bits)
	}
	a := Asides{StopAsked: bits&asideStop != 0, Backlog: bits&asideBacklog != 0}
	a.Observed, a.Events = r.number("observed"), r.number("events")
	if bits&asideFailure != 0 {
		a.Failure = &Failure{r.time("failure"), r.number("key"), r.number("sequence"), r.text("failure")}
	}
	return a
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &Malformed{r.at, fmt.Sprintf(format, args...)}
	}
}

func (r *reader) byte(what string) byte {
	if r.err != nil {
		return 0
	}
	if r.at >= len(r.data) {
		r.fail("ends before %s", what)
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

func (r *reader) flag(what string) bool {
	b := r.byte(what)
	if b > 1 {
		r.fail("%s is %d, neither 0 nor 1", what, b)
	}
	return b == 1
}

func (r *reader) number(what string) uint64 {
	if r.err != nil {
		return 0
	}
	n, size := binary.Uvarint(r.data[r.at:])
	if size <= 0 {
		r.fail("%s is no number", what)
		return 0
	}
	if size > 1 && r.data[r.at+size-1] == 0 {
		r.fail("%s is written longer than it must be", what)
		return 0
	}
	r.at += size
	return n
}

func (r *reader) time(what string) sim.Time {
	n := r.number(what)
	if n > math.MaxInt64 {
		r.fail("%s at %d, after every time", what, n)
		return 0
	}
	return sim.Time(n)
}

func (r *reader) duration(what string) sim.Duration { return sim.Duration(r.time(what)) }

func (r *reader) times(what string) []sim.Time {
	n := r.count(what, MaxRegions, 1)
	if n == 0 {
		return nil
	}
	list := make([]sim.Time, n)
	for i := range list {
		list[i] = r.time(what)
	}
	return list
}

func (r *reader) numbers(what string) []uint64 {
	n := r.count(what, MaxMembers, 1)
	if n == 0 {
		return nil
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = r.number(what)
	}
	return list
}

// index reads a number below most.
func (r *reader) index(what string, most int) int {
	n := r.number(what)
	if n >= uint64(most) {
		r.fail("%s %d: the last is %d", what, n, most-1)
		return 0
	}
	return int(n)
}

// count reads the length of a list of at most most elements, each of at least size bytes.
func (r *reader) count(what string, most, size int) int {
	n := r.number(what)
	if n > uint64(most) || n*uint64(size) > uint64(len(r.data)-r.at) {
		r.fail("%d %s: at most %d, in the %d bytes that follow", n, what, most, len(r.data)-r.at)
		return 0
	}
	return int(n)
}

func (r *reader) blob(what string) []byte {
	n := r.count(what, math.MaxInt32, 1)
	if n == 0 {
		return nil
	}
	b := r.data[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

func (r *reader) text(what string) string { return string(r.blob(what)) }
