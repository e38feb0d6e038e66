package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// Strangers who send packets that cannot be read do not fill the log.
func TestPacketsOfStrangersAreToldOnce(t *testing.T) {
	var out bytes.Buffer
	l := lineLogger(slog.New(slog.NewTextHandler(&out, nil)), "memberlist")
	for i := range 1000 {
		l.Printf("[ERR] memberlist: failed to receive: no installed keys could decrypt the message from=10.0.0.9:%d", i)
		l.Printf("[ERR] memberlist: Remote node state is encrypted and encryption is not configured from=10.0.0.%d:7", i%256)
	}
	for i := range 300 {
		l.Printf("[ERR] memberlist: node %d is here", i%3)
	}
	for i := range 3 {
		l.Printf("[ERR] memberlist: node %d is here", i)
	}
	text := out.String()
	if n := strings.Count(text, "\n"); n != 5 {
		t.Errorf("%d lines, not 5:\n%s", n, text[:min(len(text), 2000)])
	}
	for _, want := range []string{"could decrypt the message from=10.0.0.9:0", "is not configured from=10.0.0.0:7", fmt.Sprintf("node %d", 2)} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
}

// What raft says again and again about a node that is not there is told once, and not at all as a warning about
// one that announced its end.
func TestRaftIsToldOnce(t *testing.T) {
	var out bytes.Buffer
	l := raftLogger(slog.New(slog.NewTextHandler(&out, nil)), func(text string) bool { return aboutPeer(text) == "gone" })
	for i := range 100 {
		for _, peer := range []string{"a", "gone"} {
			l.Error("failed to heartbeat to", "peer", peer, "backoff time", fmt.Sprint(i, "ms"), "error", fmt.Sprint("refused ", i))
			l.Error("failed to appendEntries to", "peer", fmt.Sprintf("{Voter %s %s}", peer, peer), "error", fmt.Sprint("refused ", i))
			l.Warn("failed to contact", "server-id", peer, "time", fmt.Sprint(i, "ms"))
		}
		l.Warn("heartbeat timeout reached, starting election", "last-leader-addr", "", "last-leader-id", "")
		l.Warn("heartbeat timeout reached, starting election", "last-leader-addr", "b", "last-leader-id", "b")
	}
	text := out.String()
	if n := strings.Count(text, "\n"); n != 4 || strings.Contains(text, "gone") || strings.Count(text, "level=WARN") != 2 {
		t.Errorf("%d lines, not 4:\n%s", n, text[:min(len(text), 2000)])
	}
}
