package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check fails with all that is known of the findings.
func check(t *testing.T, r *Report) {
	t.Helper()
	for _, f := range r.Findings {
		t.Error(f)
	}
}

// TestChaos runs seeds, some of them twice.
func TestChaos(t *testing.T) {
	o := Options{Seeds: 100, Again: 10}
	if testing.Short() {
		o.Seeds = 30
	}
	r := Campaign(context.Background(), o)
	check(t, r)
	t.Logf("%d seeds in %v, %d steps, %v of simulated time: %+v", r.Seeds, r.Elapsed.Round(time.Millisecond), r.Steps, r.Time, r.Counts)
	if r.Seeds != o.Seeds || r.Again != (o.Seeds+9)/10 {
		t.Errorf("%d of %d seeds were run, %d twice", r.Seeds, o.Seeds, r.Again)
	}
	for i, n := range r.Counts.all() {
		if n != &r.Counts.Surrendered && *n == 0 && !testing.Short() {
			t.Errorf("count %d of %+v is 0: the seeds do not bring it about", i, r.Counts)
		}
	}
}

func TestCorpus(t *testing.T) {
	f, err := os.Open("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seeds, err := ReadCorpus(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(seeds) == 0 {
		t.Fatal("the corpus is empty")
	}
	for _, seed := range seeds {
		check(t, Campaign(context.Background(), Options{Seed: seed, Seeds: 1}))
	}
}

func FuzzReadCorpus(f *testing.F) {
	f.Add("# seeds\n12 a note\n\n 7\n")
	f.Add("x")
	f.Fuzz(func(t *testing.T, text string) {
		seeds, err := ReadCorpus(strings.NewReader(text))
		if err == nil && len(seeds) > strings.Count(text, "\n")+1 {
			t.Errorf("%d seeds in %q", len(seeds), text)
		}
	})
}

// TestFindingTellsAll looks at what is told of a failure, and that what was left out was not needed.
func TestFindingTellsAll(t *testing.T) {
	var mutant *Mutant
	for _, m := range Mutants() {
		if m.Name == "members obey coordinators of earlier terms" {
			mutant = m
		}
	}
	var r *Report
	seed := uint64(0)
	for ; seed < 1000; seed++ { // one with a fault that is not needed
		r = Campaign(context.Background(), Options{Seed: seed, Seeds: 1, Mutant: mutant})
		if len(r.Findings) == 1 && len(r.Findings[0].Needed) < len(r.Findings[0].Faults) {
			break
		}
	}
	if len(r.Findings) != 1 {
		t.Fatalf("%d findings, 1 expected", len(r.Findings))
	}
	f := r.Findings[0]
	if len(f.Needed) == 0 || len(f.Needed) >= len(f.Faults) {
		t.Errorf("%d of %d faults are needed: some are, not all", len(f.Needed), len(f.Faults))
	}
	text := f.String()
	for _, want := range []string{fmt.Sprintf("seed %d, step ", seed), fmt.Sprintf("simnode chaos --seed %d --seeds 1", seed), "WRONG: ", "faults needed, "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not told in:\n%s", want, text)
		}
	}
	if n := len(f.Last); n == 0 || n > lastKept {
		t.Errorf("%d last events", n)
	}
}

// TestCampaignEnds stops a campaign from outside.
func TestCampaignEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	r := Campaign(ctx, Options{Seeds: 1 << 40, Workers: 2, Progress: func(p Progress) {
		if calls++; p.Done >= 5 {
			cancel()
		}
	}})
	if r.Seeds < 5 || r.Seeds > 7 || calls != int(r.Seeds) {
		t.Errorf("%d seeds were run with %d calls, 5 to 7 expected", r.Seeds, calls)
	}
	check(t, r)
}

// TestAgendaIsInOrder compares the heap with sorting.
func TestAgendaIsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a agenda
		var last event
		n := 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				// Never before what has happened.
				a.add(last.at+time.Duration(rapid.IntRange(0, 5).Draw(t, "at")), func() {})
				n++
				continue
			}
			e, ok := a.next()
			if ok != (n > 0) {
				t.Fatalf("next %v with %d events", ok, n)
			}
			if !ok {
				continue
			}
			n--
			if e.before(&last) {
				t.Fatalf("%v/%d after %v/%d", e.at, e.seq, last.at, last.seq)
			}
			last = e
		}
	})
}

// TestProgramsAreReal checks that the models do what they are for, and that references are repeatable.
func TestProgramsAreReal(t *testing.T) {
	failed, stopped, observed := 0, 0, 0
	for seed := range uint64(150) {
		a, err := runReference(seed, -1, false)
		if err != nil {
			t.Fatal(err)
		}
		b, err := runReference(seed, -1, false)
		if err != nil {
			t.Fatal(err)
		}
		if a.digest != b.digest || len(a.obs) != len(b.obs) {
			t.Errorf("program %d: two runs differ", seed)
		}
		if a.failure != nil {
			failed++
		}
		if a.stopped {
			stopped++
		}
		observed += len(a.obs)
	}
	if failed == 0 || stopped == 0 || observed == 0 {
		t.Errorf("%d programs fail, %d are stopped, %d observations: there must be some of each", failed, stopped, observed)
	}
}
