package control

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/simnode/simnode/sim"
)

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// showMessage writes a message on a line, for scripts that people read.
func showMessage(m Message) string {
	h := header(m)
	name := strings.TrimPrefix(fmt.Sprintf("%T", m), "*control.")
	head := fmt.Sprintf("%s e%d", name, h.Epoch)
	if h.Term > 0 {
		head += fmt.Sprintf(" t%d", h.Term)
	}
	switch m := m.(type) {
	case *Settle:
		return fmt.Sprintf("%s frames %v", head, m.Frames)
	case *Grants:
		var list []string
		for _, g := range m.Grants {
			s := fmt.Sprintf("%d<%s", g.Region, showTime(g.Bound))
			for _, n := range g.Needs {
				s += fmt.Sprintf(" after %d#%d", n.From, n.Batch)
			}
			list = append(list, s)
		}
		return fmt.Sprintf("%s cut %d [%s]", head, m.Cut, strings.Join(list, ", "))
	case *Cut:
		return fmt.Sprintf("%s #%d at %s%s", head, m.Number, showTime(m.At), showSaving(m.Saving))
	case *Abandon:
		return fmt.Sprintf("%s %d", head, m.Number)
	case *Unfit:
		return fmt.Sprintf("%s part %d of %d: %s", head, m.Part, m.Number, m.Reason)
	case *Stored:
		return fmt.Sprintf("%s %d regions %v partner %s %s", head, m.Number, m.Part.Regions, m.Part.Partner, m.Err)
	case *Restored:
		return fmt.Sprintf("%s last %v", head, m.Last)
	case *Floor:
		return fmt.Sprintf("%s %s frames %v", head, showTime(m.At), m.Frames)
	case *Finish:
		return fmt.Sprintf("%s at %s how %d %s", head, showTime(m.At), m.How, m.Reason)
	case *Frozen:
		s := fmt.Sprintf("%s sent %v observed %d cut %d at %s done %v", head, m.Sent, m.Observed, m.CutNumber, showTime(m.CutAt), m.CutDone)
		if f := m.Finishing; f != nil {
			s += fmt.Sprintf(" finishing at %s", showTime(f.At))
		}
		if s += showSaving(m.CutSaving); m.Save > 0 {
			s += fmt.Sprintf(" began %d at %s", m.Save, showTime(m.SaveAt))
		}
		if m.SaveGivenUp {
			s += " given up"
		}
		if m.Restored {
			s += " restored"
		}
		return s
	case *Full:
		var list []string
		for _, r := range m.Regions {
			list = append(list, fmt.Sprintf("%d at %s held %s", r.Region, showTime(r.Next), showTime(r.Held)))
		}
		return fmt.Sprintf("%s [%s]%s", head, strings.Join(list, ", "), showAsides(&m.Asides))
	case *Report:
		var list []string
		for _, r := range m.Regions {
			s := fmt.Sprintf("%d at %s", r.Region, showTime(r.Next))
			for _, x := range r.Sent {
				s += fmt.Sprintf(" sent %d#%d>=%s", x.To, x.Batch, showTime(x.Least))
			}
			for _, x := range r.Received {
				s += fmt.Sprintf(" got %d#%d", x.From, x.Batch)
			}
			list = append(list, s)
		}
		return fmt.Sprintf("%s [%s]%s", head, strings.Join(list, ", "), showAsides(&m.Asides))
	case *CutDone:
		var list []string
		for _, n := range m.Next {
			list = append(list, showTime(n))
		}
		return fmt.Sprintf("%s #%d next [%s]", head, m.Number, strings.Join(list, ", "))
	case *Recorded:
		return fmt.Sprintf("%s %q", head, m.Result)
	case *Broken:
		return fmt.Sprintf("%s %s", head, m.Reason)
	case *Pong:
		return fmt.Sprintf("%s %s", head, m.Busy)
	case *Batch:
		return fmt.Sprintf("%s #%d", head, m.Number)
	case *Parcel:
		return fmt.Sprintf("%s #%d at %s%s", head, m.Number, showTime(m.At), showSaving(m.Saving))
	case *Observed:
		return fmt.Sprintf("%s #%d", head, m.Number)
	case *Final:
		return fmt.Sprintf("%s last %v", head, m.Last)
	}
	return head
}

func showSaving(s Saving) string {
	if s == (Saving{}) {
		return ""
	}
	return fmt.Sprintf(" save %d last %d", s.Save, s.Last)
}

func showTime(t sim.Time) string {
	if t == sim.Never {
		return "never"
	}
	return fmt.Sprint(int64(t))
}

func showAsides(a *Asides) string {
	s := ""
	if a.StopAsked {
		s += " stop"
	}
	if a.Backlog {
		s += " backlog"
	}
	if f := a.Failure; f != nil {
		s += fmt.Sprintf(" failure %q", f.Text)
	}
	return s
}

func showCommand(c Command) string {
	switch {
	case c.Start != nil:
		return fmt.Sprintf("start %s members %v owner %v", c.Start.Job, c.Start.Members, c.Start.Owner)
	case c.Move != nil:
		return fmt.Sprintf("move %s to %s", c.Move.Job, c.Move.To)
	case c.End != nil:
		return fmt.Sprintf("end %s epoch %d %s %s", c.End.Job, c.End.Epoch, c.End.Phase, c.End.Reason)
	case c.Begin != nil:
		return fmt.Sprintf("begin checkpoint %d", c.Begin.Number)
	case c.Commit != nil:
		return fmt.Sprintf("commit checkpoint %d at %s", c.Commit.Checkpoint.Number, showTime(c.Commit.Checkpoint.At))
	case c.Recover != nil:
		s := fmt.Sprintf("recover %s from epoch %d members %v owner %v", c.Recover.Job, c.Recover.Epoch, c.Recover.Members, c.Recover.Owner)
		if r := c.Recover.Restore; r != nil {
			s += fmt.Sprintf(" restore %d at %s sources %v", r.Number, showTime(r.At), r.Sources)
		}
		return s
	}
	return c.Key
}
