package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/simnode/simnode/summary"
)

// BenchmarkFourProcesses is PHOLD with 262,144 entities and lookahead 0.1 on four node processes against
// one process, in turn; both have all processors of the machine. Medians of the rates and of their ratios
// are reported. Rates are those of the summary: the time from the first event to the last. Repeat it with
//
//	go test ./cli -run XXX -bench FourProcesses -benchtime 7x
func BenchmarkFourProcesses(b *testing.B) {
	dir := b.TempDir()
	text := "model: phold\nend: 40 s\nparams: {entities: 262144, population: 1, lookahead: 0.1 s, mean: 1 s, remote: 0.5}\nrecord: {level: off}\n"
	if testing.Short() {
		text = "model: phold\nend: 2 s\nparams: {entities: 16384, lookahead: 0.1 s}\nrecord: {level: off}\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(text), 0o666); err != nil {
		b.Fatal(err)
	}
	for _, regions := range []int{4, 8} {
		b.Run(fmt.Sprintf("regions=%d", regions), func(b *testing.B) {
			var ones, fours, ratios []float64
			for range b.N {
				one := rateOf(b, dir, "--regions", fmt.Sprint(regions))
				four := rateOf(b, dir, "--regions", fmt.Sprint(regions), "--nodes", "4")
				ones, fours, ratios = append(ones, one), append(fours, four), append(ratios, four/one)
			}
			b.ReportMetric(middle(ones)/1e6, "one-Mev/s")
			b.ReportMetric(middle(fours)/1e6, "four-Mev/s")
			b.ReportMetric(middle(ratios), "x-one")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// rateOf runs the scenario in dir and returns the events a second that it tells.
func rateOf(b *testing.B, dir string, flags ...string) float64 {
	cmd, stdout, stderr := process(b, dir, nil, append([]string{"run", "s.yaml", "-o", "json", "--no-progress"}, flags...)...)
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %v\n%s", flags, err, stderr)
	}
	s, err := summary.Parse(stdout.Bytes())
	if err != nil {
		b.Fatal(err)
	}
	return float64(s.Events) / s.Wall
}

func middle(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
