package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Apply returns the state after a command, and its answer. Neither the old state nor what it points to is
// changed. A command whose key was applied already changes nothing and gets the answer that it got then.
// A command that the state does not allow is answered with an error that says why.
func (s *State) Apply(cmd Command) (*State, Answered) {
	if cmd.Key == "" {
		return s, Answered{Error: "a command needs a key that tells it from all others"}
	}
	for _, a := range s.Keys {
		if a.Key == cmd.Key {
			return s, a
		}
	}
	next := *s
	job, err := next.apply(&cmd)
	if err != nil {
		next = *s
	}
	answer := Answered{Key: cmd.Key, Job: job}
	if err != nil {
		answer.Error = err.Error()
	}
	next.Applied++
	keys := next.Keys[max(0, len(next.Keys)+1-keptKeys):]
	next.Keys = append(slices.Clip(slices.Clone(keys)), answer)
	return &next, answer
}

// apply changes s, which shares slices with the state before: they are replaced, never written to.
func (s *State) apply(cmd *Command) (job string, err error) {
	if err := cmd.check(); err != nil {
		return "", err
	}
	switch {
	case cmd.Found != nil:
		return "", s.found(cmd.Found)
	case cmd.Upload != nil:
		return "", s.upload(cmd.Upload)
	case cmd.Submit != nil:
		return s.submit(cmd.Submit, cmd.At)
	case cmd.Start != nil:
		return cmd.Start.Job, s.start(cmd.Start)
	case cmd.Move != nil:
		return cmd.Move.Job, s.move(cmd.Move)
	case cmd.Begin != nil:
		return cmd.Begin.Job, s.begin(cmd.Begin)
	case cmd.Commit != nil:
		return cmd.Commit.Job, s.commit(cmd.Commit)
	case cmd.Save != nil:
		return cmd.Save.Job, s.save(cmd.Save)
	case cmd.Recover != nil:
		return cmd.Recover.Job, s.recover(cmd.Recover)
	}
	return cmd.End.Job, s.end(cmd.End)
}

func (s *State) found(c *Found) error {
	if s.Cluster != "" && s.Cluster != c.Cluster {
		return fmt.Errorf("this cluster is %q, not %q: a data folder serves one cluster", s.Cluster, c.Cluster)
	}
	s.Cluster = c.Cluster
	return nil
}

// Bundle returns the bundle with a hash, or nil.
func (s *State) Bundle(hash string) *Bundle {
	for _, b := range s.Bundles {
		if b.Hash == hash {
			return b
		}
	}
	return nil
}

// Job returns the job with an id, or nil.
func (s *State) Job(id string) *Job {
	for _, j := range s.Jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// Current returns the job whose turn it is: the first that has not ended; nil if there is none.
func (s *State) Current() *Job {
	for _, j := range s.Jobs {
		if !j.Phase.Ended() {
			return j
		}
	}
	return nil
}

func (s *State) upload(c *Upload) error {
	b := s.Bundle(c.Hash)
	if b == nil {
		b = &Bundle{Hash: c.Hash, Size: c.Size}
	}
	end := c.Offset + len(c.Data)
	switch {
	case b.Size != c.Size:
		return fmt.Errorf("bundle %s has %d bytes, not %d", short(c.Hash), b.Size, c.Size)
	case end <= len(b.Data) && bytes.Equal(b.Data[c.Offset:end], c.Data):
		return nil
	case c.Offset != len(b.Data):
		return fmt.Errorf("piece of bundle %s at byte %d, but byte %d is next", short(c.Hash), c.Offset, len(b.Data))
	}
	n := *b
	n.Data = make([]byte, 0, end)
	n.Data = append(append(n.Data, b.Data...), c.Data...)
	if len(n.Data) == n.Size {
		if sum := sha256.Sum256(n.Data); hex.EncodeToString(sum[:]) != n.Hash {
			s.dropBundle(n.Hash)
			return fmt.Errorf("bundle %s arrived whole but has the hash %s: send it again", short(n.Hash), short(hex.EncodeToString(sum[:])))
		}
		n.Complete = true
	}
	s.dropBundle(n.Hash)
	s.Bundles = append(slices.Clip(s.Bundles), &n)
	s.dropIdle()
	return nil
}

// short returns enough of a hash to tell it from others.
func short(hash string) string { return hash[:min(12, len(hash))] }

func (s *State) dropBundle(hash string) {
	s.Bundles = slices.DeleteFunc(slices.Clone(s.Bundles), func(b *Bundle) bool { return b.Hash == hash })
}

// needed reports whether a job that has not ended needs a bundle.
func (s *State) needed(hash string) bool {
	return slices.ContainsFunc(s.Jobs, func(j *Job) bool { return j.Bundle == hash && !j.Phase.Ended() })
}

// dropIdle drops the oldest bundles that no job needs if there are too many.
func (s *State) dropIdle() {
	idle := 0
	for _, b := range s.Bundles {
		if !s.needed(b.Hash) {
			idle++
		}
	}
	if idle <= MaxIdle {
		return
	}
	s.Bundles = slices.DeleteFunc(slices.Clone(s.Bundles), func(b *Bundle) bool {
		if idle <= MaxIdle || s.needed(b.Hash) {
			return false
		}
		idle--
		return true
	})
}

const noBundle = "is not here or not whole"

// BundleMissing reports whether a job was refused, with this text, because its bundle is not in the log. That it
// was there before means nothing: it is dropped with the last job that needs it.
func BundleMissing(refusal string) bool { return strings.Contains(refusal, noBundle) }

func (s *State) submit(c *Submit, at int64) (string, error) {
	b := s.Bundle(c.Bundle)
	if b == nil || !b.Complete {
		return "", fmt.Errorf("bundle %s %s: upload it before the job", short(c.Bundle), noBundle)
	}
	waiting := 0
	for _, j := range s.Jobs {
		if !j.Phase.Ended() {
			waiting++
		}
	}
	if waiting >= MaxJobs {
		return "", fmt.Errorf("%d jobs wait already, which is the most: stop one or wait", waiting)
	}
	s.NextJob++
	j := &Job{
		ID: fmt.Sprintf("job-%d", s.NextJob), Name: c.Name, Bundle: c.Bundle, Spec: c.Spec,
		MostRegions: c.MostRegions, Submitted: at, Phase: Initialising,
	}
	s.Jobs = append(slices.Clip(s.Jobs), j)
	return j.ID, nil
}

// find returns a copy of a job to change.
func (s *State) find(id string) (*Job, error) {
	j := s.Job(id)
	if j == nil {
		return nil, fmt.Errorf("there is no job %q: it was never submitted, or ended long ago and was forgotten", id)
	}
	n := *j
	return &n, nil
}

// put replaces a job, and forgets what its end makes needless.
func (s *State) put(j *Job) {
	s.Jobs = slices.Clone(s.Jobs)
	for i := range s.Jobs {
		if s.Jobs[i].ID == j.ID {
			s.Jobs[i] = j
		}
	}
	if !j.Phase.Ended() {
		return
	}
	if !s.needed(j.Bundle) {
		s.dropBundle(j.Bundle)
	}
	ended := 0
	for _, x := range s.Jobs {
		if x.Phase.Ended() {
			ended++
		}
	}
	s.Jobs = slices.DeleteFunc(s.Jobs, func(x *Job) bool {
		if ended <= KeptJobs || !x.Phase.Ended() {
			return false
		}
		ended--
		return true
	})
}

func (s *State) start(c *Start) error {
	j, err := s.find(c.Job)
	if err != nil {
		return err
	}
	if j.Phase != Initialising || j.Epoch != 0 {
		return fmt.Errorf("%s is %s in epoch %d: it cannot start", j.ID, j.Phase, j.Epoch)
	}
	if first := s.Current(); first.ID != j.ID {
		return fmt.Errorf("%s cannot start: %s comes before it and has not ended", j.ID, first.ID)
	}
	if most := j.MostRegions; most > 0 && len(c.Owner) > most {
		return fmt.Errorf("%s cannot start in %d regions: it allows %d at most", j.ID, len(c.Owner), most)
	}
	s.LastEpoch++
	j.Epoch = s.LastEpoch
	j.Members, j.Boots, j.Owner, j.Recorder = c.Members, c.Boots, c.Owner, c.Recorder
	s.put(j)
	return nil
}

func (s *State) move(c *Move) error {
	j, err := s.find(c.Job)
	if err != nil {
		return err
	}
	if !movable(j, c) {
		return fmt.Errorf("%s is %s: it cannot become %s", j.ID, j.Phase, c.To)
	}
	j.Phase = c.To
	if c.To == Stopping && j.Epoch == 0 {
		j.Phase, j.Reason = Done, "stopped before it began"
	}
	if c.To == Stopping && j.Away {
		j.Phase, j.Reason = Done, "stopped while it was suspended"
	}
	if c.To == Suspended {
		j.Away = true
	}
	s.put(j)
	return nil
}

func movable(j *Job, c *Move) bool {
	switch c.To {
	case Running:
		return c.Epoch == 0 && (j.Phase == Paused || j.Phase == Suspended) || c.Epoch != 0 && c.Epoch == j.Epoch && j.Phase == Initialising
	case Paused:
		return j.Phase == Running
	case Stopping:
		return !j.Phase.Ended() && j.Phase != Stopping
	case Suspending:
		return j.Phase == Running || j.Phase == Paused
	case Suspended:
		return j.Phase == Suspending && c.Epoch != 0 && c.Epoch == j.Epoch && len(j.Checkpoints) > 0
	}
	return false
}

func (s *State) end(c *End) error {
	j, err := s.find(c.Job)
	if err != nil {
		return err
	}
	switch {
	case j.Phase.Ended():
		return fmt.Errorf("%s is %s already", j.ID, j.Phase)
	case j.Epoch != c.Epoch:
		return fmt.Errorf("%s is in epoch %d: the end of epoch %d does not concern it", j.ID, j.Epoch, c.Epoch)
	}
	j.Phase, j.Reason, j.Result = c.Phase, c.Reason, c.Result
	s.put(j)
	return nil
}

// check reports what is wrong with a command whatever the state.
func (c *Command) check() error {
	n := 0
	for _, set := range []bool{c.Found != nil, c.Upload != nil, c.Submit != nil, c.Start != nil, c.Move != nil, c.End != nil,
		c.Begin != nil, c.Commit != nil, c.Save != nil, c.Recover != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("a command asks for one thing, not %d", n)
	}
	if len(c.Key) > 256 {
		return fmt.Errorf("key of %d bytes: 256 are the most", len(c.Key))
	}
	switch {
	case c.Found != nil:
		return checkText("name of a cluster", c.Found.Cluster, 1, 256)
	case c.Upload != nil:
		return c.Upload.check()
	case c.Submit != nil:
		return c.Submit.check()
	case c.Start != nil:
		return c.Start.check()
	case c.Move != nil:
		return checkText("job", c.Move.Job, 1, 64)
	case c.Begin != nil:
		return c.Begin.check()
	case c.Commit != nil:
		return c.Commit.check()
	case c.Save != nil:
		return checkText("job", c.Save.Job, 1, 64)
	case c.Recover != nil:
		return c.Recover.check()
	}
	return c.End.check()
}

func checkText(what, text string, least, most int) error {
	if len(text) < least || len(text) > most {
		return fmt.Errorf("%s of %d bytes: %d to %d are allowed", what, len(text), least, most)
	}
	return nil
}

func checkHash(hash string) error {
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != hash {
		return fmt.Errorf("hash %.80q of a bundle: 64 hexadecimal digits in small letters are expected", hash)
	}
	return nil
}

func (c *Upload) check() error {
	switch {
	case c.Size < 1 || c.Size > MaxBundle:
		return fmt.Errorf("bundle of %d bytes: 1 to %d are allowed", c.Size, MaxBundle)
	case len(c.Data) < 1 || len(c.Data) > MaxPiece:
		return fmt.Errorf("piece of %d bytes of a bundle: 1 to %d are allowed", len(c.Data), MaxPiece)
	case c.Offset < 0 || c.Offset > c.Size-len(c.Data):
		return fmt.Errorf("piece of %d bytes at byte %d of a bundle of %d", len(c.Data), c.Offset, c.Size)
	}
	return checkHash(c.Hash)
}

func (c *Submit) check() error {
	if err := checkHash(c.Bundle); err != nil {
		return err
	}
	if err := checkText("name of a scenario", c.Name, 0, 4096); err != nil {
		return err
	}
	if c.MostRegions < 0 {
		return fmt.Errorf("%d regions at most: 0 is no bound, 1 or more is one", c.MostRegions)
	}
	return c.Spec.Check()
}

// Check reports what is wrong with the choices for a run, whatever the scenario.
func (s *Spec) Check() error {
	switch {
	case s.Regions < 0 || s.Regions > MaxRegions:
		return fmt.Errorf("%d regions: from 1 to %d are possible, 0 is the default", s.Regions, MaxRegions)
	case s.Nodes < 0 || s.Nodes > MaxMembers:
		return fmt.Errorf("%d nodes: from 1 to %d are possible, 0 is the expected size of the cluster", s.Nodes, MaxMembers)
	case s.Workers < 0 || s.Workers > MaxRegions:
		return fmt.Errorf("%d workers: from 1 to %d are possible, 0 is one a processor", s.Workers, MaxRegions)
	}
	total := len(s.Seed) + len(s.End) + len(s.Record)
	for _, set := range s.Set {
		total += len(set)
	}
	if total > maxText || len(s.Set) > 4096 {
		return fmt.Errorf("%d settings of %d bytes in all for a run: 4096 of %d bytes are the most", len(s.Set), total, maxText)
	}
	return s.Checkpoints.check()
}

func (c *Start) check() error {
	if err := checkText("job", c.Job, 1, 64); err != nil {
		return err
	}
	return checkMembers(c.Members, c.Boots, c.Owner, c.Recorder)
}

// checkMembers reports what is wrong with who runs what: names twice, members without a region, regions
// of a member that are not consecutive.
func checkMembers(members, boots []string, owner []int, recorder int) error {
	switch {
	case len(members) < 1 || len(members) > MaxMembers:
		return fmt.Errorf("%d members: 1 to %d are possible", len(members), MaxMembers)
	case len(boots) != len(members):
		return fmt.Errorf("%d members with %d processes", len(members), len(boots))
	case len(owner) < 1 || len(owner) > MaxRegions:
		return fmt.Errorf("%d regions: 1 to %d are possible", len(owner), MaxRegions)
	case recorder < 0 || recorder >= len(members):
		return fmt.Errorf("member %d of %d records", recorder, len(members))
	}
	seen := make(map[string]bool, len(members)) // looked up, never iterated
	for i, name := range members {
		if err := checkText("name of a node", name, 1, 256); err != nil {
			return err
		}
		if err := checkText("process of a node", boots[i], 0, 256); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("node %s is a member twice", name)
		}
		seen[name] = true
	}
	at := 0
	for region, m := range owner {
		if region == 0 && m != 0 || m != at && m != at+1 || m >= len(members) {
			return fmt.Errorf("region %d is owned by member %d of %d: each member owns a block of regions, in order", region, m, len(members))
		}
		at = m
	}
	if at != len(members)-1 {
		return fmt.Errorf("member %d owns no region", at+1)
	}
	return nil
}

func (c *End) check() error {
	if err := checkText("job", c.Job, 1, 64); err != nil {
		return err
	}
	if err := checkText("reason", c.Reason, 0, maxText); err != nil {
		return err
	}
	if !c.Phase.Ended() {
		return fmt.Errorf("a job ends done or failed, not %.40q", c.Phase)
	}
	if len(c.Result) > MaxResult {
		return fmt.Errorf("result of %d bytes: %d are the most", len(c.Result), MaxResult)
	}
	return nil
}
