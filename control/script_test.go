package control

import (
	"bufio"
	"bytes"
	flags "flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/sim"
)

// Scripts in testdata are scenes that people can read: lines that begin with > say what is done, the
// lines after each tell all that the machines do because of it. Run with -rewrite to write down what they
// do now.
//
//	> cluster a b c:coordinator ahead=2 end=30 cut=10 regions=2 hops=4
//	> submit nodes=2
//	> lead a                 a leads the log from now on; who led before learns it with "depose"
//	> run [MESSAGE]          what can happen happens, in a fixed order, up to the first MESSAGE sent
//	> step N                 N things happen
//	> stop a; wake a; restart a; stuck a b; free a b; tick 3s; depose a
//	> pause; resume; halt    what a user asks for
//	> beat 300ms             time passes, and nothing happens yet
//	> save; suspend; revive; full a; wipe a
//	> backlog a; no-backlog a; jobs; status a; counts a
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t}
			got := s.play(want)
			if s.c != nil && s.c.wrong != "" {
				t.Errorf("%s", s.c.wrong)
			}
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the scene goes otherwise now:\n%s", difference(string(want), string(got)))
			}
		})
	}
}

var rewrite = flags.Bool("rewrite", false, "write scripts down as they go now")

func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines instead of %d", len(b), len(a))
}

type script struct {
	t     *testing.T
	c     *toyCluster
	m     *toyModel
	out   bytes.Buffer
	until string
	met   bool
	turn  int
	users int
}

func (s *script) play(text []byte) []byte {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, ">"):
			fmt.Fprintln(&s.out, line)
			if err := s.do(strings.Fields(line[1:])); err != nil {
				s.t.Fatalf("%s: %v", line, err)
			}
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&s.out, line)
		}
	}
	return s.out.Bytes()
}

func (s *script) do(words []string) error {
	if words[0] == "cluster" {
		return s.build(words[1:])
	}
	s.until, s.met = "", false
	node := func(k int) int { return s.c.index(words[k]) }
	switch words[0] {
	case "submit":
		spec := Spec{}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			switch key {
			case "nodes":
				spec.Nodes = n
			case "regions":
				spec.Regions = n
			case "every-sim":
				spec.Checkpoints.EverySim = sim.Duration(n)
			case "keep":
				spec.Checkpoints.KeepLast = n
			}
		}
		s.c.submit(spec)
	case "lead":
		s.c.lead(node(1))
	case "depose":
		s.c.nodes[node(1)].leads = false
		s.c.give(node(1), Follow{})
	case "run":
		if len(words) > 1 {
			s.until = words[1]
		}
		s.run(5000)
		if s.until != "" && !s.met {
			return fmt.Errorf("nobody sent it")
		}
	case "step":
		n, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		s.run(n)
	case "stop":
		s.c.nodes[node(1)].stopped = true
	case "wake":
		s.c.nodes[node(1)].stopped = false
	case "restart":
		s.c.restart(node(1))
	case "stuck", "free":
		if s.c.stuck == nil {
			s.c.stuck = map[[2]int]bool{}
		}
		s.c.stuck[[2]int{node(1), node(2)}] = words[0] == "stuck"
	case "beat":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		for i := range s.c.nodes {
			s.c.give(i, Members{s.c.members()})
		}
		s.c.tick(d)
	case "tick":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		for i := range s.c.nodes {
			if !s.c.nodes[i].stopped {
				s.c.give(i, Members{s.c.members()})
			}
		}
		for ; d > 0; d -= 500 * time.Millisecond {
			s.c.tick(min(d, 500*time.Millisecond))
			s.run(5000)
		}
	case "save":
		s.users++
		s.c.commit(Command{Key: fmt.Sprint("user", s.users), Save: &Save{Job: s.c.job().ID}})
	case "full":
		s.c.nodes[node(1)].exec.failSave = true
	case "wipe":
		clear(s.c.disks[words[1]].parts)
		s.c.disks[words[1]].wiped = true
		s.c.restart(node(1))
	case "pause", "resume", "halt", "suspend", "revive":
		to := map[string]Phase{"pause": Paused, "resume": Running, "halt": Stopping, "suspend": Suspending, "revive": Running}[words[0]]
		s.users++
		s.c.commit(Command{Key: fmt.Sprint("user", s.users), Move: &Move{Job: s.c.job().ID, To: to}})
	case "backlog", "no-backlog":
		n := s.c.nodes[node(1)]
		n.exec.backlog, n.exec.changes = words[0] == "backlog", true
		n.exec.input(Progress{n.exec.epoch})
	case "jobs":
		for _, j := range s.c.latest.Jobs {
			s.say("%s %s epoch %d members %v %s %s", j.ID, j.Phase, j.Epoch, j.Members, j.Reason, j.Result)
			for _, c := range j.Checkpoints {
				s.say("checkpoint %d after %d at %s of epoch %d, chain %v", c.Number, c.Parent, showTime(c.At), c.Epoch, c.Chain)
			}
		}
		if j := s.c.job(); j.Phase == Done && j.Epoch > 0 {
			if wrong := s.c.verdict(s.m); wrong != "" {
				return fmt.Errorf("%s", wrong)
			}
			s.say("the answer is that of one queue")
		}
	case "status":
		n := s.c.nodes[node(1)]
		a, k := n.agent.Status(), n.coord.Status()
		s.say("agent: %s, term %d of %s, cut %d, held %v", a.Stage, a.Term, a.Coordinator, a.Cut, a.Held)
		if k.Leading {
			s.say("coordinator: term %d, floor %v, cap %v, limit %v, waits for %s", k.Term, k.Floor, k.Cap, k.Limit, k.Awaited)
		}
	case "counts":
		a, k := s.c.nodes[node(1)].agent.Counts(), s.c.nodes[node(1)].coord.Counts()
		s.say("agent refused: %d of another epoch, %d of an old term, %d of another process; coordinator ignored: %d of another epoch, %d of another term",
			a.OtherEpoch, a.OldTerm, a.OtherProcess, k.OtherEpoch, k.OtherTerm)
	default:
		return fmt.Errorf("unknown")
	}
	return nil
}

func (s *script) say(format string, args ...any) {
	fmt.Fprintln(&s.out, strings.TrimRight("  "+fmt.Sprintf(format, args...), " "))
}

// run lets up to n things happen, nodes in turn.
func (s *script) run(n int) {
	for range n {
		list := s.c.actions(4)
		if len(list) == 0 || s.met {
			return
		}
		s.turn++
		list[s.turn%len(list)].do()
	}
}

func (s *script) build(words []string) error {
	m := &toyModel{seed: 5, entities: 4, ahead: 2, end: 40, cutEvery: sim.Forever, stopper: -1}
	hops := 4
	var names []string
	var roles []Role
	for _, w := range words {
		key, value, option := strings.Cut(w, "=")
		if !option {
			name, role, _ := strings.Cut(w, ":")
			if role == "" {
				role = string(Both)
			}
			names, roles = append(names, name), append(roles, Role(role))
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		switch key {
		case "seed":
			m.seed = uint64(n)
		case "ahead":
			m.ahead = sim.Duration(n)
		case "end":
			m.end = sim.Time(n)
		case "cut":
			m.cutEvery = sim.Duration(n)
		case "stop-every":
			m.stopEvery = sim.Duration(n)
		case "stopper":
			m.stopper, m.stopAfter = n, 2
		case "failer":
			m.failers, m.failAfter = append(m.failers, n), 2
		case "hops":
			hops = n
		default:
			return fmt.Errorf("%s is unknown", key)
		}
	}
	for e := range m.entities {
		m.first = append(m.first, toyEvent{sim.Time(1 + 3*e), e, e, uint64(e), hops})
	}
	s.m = m
	s.c = newToyCluster(m, names, roles, Config{FloorEvery: time.Millisecond})
	s.c.trace = func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if strings.Contains(line, " Ping ") || strings.Contains(line, " Pong ") {
			return
		}
		s.say("%s", line)
		_, message, sent := strings.Cut(line, " -> ")
		if sent && s.until != "" && strings.Fields(message)[1] == s.until {
			s.met = true
		}
	}
	return nil
}
