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
