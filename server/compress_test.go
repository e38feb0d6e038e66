package server

import (
	"testing"

	"github.com/simnode/simnode/control"
)

// TestCompressedLinks runs a job on nodes that compress what they send, and on nodes of which none does: the
// results are the same, and fewer bytes travel.
func TestCompressedLinks(t *testing.T) {
	path := file(t, phold)
	want, err := local(t, path, control.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	sent := map[bool]uint64{}
	for _, compress := range []bool{false, true} {
		nodes := testCluster(t, 2, func(c *Config) { c.Compress = compress })
		c := client(t, nodes[0])
		job := submit(t, c, path, control.Spec{})
		if p := wait(t, c, job); p.Phase != control.Done {
			t.Fatalf("%+v", p)
		}
		same(t, fetch(t, c, job), want)
		for _, n := range nodes {
			for _, s := range n.cluster.LinkStats() {
				sent[compress] += s.Link.BytesSent
			}
		}
	}
	t.Logf("%d bytes, %d compressed", sent[false], sent[true])
	if sent[true] >= sent[false] {
		t.Errorf("compression made %d bytes of %d", sent[true], sent[false])
	}
}
