package control

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/simnode/simnode/sim"
	"pgregory.net/rapid"
)

// must applies a command that must succeed.
func must(t testing.TB, s *State, c Command) *State {
	t.Helper()
	next, a := s.Apply(c)
	if a.Error != "" {
		t.Fatalf("%s: %s", c.Key, a.Error)
	}
	return next
}

// refused applies a command that must be refused with a sign in its error, and change nothing.
func refused(t testing.TB, s *State, c Command, sign string) {
	t.Helper()
	next, a := s.Apply(c)
	if !strings.Contains(a.Error, sign) {
		t.Errorf("%s: %q, expected %q", c.Key, a.Error, sign)
	}
	n := *next
	n.Applied, n.Keys = s.Applied, s.Keys
	if !reflect.DeepEqual(&n, s) {
		t.Errorf("%s was refused and changed something", c.Key)
	}
}

func withBundle(t testing.TB) (*State, string) {
	data := []byte("a scenario with its files")
	hash := hashOf(data)
	s := must(t, &State{}, Command{Key: "u1", Upload: &Upload{Hash: hash, Size: len(data), Data: data[:10]}})
	if s.Bundles[0].Complete {
		t.Fatal("complete after the first piece")
	}
	refused(t, s, Command{Key: "early", Submit: &Submit{Bundle: hash}}, "not here or not whole")
	refused(t, s, Command{Key: "gap", Upload: &Upload{Hash: hash, Size: len(data), Offset: 11, Data: data[11:]}}, "byte 10 is next")
	s = must(t, s, Command{Key: "again", Upload: &Upload{Hash: hash, Size: len(data), Data: data[:10]}})
	return must(t, s, Command{Key: "u2", Upload: &Upload{Hash: hash, Size: len(data), Offset: 10, Data: data[10:]}}), hash
}

func startOf(job string) *Start {
	return &Start{Job: job, Members: []string{"a", "b"}, Boots: []string{"1", "1"}, Owner: []int{0, 0, 1}}
}

func TestLifecycle(t *testing.T) {
	s, hash := withBundle(t)
	for k := range 3 {
		s = must(t, s, Command{Key: fmt.Sprint("s", k), At: 77, Submit: &Submit{Name: "n", Bundle: hash}})
	}
	if got := s.Current(); got.ID != "job-1" || got.Phase != Initialising || got.Submitted != 77 {
		t.Fatalf("%+v", got)
	}
	refused(t, s, Command{Key: "second", Start: startOf("job-2")}, "job-1 comes before it")
	refused(t, s, Command{Key: "none", Move: &Move{Job: "job-9", To: Paused}}, `no job "job-9"`)
	refused(t, s, Command{Key: "user", Move: &Move{Job: "job-1", To: Running}}, "job-1 is initialising: it cannot become running")
	refused(t, s, Command{Key: "p", Move: &Move{Job: "job-1", To: Paused}}, "cannot become paused")
	refused(t, s, Command{Key: "d", Move: &Move{Job: "job-1", To: Done}}, "cannot become done")
	s = must(t, s, Command{Key: "st", Start: startOf("job-1")})
	refused(t, s, Command{Key: "st2", Start: startOf("job-1")}, "in epoch 1: it cannot start")
	refused(t, s, Command{Key: "r9", Move: &Move{Job: "job-1", To: Running, Epoch: 9}}, "cannot become running")
	s = must(t, s, Command{Key: "r", Move: &Move{Job: "job-1", To: Running, Epoch: 1}})
	refused(t, s, Command{Key: "r2", Move: &Move{Job: "job-1", To: Running, Epoch: 1}}, "job-1 is running")
	s = must(t, s, Command{Key: "p1", Move: &Move{Job: "job-1", To: Paused}})
	refused(t, s, Command{Key: "late", Move: &Move{Job: "job-1", To: Running, Epoch: 1}}, "job-1 is paused")
	s = must(t, s, Command{Key: "r3", Move: &Move{Job: "job-1", To: Running}})
	s = must(t, s, Command{Key: "x", Move: &Move{Job: "job-1", To: Stopping}})
	refused(t, s, Command{Key: "r4", Move: &Move{Job: "job-1", To: Running}}, "job-1 is stopping")
	refused(t, s, Command{Key: "e0", End: &End{Job: "job-1", Epoch: 4, Phase: Done}}, "the end of epoch 4 does not concern it")
	s = must(t, s, Command{Key: "e", End: &End{Job: "job-1", Epoch: 1, Phase: Done, Result: []byte("r")}})
	refused(t, s, Command{Key: "e2", End: &End{Job: "job-1", Epoch: 1, Phase: Failed}}, "job-1 is done already")
	refused(t, s, Command{Key: "x2", Move: &Move{Job: "job-1", To: Stopping}}, "job-1 is done")

	// One that has no members is done at once, and the next one's turn comes.
	s = must(t, s, Command{Key: "x3", Move: &Move{Job: "job-2", To: Stopping}})
	if j := s.Job("job-2"); j.Phase != Done || j.Reason != "stopped before it began" {
		t.Errorf("%+v", j)
	}
	if s.Bundle(hash) == nil {
		t.Fatal("the bundle of job-3 is gone")
	}
	s = must(t, s, Command{Key: "st3", Start: startOf("job-3")})
	if s.Job("job-3").Epoch != 2 {
		t.Errorf("epoch %d", s.Job("job-3").Epoch)
	}
	s = must(t, s, Command{Key: "e3", End: &End{Job: "job-3", Epoch: 2, Phase: Failed, Reason: "why"}})
	if len(s.Bundles) != 0 {
		t.Error("a bundle that no job needs is kept")
	}
}

func TestCommandsAreAppliedOnce(t *testing.T) {
	s, hash := withBundle(t)
	c := Command{Key: "k", Submit: &Submit{Bundle: hash}}
	s, first := s.Apply(c)
	again, a := s.Apply(c)
	if again != s || a != first || a.Job != "job-1" {
		t.Errorf("%+v after %+v", a, first)
	}
	bad := Command{Key: "bad", Move: &Move{Job: "job-7", To: Paused}}
	s, first = s.Apply(bad)
	if _, a := s.Apply(bad); a != first || a.Error == "" {
		t.Errorf("%+v after %+v", a, first)
	}
	if _, a := s.Apply(Command{Submit: &Submit{Bundle: hash}}); !strings.Contains(a.Error, "key") {
		t.Errorf("%+v", a)
	}
	refused(t, s, Command{Key: "two", Move: bad.Move, Submit: c.Submit}, "one thing, not 2")
	refused(t, s, Command{Key: "nothing"}, "one thing, not 0")
}

func TestBoundsOfTheState(t *testing.T) {
	s, hash := withBundle(t)
	for k := range MaxJobs {
		s = must(t, s, Command{Key: fmt.Sprint("s", k), Submit: &Submit{Bundle: hash}})
	}
	refused(t, s, Command{Key: "more", Submit: &Submit{Bundle: hash}}, "which is the most")
	for k := range MaxJobs {
		s = must(t, s, Command{Key: fmt.Sprint("x", k), Move: &Move{Job: fmt.Sprint("job-", k+1), To: Stopping}})
	}
	if len(s.Jobs) != KeptJobs || s.Jobs[0].ID != fmt.Sprint("job-", MaxJobs-KeptJobs+1) || len(s.Bundles) != 0 {
		t.Errorf("%d jobs kept, from %s on, and %d bundles", len(s.Jobs), s.Jobs[0].ID, len(s.Bundles))
	}
	for k := range 3 * MaxIdle {
		data := fmt.Append(nil, "bundle", k)
		s = must(t, s, Command{Key: fmt.Sprint("b", k), Upload: &Upload{Hash: hashOf(data), Size: len(data), Data: data}})
	}
	if len(s.Bundles) != MaxIdle {
		t.Errorf("%d bundles are kept", len(s.Bundles))
	}
	for k := range keptKeys {
		s, _ = s.Apply(Command{Key: fmt.Sprint("n", k), Move: &Move{Job: "nobody", To: Paused}})
	}
	if len(s.Keys) != keptKeys {
		t.Errorf("%d answers are kept", len(s.Keys))
	}
	wrong := []byte("wrong")
	refused(t, s, Command{Key: "h", Upload: &Upload{Hash: hashOf([]byte("right")), Size: 5, Data: wrong}}, "send it again")
	refused(t, s, Command{Key: "big", Upload: &Upload{Hash: hash, Size: MaxBundle + 1, Data: wrong}}, "are allowed")
	refused(t, s, Command{Key: "big2", Upload: &Upload{Hash: hash, Size: MaxBundle, Data: make([]byte, MaxPiece+1)}}, "are allowed")
	refused(t, s, Command{Key: "hash", Upload: &Upload{Hash: strings.ToUpper(hash), Size: 5, Data: wrong}}, "hexadecimal")
	refused(t, s, Command{Key: "spec", Submit: &Submit{Bundle: hash, Spec: Spec{Regions: 5000}}}, "5000 regions")
}

func TestStartsThatAreRefused(t *testing.T) {
	s, hash := withBundle(t)
	s = must(t, s, Command{Key: "s", Submit: &Submit{Bundle: hash, MostRegions: 4}})
	for k, c := range []struct {
		change func(*Start)
		sign   string
	}{
		{func(x *Start) { x.Members, x.Boots = nil, nil }, "0 members"},
		{func(x *Start) { x.Boots = x.Boots[:1] }, "2 members with 1 processes"},
		{func(x *Start) { x.Owner = nil }, "0 regions"},
		{func(x *Start) { x.Owner = []int{0, 1, 0} }, "in order"},
		{func(x *Start) { x.Owner = []int{1, 1} }, "in order"},
		{func(x *Start) { x.Owner = []int{0, 0} }, "member 1 owns no region"},
		{func(x *Start) { x.Owner = []int{0, 1, 2} }, "in order"},
		{func(x *Start) { x.Recorder = 2 }, "member 2 of 2 records"},
		{func(x *Start) { x.Members = []string{"a", "a"} }, "a member twice"},
		{func(x *Start) { x.Owner = []int{0, 0, 0, 0, 1} }, "it allows 4 at most"},
	} {
		x := startOf("job-1")
		c.change(x)
		refused(t, s, Command{Key: fmt.Sprint("c", k), Start: x}, c.sign)
	}
	s = must(t, s, Command{Key: "f", Found: &Found{Cluster: "one"}})
	s = must(t, s, Command{Key: "f1", Found: &Found{Cluster: "one"}})
	refused(t, s, Command{Key: "f2", Found: &Found{Cluster: "two"}}, `this cluster is "one"`)
}

// saved is a checkpoint of startOf's members.
func saved(n, epoch uint64, at sim.Time, base uint64) *Commit {
	return &Commit{Job: "job-1", Checkpoint: Checkpoint{Number: n, Epoch: epoch, At: at, Parts: []CheckpointPart{
		{Member: "a", Boot: "1", Partner: "b", Regions: []int{0, 1}, Root: "00", Base: base},
		{Member: "b", Boot: "1", Partner: "a", Regions: []int{2}, Root: "01", Base: n},
	}}}
}

func recovery(epoch, number uint64, at sim.Time) *Recover {
	r := &Recover{Job: "job-1", Epoch: epoch, Members: []string{"b"}, Boots: []string{"2"}, Owner: []int{0, 0, 0}, Reason: "node a is lost"}
	if number > 0 {
		r.Restore = &Restore{Number: number, At: at, Sources: []Source{{Part: 0, Node: "b"}, {Part: 1, Node: "b"}}}
	}
	return r
}

func running(t testing.TB, c Checkpoints) *State {
	s, hash := withBundle(t)
	s = must(t, s, Command{Key: "s", Submit: &Submit{Bundle: hash, Spec: Spec{Checkpoints: c}}})
	s = must(t, s, Command{Key: "st", Start: startOf("job-1")})
	return must(t, s, Command{Key: "r", Move: &Move{Job: "job-1", To: Running, Epoch: 1}})
}

func TestCheckpointsInTheLog(t *testing.T) {
	s := running(t, Checkpoints{KeepLast: 2, KeepEvery: 5})
	refused(t, s, Command{Key: "c0", Commit: saved(1, 1, 10, 1)}, "numbers above 0, up to 0")
	n := 0
	do := func(number uint64, at sim.Time, base uint64) {
		n++
		s = must(t, s, Command{Key: fmt.Sprint("b", n), Begin: &Begin{Job: "job-1", Epoch: 1, Number: number}})
		s = must(t, s, Command{Key: fmt.Sprint("k", n), Commit: saved(number, 1, at, base)})
	}
	do(1, 10, 1)
	refused(t, s, Command{Key: "c1", Commit: saved(1, 1, 10, 1)}, "numbers above 1, up to 1")
	refused(t, s, Command{Key: "x1", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 1}}, "begun already")
	refused(t, s, Command{Key: "x2", Begin: &Begin{Job: "job-1", Epoch: 2, Number: 9}}, "does not concern it")
	do(2, 20, 1)
	s = must(t, s, Command{Key: "x3", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 4}}) // 3 is never used
	for sign, change := range map[string]func(*Commit){
		"does not concern it":                 func(c *Commit) { c.Checkpoint.Epoch = 2 },
		"before checkpoint 2":                 func(c *Commit) { c.Checkpoint.At = 5 },
		"needs checkpoint 3: [1 2 4]":         func(c *Commit) { c.Checkpoint.Parts[1].Base, c.Checkpoint.Parts[0].Base = 3, 1 },
		"that of 1 of node b is expected":     func(c *Commit) { c.Checkpoint.Parts[1].Boot = "2" },
		"has 1 parts":                         func(c *Commit) { c.Checkpoint.Parts = c.Checkpoint.Parts[:1] },
		"holds region 2 where region 1 comes": func(c *Commit) { c.Checkpoint.Parts[0].Regions = []int{0, 2} },
		"holds 2 regions of 3":                func(c *Commit) { c.Checkpoint.Parts[1].Regions = nil },
		"hexadecimal":                         func(c *Commit) { c.Checkpoint.Parts[1].Root = "x" },
		"follow from those before":            func(c *Commit) { c.Checkpoint.Parent = 2 },
	} {
		c := saved(4, 1, 30, 2)
		change(c)
		refused(t, s, Command{Key: sign, Commit: c}, sign)
	}
	s = must(t, s, Command{Key: "c4", Commit: saved(4, 1, 30, 2)})
	if got := fmt.Sprint(s.Job("job-1").Newest().Chain, s.Job("job-1").Newest().Parent); got != "[2 4] 2" {
		t.Error(got)
	}
	for k := uint64(6); k < 13; k++ {
		do(k, sim.Time(10*k), 4)
	}
	kept := s.Job("job-1").Checkpoints
	var numbers []uint64
	for _, c := range kept {
		numbers = append(numbers, c.Number)
	}
	if got := fmt.Sprint(numbers, Needed(kept)); got != "[6 10 11 12] [4 6 7 8 9 10 11 12]" {
		t.Error(got)
	}
	s = must(t, s, Command{Key: "ask", Save: &Save{Job: "job-1"}})
	do(13, 130, 13)
	if !s.Job("job-1").Asked {
		t.Error("a checkpoint that was begun before answers a wish for one")
	}
	s = must(t, s, Command{Key: "b14", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 14}})
	c := saved(14, 1, 140, 14)
	c.Asked = true
	if s = must(t, s, Command{Key: "c14", Commit: c}); s.Job("job-1").Asked {
		t.Error("still asked")
	}
	refused(t, s, Command{Key: "sv", Save: &Save{Job: "job-2"}}, "no job")
}

func TestRecoveriesInTheLog(t *testing.T) {
	s := running(t, Checkpoints{})
	for sign, change := range map[string]func(*Recover){
		"a recovery of epoch 2 does not": func(r *Recover) { r.Epoch = 2 },
		"none is there":                  func(r *Recover) { r.Restore = recovery(1, 4, 30).Restore },
		"in order":                       func(r *Recover) { r.Owner = []int{0, 1, 0} },
		"no job":                         func(r *Recover) { r.Job = "job-7" },
	} {
		r := recovery(1, 0, 0)
		change(r)
		refused(t, s, Command{Key: sign, Recover: r}, sign)
	}
	from := s
	s = must(t, s, Command{Key: "r1", Recover: recovery(1, 0, 0)})
	if j := s.Job("job-1"); j.Epoch != 2 || j.Phase != Running || j.Recoveries != 1 || j.Fruitless != 1 || j.Losses[0] != "node a is lost" || j.Restore != nil {
		t.Errorf("%+v", j)
	}
	refused(t, s, Command{Key: "r1 again", Recover: recovery(1, 0, 0)}, "is in epoch 2")
	refused(t, s, Command{Key: "late", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 1}}, "is in epoch 2")
	s = from
	for n := uint64(1); n < 3; n++ {
		s = must(t, s, Command{Key: fmt.Sprint("b", n), Begin: &Begin{Job: "job-1", Epoch: 1, Number: n}})
		s = must(t, s, Command{Key: fmt.Sprint("c", n), Commit: saved(n, 1, sim.Time(10*n), 1)})
	}
	refused(t, s, Command{Key: "none", Recover: recovery(1, 0, 0)}, "must begin from it")
	refused(t, s, Command{Key: "stale", Recover: recovery(1, 1, 10)}, "the newest is 2")
	foreign := recovery(1, 2, 20)
	foreign.Restore.Sources[1].Node = "a"
	refused(t, s, Command{Key: "foreign", Recover: foreign}, "a member is expected")
	s = must(t, s, Command{Key: "r2", Recover: recovery(1, 2, 20)})
	refused(t, s, Command{Key: "zombie", Commit: saved(3, 1, 30, 1)}, "is in epoch 2")
	// A lineage begins anew: its first checkpoint needs no other.
	s = must(t, s, Command{Key: "b3", Begin: &Begin{Job: "job-1", Epoch: 2, Number: 3}})
	c := &Commit{Job: "job-1", Checkpoint: Checkpoint{Number: 3, Epoch: 2, At: 40, Parts: []CheckpointPart{{Member: "b", Boot: "2", Regions: []int{0, 1, 2}, Base: 2}}}}
	refused(t, s, Command{Key: "c3", Commit: c}, "needs checkpoint 2: [3]")
	c.Checkpoint.Parts[0].Base = 3
	s = must(t, s, Command{Key: "c3b", Commit: c})
	if j := s.Job("job-1"); j.Fruitless != 0 || j.Recoveries != 1 || len(j.Losses) != 0 || fmt.Sprint(j.Newest().Chain, j.Newest().Parent) != "[3] 2" {
		t.Errorf("%+v", j)
	}
}

func TestSuspendingInTheLog(t *testing.T) {
	s := running(t, Checkpoints{})
	refused(t, s, Command{Key: "x", Move: &Move{Job: "job-1", To: Suspended, Epoch: 1}}, "cannot become suspended")
	s = must(t, s, Command{Key: "sus", Move: &Move{Job: "job-1", To: Suspending}})
	refused(t, s, Command{Key: "nothing", Move: &Move{Job: "job-1", To: Suspended, Epoch: 1}}, "cannot become suspended")
	s = must(t, s, Command{Key: "b", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 1}})
	s = must(t, s, Command{Key: "c", Commit: saved(1, 1, 10, 1)})
	refused(t, s, Command{Key: "user", Move: &Move{Job: "job-1", To: Suspended}}, "cannot become suspended")
	s = must(t, s, Command{Key: "now", Move: &Move{Job: "job-1", To: Suspended, Epoch: 1}})
	refused(t, s, Command{Key: "early", Recover: recovery(1, 1, 10)}, "let it run again first")
	refused(t, s, Command{Key: "save", Save: &Save{Job: "job-1"}}, "nothing to save")
	stopped := must(t, s, Command{Key: "stop", Move: &Move{Job: "job-1", To: Stopping}})
	if j := stopped.Job("job-1"); j.Phase != Done {
		t.Errorf("%+v", j)
	}
	s = must(t, s, Command{Key: "go", Move: &Move{Job: "job-1", To: Running}})
	r := recovery(1, 1, 10)
	r.Reason = ""
	s = must(t, s, Command{Key: "rec", Recover: r})
	if j := s.Job("job-1"); j.Away || j.Phase != Running || j.Epoch != 2 || j.Fruitless != 0 {
		t.Errorf("%+v", j)
	}
}

// TestPlans draws jobs, nodes and damages, and looks at what is planned.
func TestPlans(t *testing.T) {
	planned, waited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		name := func(k int) string { return fmt.Sprintf("n%02d", k) }
		members := rapid.IntRange(1, 6).Draw(t, "members")
		job := &Job{ID: "job-1", Epoch: 3, Begun: 9}
		for m := range members {
			job.Members, job.Boots = append(job.Members, name(m)), append(job.Boots, "1")
			for range rapid.IntRange(1, 4).Draw(t, "regions") {
				job.Owner = append(job.Owner, m)
			}
		}
		regions := len(job.Owner)
		if rapid.Bool().Draw(t, "saved") {
			c := Checkpoint{Number: 7, Epoch: 2, At: 50, Chain: []uint64{7}}
			parts := rapid.IntRange(1, min(regions, 6)).Draw(t, "parts")
			perm := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "holders")
			for p := range parts {
				part := CheckpointPart{Member: name(perm[p]), Base: 7}
				if parts > 1 {
					part.Partner = name(perm[(p+1)%parts])
				}
				c.Parts = append(c.Parts, part)
			}
			for r := range regions {
				k := r * parts / regions
				c.Parts[k].Regions = append(c.Parts[k].Regions, r)
			}
			job.Checkpoints = []Checkpoint{c}
		}
		var there []Node
		for k := range 8 {
			if rapid.IntRange(0, 3).Draw(t, "there") > 0 {
				there = append(there, Node{Name: name(k), Boot: fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "boot")), Role: rapid.SampledFrom([]Role{Both, Both, Works, Coordinates}).Draw(t, "role"), Alive: rapid.IntRange(0, 4).Draw(t, "alive") > 0})
			}
		}
		var damaged []Damage
		for range rapid.IntRange(0, 2).Draw(t, "damages") {
			damaged = append(damaged, Damage{7, rapid.IntRange(0, 2).Draw(t, "part"), name(rapid.IntRange(0, 7).Draw(t, "node"))})
		}
		able := map[string]string{}
		for _, n := range there {
			if n.Alive && n.Role != Coordinates {
				able[n.Name] = n.Boot
			}
		}
		holder := func(p *CheckpointPart, i int) bool {
			for _, x := range []string{p.Member, p.Partner} {
				if _, ok := able[x]; ok && !slices.Contains(damaged, Damage{7, i, x}) {
					return true
				}
			}
			return false
		}
		possible := len(able) > 0
		if n := job.Newest(); n != nil {
			for i := range n.Parts {
				possible = possible && holder(&n.Parts[i], i)
			}
		}
		rec, missing := plan(job, there, damaged)
		if (rec != nil) != possible || (missing == nil) != possible {
			t.Fatalf("possible: %v, planned %+v, missing %+v", possible, rec, missing)
		}
		if rec == nil {
			waited++
			return
		}
		planned++
		if err := rec.check(); err != nil {
			t.Fatal(err)
		}
		if err := rec.Restore.fits(job.Newest(), rec.Members); err != nil {
			t.Fatal(err)
		}
		if len(rec.Owner) != regions {
			t.Fatalf("%d regions instead of %d", len(rec.Owner), regions)
		}
		if want := min(len(able), regions); len(rec.Members) != want {
			t.Fatalf("%d members, %d are possible", len(rec.Members), want)
		}
		for i, m := range rec.Members {
			if boot, ok := able[m]; !ok || rec.Boots[i] != boot {
				t.Fatalf("member %s of process %s is not there", m, rec.Boots[i])
			}
		}
		for _, s := range rec.Restore.sources() {
			if slices.Contains(damaged, Damage{7, s.Part, s.Node}) {
				t.Fatalf("%+v is damaged", s)
			}
		}
		if again, _ := plan(job, there, damaged); !reflect.DeepEqual(rec, again) {
			t.Fatal("two plans")
		}
	})
	if planned == 0 || waited == 0 {
		t.Errorf("%d plans, %d without", planned, waited)
	}
}

func (r *Restore) sources() []Source {
	if r == nil {
		return nil
	}
	return r.Sources
}

// TestRegionsStayWhereTheyWere looks at who gets what in plain cases.
func TestRegionsStayWhereTheyWere(t *testing.T) {
	node := func(name string) Node { return Node{Name: name, Boot: "1", Role: Both, Alive: true} }
	job := &Job{ID: "job-1", Epoch: 1, Members: []string{"a", "b", "c"}, Boots: []string{"1", "1", "1"}, Owner: []int{0, 0, 1, 1, 2, 2}, Recorder: 1}
	for _, x := range []struct {
		there []Node
		want  string
	}{
		{[]Node{node("a"), node("b"), node("c")}, "[a b c] [0 0 1 1 2 2] 1"},
		{[]Node{node("a"), node("c")}, "[a c] [0 0 1 1 1 1] 0"},
		{[]Node{node("a"), node("b")}, "[a b] [0 0 1 1 1 1] 1"},
		{[]Node{node("c")}, "[c] [0 0 0 0 0 0] 0"},
		{[]Node{node("a"), node("c"), node("x")}, "[a x c] [0 0 1 1 2 2] 0"},
		{[]Node{node("a"), node("b"), node("c"), node("x")}, "[a x b c] [0 1 2 2 3 3] 2"},
		{[]Node{node("x")}, "[x] [0 0 0 0 0 0] 0"},
	} {
		rec, _ := plan(job, x.there, nil)
		if got := fmt.Sprint(rec.Members, " ", rec.Owner, " ", rec.Recorder); got != x.want {
			t.Errorf("with %d nodes: %s, expected %s", len(x.there), got, x.want)
		}
	}
	// Who has a copy of what was recorded records.
	job.Checkpoints = []Checkpoint{{Number: 1, Epoch: 1, At: 5, Chain: []uint64{1}, Recorder: 1, Parts: []CheckpointPart{
		{Member: "a", Partner: "b", Base: 1}, {Member: "b", Partner: "c", Base: 1}, {Member: "c", Partner: "a", Base: 1},
	}}}
	rec, _ := plan(job, []Node{node("a"), node("c")}, nil)
	if got := fmt.Sprint(rec.Members, rec.Recorder, rec.Restore.Sources); got != "[a c] 1 [{0 a false} {1 c false} {2 c false}]" {
		t.Error(got)
	}
	// What is missing is named.
	_, missing := plan(job, []Node{node("b")}, []Damage{{1, 1, "b"}})
	if missing == nil || missing.text != "job-1 cannot go on from checkpoint 1 at 5ns: part 1 (no region) was held by node b and node c, and no such node is there" || missing.hopeless || !missing.part {
		t.Errorf("%+v", missing)
	}
	_, missing = plan(job, []Node{node("b")}, []Damage{{1, 1, "b"}, {1, 1, "c"}})
	if missing == nil || !missing.hopeless || !strings.Contains(missing.text, "no good copy is left") {
		t.Errorf("%+v", missing)
	}
	job.Checkpoints[0].Parts[1].Archived = true
	rec, _ = plan(job, []Node{node("b"), node("a")}, []Damage{{1, 1, "b"}, {1, 1, "c"}})
	if got := fmt.Sprint(rec.Restore.Sources); got != "[{0 a false} {1 a true} {2 a false}]" {
		t.Error(got)
	}
}

// drawCommand draws commands that are often right.
func drawCommand(t *rapid.T, k int) Command {
	c := Command{Key: fmt.Sprint("k", rapid.IntRange(max(0, k-2), k).Draw(t, "key"))}
	job := fmt.Sprint("job-", rapid.IntRange(1, 3).Draw(t, "job"))
	data := fmt.Append(nil, "bundle", rapid.IntRange(0, 1).Draw(t, "bundle"))
	epoch := rapid.Uint64Range(0, 3).Draw(t, "epoch")
	phase := rapid.SampledFrom([]Phase{Initialising, Running, Paused, Stopping, Suspending, Suspended, Done, Failed, "odd"}).Draw(t, "phase")
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 6:
		c.Begin = &Begin{Job: job, Epoch: epoch, Number: uint64(k)}
	case 7:
		c.Commit = saved(rapid.Uint64Range(0, uint64(k)).Draw(t, "number"), epoch, sim.Time(k), rapid.Uint64Range(0, uint64(k)).Draw(t, "base"))
		c.Commit.Asked = rapid.Bool().Draw(t, "asked")
	case 8:
		c.Recover = recovery(epoch, rapid.Uint64Range(0, uint64(k)).Draw(t, "number"), sim.Time(k))
	case 9:
		c.Save = &Save{Job: job}
	case 0:
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		c.Upload = &Upload{Hash: hashOf(data), Size: len(data), Offset: at, Data: data[at:]}
	case 1:
		c.Submit = &Submit{Name: "n", Bundle: hashOf(data)}
	case 2:
		c.Start = startOf(job)
	case 3, 4:
		c.Move = &Move{Job: job, To: phase, Epoch: epoch}
	case 5:
		c.End = &End{Job: job, Epoch: epoch, Phase: phase, Reason: "r"}
	}
	return c
}

func TestAnyCommands(t *testing.T) {
	order := map[Phase]int{Initialising: 0, Running: 1, Paused: 1, Suspending: 1, Suspended: 1, Stopping: 2, Done: 3, Failed: 3}
	rapid.Check(t, func(t *rapid.T) {
		s := &State{}
		for k := range rapid.IntRange(1, 40).Draw(t, "commands") {
			c := drawCommand(t, k)
			before, err := MarshalState(s)
			if err != nil {
				t.Fatal(err)
			}
			next, a := s.Apply(c)
			if same, _ := MarshalState(s); !bytes.Equal(same, before) {
				t.Fatalf("%+v changed the state before", c)
			}
			if next2, a2 := s.Apply(c); !reflect.DeepEqual(next, next2) || a != a2 {
				t.Fatal("the same command gave two states")
			}
			if again, a3 := next.Apply(c); again != next || a3 != a {
				t.Fatalf("applied twice: %+v, %+v", a, a3)
			}
			live := 0
			for _, j := range next.Jobs {
				if old := s.Job(j.ID); old != nil && (order[j.Phase] < order[old.Phase] || old.Phase.Ended() && old != j || j.Epoch < old.Epoch || j.Begun < old.Begun || j.lastCommitted() < old.lastCommitted()) {
					t.Fatalf("job went from %+v to %+v", old, j)
				}
				if j.Epoch > 0 && !j.Phase.Ended() {
					live++
				}
			}
			if live > 1 || next.LastEpoch < s.LastEpoch || next.NextJob < s.NextJob {
				t.Fatalf("%d jobs run, epoch %d after %d", live, next.LastEpoch, s.LastEpoch)
			}
			data, err := MarshalState(next)
			if err != nil {
				t.Fatal(err)
			}
			back, err := UnmarshalState(data)
			if err != nil {
				t.Fatal(err)
			}
			if twice, _ := MarshalState(back); !bytes.Equal(twice, data) {
				t.Fatalf("state came back as\n%s\nfrom\n%s", twice, data)
			}
			s = next
		}
	})
}

func FuzzUnmarshalState(f *testing.F) {
	s, hash := withBundle(f)
	s = must(f, s, Command{Key: "s", Submit: &Submit{Name: "n", Bundle: hash}})
	s = must(f, s, Command{Key: "st", Start: startOf("job-1")})
	data, _ := MarshalState(s)
	f.Add(data)
	s = must(f, s, Command{Key: "b", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 1}})
	s = must(f, s, Command{Key: "c", Commit: saved(1, 1, 10, 1)})
	s = must(f, s, Command{Key: "rec", Recover: recovery(1, 1, 10)})
	data, _ = MarshalState(s)
	f.Add(data)
	f.Add([]byte(`{"jobs":[null]}`))
	f.Add([]byte(`{"jobs":[{"id":"job-1","phase":"running","epoch":5}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := UnmarshalState(data)
		if err != nil {
			return
		}
		text, err := MarshalState(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := UnmarshalState(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, _ := MarshalState(back); !bytes.Equal(again, text) {
			t.Fatalf("%s\n%s", again, text)
		}
		// Whatever it is, it takes commands.
		for _, c := range []Command{
			{Key: "1", Submit: &Submit{Bundle: hash}}, {Key: "2", Start: startOf("job-1")},
			{Key: "3", Move: &Move{Job: "job-1", To: Stopping}}, {Key: "5", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 9}}, {Key: "6", Commit: saved(9, 1, 90, 9)}, {Key: "7", Recover: recovery(1, 1, 10)},
			{Key: "8", Save: &Save{Job: "job-1"}}, {Key: "4", End: &End{Job: "job-1", Epoch: 1, Phase: Done}},
		} {
			s, _ = s.Apply(c)
		}
	})
}

func FuzzUnmarshalCommand(f *testing.F) {
	for _, c := range []Command{
		{Key: "a", Start: startOf("job-1")}, {Key: "b", Move: &Move{Job: "job-1", To: Paused}}, {Key: "c", End: &End{Job: "job-1", Phase: Failed}},
		{Key: "d", Upload: &Upload{Hash: hashOf(nil), Size: 5, Data: []byte("12345")}}, {Key: "e", Found: &Found{"x"}},
		{Key: "f", Begin: &Begin{Job: "job-1", Epoch: 1, Number: 3}}, {Key: "g", Commit: saved(3, 1, 5, 2)}, {Key: "h", Recover: recovery(1, 1, 10)}, {Key: "i", Save: &Save{Job: "job-1"}},
	} {
		data, _ := MarshalCommand(c)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := UnmarshalCommand(data)
		if err != nil {
			return
		}
		text, err := MarshalCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := UnmarshalCommand(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if again, _ := MarshalCommand(back); !bytes.Equal(again, text) {
			t.Fatalf("%s\n%s", again, text)
		}
		(&State{}).Apply(c)
	})
}
