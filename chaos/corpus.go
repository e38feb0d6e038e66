package chaos

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ReadCorpus reads a list of seeds, one a line with a note behind it; lines that begin with # are left out.
func ReadCorpus(r io.Reader) (seeds []uint64, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		seed, err := strconv.ParseUint(strings.Fields(line)[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d of the corpus: %q does not begin with a seed", n, line)
		}
		seeds = append(seeds, seed)
	}
	return seeds, lines.Err()
}
