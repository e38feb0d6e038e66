package control

import (
	"fmt"
	"slices"
	"strings"
)

// assign chooses members and owners for a job from the nodes that are there, in order of name: every
// working node, with a block of regions in proportion to its workers. Nodes that get no region are left
// out. It says what is missing if there are too few.
func assign(job *Job, nodes []Node, expected int) (*Start, string) {
	var working []Node
	total := 0
	for _, n := range nodes {
		if n.Role == Coordinates || !n.Alive || n.Leaving {
			continue
		}
		if job.Spec.Workers > 0 {
			n.Workers = job.Spec.Workers
		}
		n.Workers = min(max(n.Workers, 1), MaxRegions)
		working = append(working, n)
	}
	need := expected
	if job.Spec.Nodes > 0 {
		need = job.Spec.Nodes
	}
	if len(working) < max(need, 1) {
		return nil, fmt.Sprintf("%s waits for %d working nodes, %d are there", job.ID, need, len(working))
	}
	slices.SortFunc(working, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	working = working[:min(len(working), MaxMembers)]
	for _, n := range working {
		total += n.Workers
	}
	regions := min(2*total, MaxRegions)
	if job.Spec.Regions > 0 {
		regions = job.Spec.Regions
	}
	if job.MostRegions > 0 {
		regions = min(regions, job.MostRegions)
	}
	start := &Start{Job: job.ID}
	before := 0
	for _, n := range working {
		before += n.Workers
		end := (regions*before + total - 1) / total
		if end == len(start.Owner) {
			continue
		}
		for len(start.Owner) < end {
			start.Owner = append(start.Owner, len(start.Members))
		}
		start.Members, start.Boots = append(start.Members, n.Name), append(start.Boots, n.Boot)
	}
	return start, ""
}
