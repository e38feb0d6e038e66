package control

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

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

// drawCommand draws commands that are often right.
func drawCommand(t *rapid.T, k int) Command {
	c := Command{Key: fmt.Sprint("k", rapid.IntRange(max(0, k-2), k).Draw(t, "key"))}
	job := fmt.Sprint("job-", rapid.IntRange(1, 3).Draw(t, "job"))
	data := fmt.Append(nil, "bundle", rapid.IntRange(0, 1).Draw(t, "bundle"))
	epoch := rapid.Uint64Range(0, 3).Draw(t, "epoch")
	phase := rapid.SampledFrom([]Phase{Initialising, Running, Paused, Stopping, Done, Failed, "odd"}).Draw(t, "phase")
	switch rapid.IntRange(0, 5).Draw(t, "what") {
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
	order := map[Phase]int{Initialising: 0, Running: 1, Paused: 1, Stopping: 2, Done: 3, Failed: 3}
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
				if old := s.Job(j.ID); old != nil && (order[j.Phase] < order[old.Phase] || old.Phase.Ended() && old != j || old.Epoch != 0 && j.Epoch != old.Epoch) {
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
			{Key: "3", Move: &Move{Job: "job-1", To: Stopping}}, {Key: "4", End: &End{Job: "job-1", Epoch: 1, Phase: Done}},
		} {
			s, _ = s.Apply(c)
		}
	})
}

func FuzzUnmarshalCommand(f *testing.F) {
	for _, c := range []Command{
		{Key: "a", Start: startOf("job-1")}, {Key: "b", Move: &Move{Job: "job-1", To: Paused}}, {Key: "c", End: &End{Job: "job-1", Phase: Failed}},
		{Key: "d", Upload: &Upload{Hash: hashOf(nil), Size: 5, Data: []byte("12345")}}, {Key: "e", Found: &Found{"x"}},
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
