package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/simnode/simnode/api"
	"github.com/simnode/simnode/control"
)

// The certificates that the command makes do for a server and for the client commands.
func TestCerts(t *testing.T) {
	k := startCluster(t)
	dir := filepath.Join(t.TempDir(), "certs")
	r := simnode(t.Context(), "certs", "a", "operator", "--dir", dir, "--host", "127.0.0.1")
	at := func(name string) string { return filepath.Join(dir, name) }
	if want := strings.Join([]string{at("ca.pem"), at("a.pem"), at("a-key.pem"), at("operator.pem"), at("operator-key.pem")}, "\n") + "\n"; r.code != Done || r.stdout != want {
		t.Fatalf("%+v", r)
	}
	pair, err := tls.LoadX509KeyPair(at("a.pem"), at("a-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(at("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.New(api.Config{Backend: k, Access: api.Access{Certificates: true},
		TLS: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("SIMNODE_CLUSTER", l.Addr().String())
	t.Setenv("SIMNODE_TOKEN", "")
	k.put(control.Job{ID: "job-1", Phase: control.Running}, api.Progress{})
	if r := simnode(t.Context(), "stop", "--ca", at("ca.pem"), "--cert", at("operator.pem"), "--key", at("operator-key.pem")); r.code != Done {
		t.Errorf("%+v", r)
	}
	t.Setenv("SIMNODE_CA", at("ca.pem"))
	if r := simnode(t.Context(), "nodes"); r.code != BadUsage || !strings.Contains(r.stderr, "this needs a client certificate: give --ca, --cert and --key") {
		t.Errorf("%+v", r)
	}
	t.Setenv("SIMNODE_CERT", at("operator.pem"))
	t.Setenv("SIMNODE_KEY", at("operator-key.pem"))
	if r := simnode(t.Context(), "nodes"); r.code != Done {
		t.Errorf("%+v", r)
	}
	t.Setenv("SIMNODE_KEY", at("a-key.pem"))
	if r := simnode(t.Context(), "nodes"); r.code != BadUsage || !strings.Contains(r.stderr, "--cert and --key: ") {
		t.Errorf("%+v", r)
	}
	if r := simnode(t.Context(), "certs", "a", "--dir", dir); r.code == Done || !strings.Contains(r.stderr, "exists") {
		t.Errorf("%+v", r)
	}
	for _, args := range []string{"certs", "certs --dir= a"} {
		if r := simnode(t.Context(), strings.Fields(args)...); r.code != BadUsage {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r := simnode(t.Context(), "certs", "b", "--dir", dir, "-o", "json"); r.code != Done || !strings.Contains(r.stdout, `"files": [`) {
		t.Errorf("%+v", r)
	}
}
