package control

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/simnode/simnode/sim"
)

// Checkpoints say when checkpoints of a job are taken and which are kept. They change no result.
type Checkpoints struct {
	// Every is the wall time between checkpoints in milliseconds; 0 takes none by it.
	Every int64 `json:"every,omitempty"`
	// EverySim is the simulated time between checkpoints in ticks; 0 takes none by it.
	EverySim sim.Duration `json:"every_sim,omitempty"`
	// KeepLast is how many of the newest are kept; 0 is DefaultKeepLast.
	KeepLast int `json:"keep_last,omitempty"`
	// KeepEvery keeps besides the first at or after each multiple of it; 0 keeps none.
	KeepEvery uint64 `json:"keep_every,omitempty"`
}

// Checkpoint is a committed checkpoint: every event below At has run, none other, and all parts are durable
// where they say.
type Checkpoint struct {
	// Number rises and is never used twice in a job.
	Number uint64 `json:"number"`
	// Parent is the committed one before it, 0 for the first.
	Parent uint64 `json:"parent,omitempty"`
	// Epoch in which it was taken. The first of an epoch needs no other one.
	Epoch uint64   `json:"epoch"`
	At    sim.Time `json:"at"`
	// Chain are the checkpoints of the epoch whose increments it may need, ascending, itself last.
	Chain []uint64 `json:"chain"`
	// Recorder is the part that holds what was recorded.
	Recorder int `json:"recorder"`
	// Parts in order of the members that took it.
	Parts []CheckpointPart `json:"parts"`
}

// CheckpointPart is what one member stored of a checkpoint.
type CheckpointPart struct {
	// Member is the node that stored it, Boot its process; Partner the node that holds a copy, empty if there
	// is none. Archived says that there is another copy in the archive.
	Member   string `json:"member"`
	Boot     string `json:"boot"`
	Partner  string `json:"partner,omitempty"`
	Archived bool   `json:"archived,omitempty"`
	// Regions in it, ascending.
	Regions []int `json:"regions"`
	// Root is a hash over all of it, as its store makes it, in hexadecimal.
	Root string `json:"root,omitempty"`
	// Base is the oldest checkpoint whose increment it needs.
	Base uint64 `json:"base"`
	// Chunks, Bytes of this increment; Entities and pending Events of its regions; Digest of their state.
	Chunks   int    `json:"chunks,omitempty"`
	Bytes    uint64 `json:"bytes,omitempty"`
	Entities uint64 `json:"entities,omitempty"`
	Events   uint64 `json:"events,omitempty"`
	Digest   uint64 `json:"digest,omitempty"`
}

// Restore is the checkpoint that an epoch begins from.
type Restore struct {
	Number uint64   `json:"number"`
	At     sim.Time `json:"at"`
	// Sources say who reads each part, in order of part.
	Sources []Source `json:"sources"`
}

// Source says that a member reads a part of a checkpoint, from its own store or from the archive.
type Source struct {
	Part    int    `json:"part"`
	Node    string `json:"node"`
	Archive bool   `json:"archive,omitempty"`
}

// Damage says that a node has no good copy of a part of a checkpoint. Node Archive is the archive.
type Damage struct {
	Number uint64 `json:"number"`
	Part   int    `json:"part"`
	Node   string `json:"node"`
}

// Archive is the name of the archive where a holder is named.
const Archive = "archive"

// Limits of what a job keeps of its checkpoints.
const (
	// DefaultKeepLast is how many checkpoints are kept unless told otherwise, MostKept how many at most.
	DefaultKeepLast = 3
	MostKept        = 32
	// MaxChain is the longest chain of a checkpoint.
	MaxChain = 4096
	// maxDamaged, maxExcluded and maxLosses bound the lists of a job; maxLoss is the longest reason in bytes.
	maxDamaged, maxExcluded, maxLosses = 4096, 256, 16
	maxLoss                            = 2048
)

type (
	// Begin takes a number for a checkpoint that the coordinator is about to bring about. It must be above
	// all that were begun.
	Begin struct {
		Job    string `json:"job"`
		Epoch  uint64 `json:"epoch"`
		Number uint64 `json:"number"`
	}
	// Commit makes a checkpoint valid, of which every part and copy is durable. Epoch must be that of the
	// job, the number one that was begun and above all that were committed. Parent and Chain follow from
	// those before and must be left empty.
	Commit struct {
		Job        string     `json:"job"`
		Checkpoint Checkpoint `json:"checkpoint"`
		// Asked says that it is what a user asked for.
		Asked bool `json:"asked,omitempty"`
	}
	// Save asks for a checkpoint as soon as may be.
	Save struct {
		Job string `json:"job"`
	}
	// Recover gives a job that lost members a new epoch, which begins from the newest committed checkpoint,
	// or from the beginning if there is none. Epoch is the old one.
	Recover struct {
		Job      string   `json:"job"`
		Epoch    uint64   `json:"epoch"`
		Members  []string `json:"members"`
		Boots    []string `json:"boots"`
		Owner    []int    `json:"owner"`
		Recorder int      `json:"recorder"`
		Restore  *Restore `json:"restore,omitempty"`
		// Reason for it.
		Reason string `json:"reason,omitempty"`
		// Excluded are processes that cannot work for the job, Damaged copies found bad.
		Excluded []string `json:"excluded,omitempty"`
		Damaged  []Damage `json:"damaged,omitempty"`
	}
)

// Newest returns the newest committed checkpoint of a job, nil if there is none.
func (j *Job) Newest() *Checkpoint {
	if len(j.Checkpoints) == 0 {
		return nil
	}
	return &j.Checkpoints[len(j.Checkpoints)-1]
}

// Base is the oldest checkpoint whose increment it needs.
func (c *Checkpoint) Base() uint64 {
	base := c.Number
	for i := range c.Parts {
		base = min(base, c.Parts[i].Base)
	}
	return base
}

// Needed lists the checkpoints whose increments the given ones need, ascending.
func Needed(kept []Checkpoint) (list []uint64) {
	for i := range kept {
		base := kept[i].Base()
		for _, n := range kept[i].Chain {
			if n >= base {
				list = append(list, n)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// keep returns the checkpoints that are kept of a list.
func (s *Checkpoints) keep(list []Checkpoint) (kept []Checkpoint) {
	last := s.KeepLast
	if last == 0 {
		last = DefaultKeepLast
	}
	for i := range list {
		c := &list[i]
		if i >= len(list)-last || s.KeepEvery > 0 && c.Number/s.KeepEvery > c.Parent/s.KeepEvery {
			kept = append(kept, *c)
		}
	}
	return kept[max(0, len(kept)-MostKept):]
}

func (s *Checkpoints) check() error {
	switch {
	case s.Every < 0 || s.EverySim < 0:
		return fmt.Errorf("checkpoints each %d ms and each %v of simulated time: 0 is none, less is impossible", s.Every, s.EverySim)
	case s.KeepLast < 0 || s.KeepLast > MostKept:
		return fmt.Errorf("the last %d checkpoints are to be kept: 1 to %d are possible, 0 is %d", s.KeepLast, MostKept, DefaultKeepLast)
	}
	return nil
}

// at returns a copy of a job in an epoch to change.
func (s *State) inEpoch(id string, epoch uint64, what string) (*Job, error) {
	j, err := s.find(id)
	switch {
	case err != nil:
		return nil, err
	case j.Phase.Ended():
		return nil, fmt.Errorf("%s is %s: %s comes too late", j.ID, j.Phase, what)
	case j.Epoch != epoch || epoch == 0:
		return nil, fmt.Errorf("%s is in epoch %d: %s of epoch %d does not concern it", j.ID, j.Epoch, what, epoch)
	}
	return j, nil
}

func (s *State) begin(c *Begin) error {
	j, err := s.inEpoch(c.Job, c.Epoch, "a checkpoint")
	if err != nil {
		return err
	}
	if c.Number <= j.Begun {
		return fmt.Errorf("checkpoint %d of %s was begun already: the next one is at least %d", c.Number, j.ID, j.Begun+1)
	}
	j.Begun = c.Number
	s.put(j)
	return nil
}

func (s *State) commit(c *Commit) error {
	n := c.Checkpoint
	j, err := s.inEpoch(c.Job, n.Epoch, "a checkpoint")
	if err != nil {
		return err
	}
	newest := uint64(0)
	if was := j.Newest(); was != nil {
		newest = was.Number
		if n.At < was.At {
			return fmt.Errorf("checkpoint %d of %s is at %v, before checkpoint %d at %v", n.Number, j.ID, n.At, was.Number, was.At)
		}
	}
	if n.Number <= newest || n.Number > j.Begun {
		return fmt.Errorf("checkpoint %d of %s: numbers above %d, up to %d, can be committed", n.Number, j.ID, newest, j.Begun)
	}
	if err := n.fits(j); err != nil {
		return err
	}
	n.Parent = newest
	if n.Chain, err = j.chain(&n); err != nil {
		return err
	}
	j.Checkpoints = j.Spec.Checkpoints.keep(append(slices.Clip(j.Checkpoints), n))
	j.Asked = j.Asked && !c.Asked
	j.Fruitless, j.Losses = 0, nil
	oldest := j.Checkpoints[0].Number
	j.Damaged = slices.DeleteFunc(slices.Clone(j.Damaged), func(d Damage) bool { return d.Number < oldest })
	s.put(j)
	return nil
}

// fits reports whether the parts are those of the job's members, with their regions.
func (c *Checkpoint) fits(j *Job) error {
	if len(c.Parts) != len(j.Members) || c.Recorder != j.Recorder {
		return fmt.Errorf("checkpoint %d of %s has %d parts with what part %d recorded: %d members, of which member %d records, are expected",
			c.Number, j.ID, len(c.Parts), c.Recorder, len(j.Members), j.Recorder)
	}
	region := 0
	for i := range c.Parts {
		p := &c.Parts[i]
		if p.Member != j.Members[i] || p.Boot != j.Boots[i] {
			return fmt.Errorf("part %d of checkpoint %d is of process %s of node %s: that of %s of node %s is expected", i, c.Number, p.Boot, p.Member, j.Boots[i], j.Members[i])
		}
		for _, r := range p.Regions {
			if r != region || j.Owner[r] != i {
				return fmt.Errorf("part %d of checkpoint %d holds region %d where region %d comes next", i, c.Number, r, region)
			}
			region++
		}
	}
	if region != len(j.Owner) {
		return fmt.Errorf("checkpoint %d holds %d regions of %d", c.Number, region, len(j.Owner))
	}
	return nil
}

// chain returns the increments that a new checkpoint of the job needs.
func (j *Job) chain(n *Checkpoint) ([]uint64, error) {
	base := n.Base()
	chain := []uint64{}
	if was := j.Newest(); was != nil && was.Epoch == n.Epoch {
		for _, x := range was.Chain {
			if x >= base {
				chain = append(chain, x)
			}
		}
	}
	chain = append(chain, n.Number)
	for i := range n.Parts {
		if _, ok := slices.BinarySearch(chain, n.Parts[i].Base); !ok {
			return nil, fmt.Errorf("part %d of checkpoint %d needs checkpoint %d: %v are there", i, n.Number, n.Parts[i].Base, chain)
		}
	}
	if len(chain) > MaxChain {
		return nil, fmt.Errorf("checkpoint %d needs %d others: %d are the most", n.Number, len(chain), MaxChain)
	}
	return chain, nil
}

func (s *State) save(c *Save) error {
	j, err := s.find(c.Job)
	if err != nil {
		return err
	}
	if j.Epoch == 0 || j.Phase.Ended() || j.Phase == Suspended {
		return fmt.Errorf("%s is %s in epoch %d: there is nothing to save", j.ID, j.Phase, j.Epoch)
	}
	j.Asked = true
	s.put(j)
	return nil
}

func (s *State) recover(c *Recover) error {
	j, err := s.inEpoch(c.Job, c.Epoch, "a recovery")
	if err != nil {
		return err
	}
	if j.Phase == Suspended {
		return fmt.Errorf("%s is suspended: let it run again first", j.ID)
	}
	if most := j.MostRegions; most > 0 && len(c.Owner) > most {
		return fmt.Errorf("%s cannot go on in %d regions: it allows %d at most", j.ID, len(c.Owner), most)
	}
	if err := c.Restore.fits(j.Newest(), c.Members); err != nil {
		return fmt.Errorf("%s: %w", j.ID, err)
	}
	s.LastEpoch++
	j.Epoch = s.LastEpoch
	j.Members, j.Boots, j.Owner, j.Recorder, j.Restore = c.Members, c.Boots, c.Owner, c.Recorder, c.Restore
	j.Recoveries++
	j.Away = false
	if c.Reason != "" {
		j.Fruitless++
		j.Losses = appendBounded(j.Losses, maxLosses, c.Reason)
	}
	j.Excluded = appendBounded(j.Excluded, maxExcluded, c.Excluded...)
	j.Damaged = appendBounded(j.Damaged, maxDamaged, c.Damaged...)
	s.put(j)
	return nil
}

// appendBounded returns a new list with more at its end, and no more than the last most.
func appendBounded[T any](list []T, most int, more ...T) []T {
	if len(more) == 0 {
		return list
	}
	list = append(slices.Clip(list), more...)
	return list[max(0, len(list)-most):]
}

// fits reports whether a restore is from the newest checkpoint there is, with a member to read each part.
func (r *Restore) fits(newest *Checkpoint, members []string) error {
	switch {
	case r == nil && newest == nil:
		return nil
	case r == nil:
		return fmt.Errorf("checkpoint %d was committed: the recovery must begin from it", newest.Number)
	case newest == nil:
		return fmt.Errorf("the recovery begins from checkpoint %d, but none is there", r.Number)
	case r.Number != newest.Number || r.At != newest.At:
		return fmt.Errorf("the recovery begins from checkpoint %d at %v, but the newest is %d at %v", r.Number, r.At, newest.Number, newest.At)
	case len(r.Sources) != len(newest.Parts):
		return fmt.Errorf("the recovery reads %d parts of checkpoint %d, which has %d", len(r.Sources), r.Number, len(newest.Parts))
	}
	for i, s := range r.Sources {
		if s.Part != i || !slices.Contains(members, s.Node) {
			return fmt.Errorf("part %d of checkpoint %d is read as part %d by node %s: a member is expected", i, r.Number, s.Part, s.Node)
		}
	}
	return nil
}

func (c *Begin) check() error {
	if c.Number == 0 || c.Number > 1<<62 {
		return fmt.Errorf("checkpoint number %d: 1 is the first", c.Number)
	}
	return checkText("job", c.Job, 1, 64)
}

func (c *Commit) check() error {
	if err := checkText("job", c.Job, 1, 64); err != nil {
		return err
	}
	if c.Checkpoint.Parent != 0 || len(c.Checkpoint.Chain) > 0 {
		return fmt.Errorf("checkpoint %d comes with its parent and chain, which follow from those before", c.Checkpoint.Number)
	}
	return c.Checkpoint.check()
}

// check reports what is wrong with a checkpoint whatever the job.
func (c *Checkpoint) check() error {
	switch {
	case c.Number == 0 || c.Parent >= c.Number || c.Epoch == 0 || c.At < 0:
		return fmt.Errorf("checkpoint %d after %d of epoch %d at %v", c.Number, c.Parent, c.Epoch, c.At)
	case len(c.Parts) < 1 || len(c.Parts) > MaxMembers:
		return fmt.Errorf("checkpoint %d of %d parts: 1 to %d are possible", c.Number, len(c.Parts), MaxMembers)
	case c.Recorder < 0 || c.Recorder >= len(c.Parts):
		return fmt.Errorf("part %d of %d of checkpoint %d holds what was recorded", c.Recorder, len(c.Parts), c.Number)
	case len(c.Chain) > MaxChain:
		return fmt.Errorf("chain of %d checkpoints: %d are the most", len(c.Chain), MaxChain)
	}
	for i, n := range c.Chain {
		if n == 0 || i > 0 && n <= c.Chain[i-1] || i == len(c.Chain)-1 && n != c.Number {
			return fmt.Errorf("the chain of checkpoint %d is %v: it must rise and end with itself", c.Number, c.Chain)
		}
	}
	regions := 0
	for i := range c.Parts {
		if err := c.Parts[i].check(c.Number); err != nil {
			return fmt.Errorf("part %d of checkpoint %d: %w", i, c.Number, err)
		}
		regions += len(c.Parts[i].Regions)
	}
	if regions > MaxRegions {
		return fmt.Errorf("checkpoint %d of %d regions: %d are the most", c.Number, regions, MaxRegions)
	}
	return nil
}

func (p *CheckpointPart) check(number uint64) error {
	if err := checkText("name of a node", p.Member, 1, 256); err != nil {
		return err
	}
	for _, name := range []string{p.Boot, p.Partner} {
		if err := checkText("name of a node", name, 0, 256); err != nil {
			return err
		}
	}
	if _, err := hex.DecodeString(p.Root); err != nil || len(p.Root) > 128 {
		return fmt.Errorf("root %.140q: up to 128 hexadecimal digits are expected", p.Root)
	}
	for i, r := range p.Regions {
		if r < 0 || r >= MaxRegions || i > 0 && r <= p.Regions[i-1] {
			return fmt.Errorf("region %d: regions rise from 0 to %d", r, MaxRegions-1)
		}
	}
	if p.Base == 0 || p.Base > number || p.Chunks < 0 {
		return fmt.Errorf("base %d with %d chunks: 1 to %d is possible", p.Base, p.Chunks, number)
	}
	return nil
}

func (c *Recover) check() error {
	if err := checkText("job", c.Job, 1, 64); err != nil {
		return err
	}
	if err := checkText("reason", c.Reason, 0, maxLoss); err != nil {
		return err
	}
	if len(c.Excluded) > maxExcluded || len(c.Damaged) > maxDamaged {
		return fmt.Errorf("%d excluded processes and %d damaged copies: %d and %d are the most", len(c.Excluded), len(c.Damaged), maxExcluded, maxDamaged)
	}
	for _, boot := range c.Excluded {
		if err := checkText("process of a node", boot, 1, 512); err != nil {
			return err
		}
	}
	for _, d := range c.Damaged {
		if err := d.check(); err != nil {
			return err
		}
	}
	if err := c.Restore.check(); err != nil {
		return err
	}
	return checkMembers(c.Members, c.Boots, c.Owner, c.Recorder)
}

func (d *Damage) check() error {
	if d.Number == 0 || d.Part < 0 || d.Part >= MaxMembers {
		return fmt.Errorf("damage of part %d of checkpoint %d", d.Part, d.Number)
	}
	return checkText("name of a node", d.Node, 1, 256)
}

func (r *Restore) check() error {
	if r == nil {
		return nil
	}
	if r.Number == 0 || r.At < 0 || len(r.Sources) < 1 || len(r.Sources) > MaxMembers {
		return fmt.Errorf("restore of checkpoint %d at %v with %d sources: 1 to %d are possible", r.Number, r.At, len(r.Sources), MaxMembers)
	}
	for i, s := range r.Sources {
		if s.Part != i {
			return fmt.Errorf("part %d stands where part %d is expected", s.Part, i)
		}
		if err := checkText("name of a node", s.Node, 1, 256); err != nil {
			return err
		}
	}
	return nil
}

// checkSaved reports what is wrong with what a job says of its checkpoints.
func (j *Job) checkSaved() error {
	if len(j.Checkpoints) > MostKept || len(j.Losses) > maxLosses || len(j.Excluded) > maxExcluded || len(j.Damaged) > maxDamaged {
		return fmt.Errorf("%d checkpoints, %d losses, %d excluded processes, %d damaged copies: more than may be",
			len(j.Checkpoints), len(j.Losses), len(j.Excluded), len(j.Damaged))
	}
	if err := j.Spec.Checkpoints.check(); err != nil {
		return err
	}
	for i := range j.Checkpoints {
		c := &j.Checkpoints[i]
		if err := c.check(); err != nil {
			return err
		}
		if i > 0 && (c.Number <= j.Checkpoints[i-1].Number || c.Epoch < j.Checkpoints[i-1].Epoch) || c.Number > j.Begun || c.Epoch > j.Epoch || len(c.Chain) == 0 {
			return fmt.Errorf("checkpoint %d of epoch %d is out of order", c.Number, c.Epoch)
		}
	}
	for i := range j.Damaged {
		if err := j.Damaged[i].check(); err != nil {
			return err
		}
	}
	return j.Restore.check()
}
