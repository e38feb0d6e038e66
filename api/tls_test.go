package api

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simnode/simnode/control"
)

// syncBuffer is a buffer for a log that is written by several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// authority is a CA for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}
}

func (a *authority) issue(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Either a token or a certificate of the right CA lets in, and nothing else.
func TestTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	config := openConfig(newFake())
	config.Access = Access{Tokens: testTokens(t), Certificates: true}
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.issue(t)}, ClientCAs: ca.pool, ClientAuth: tls.VerifyClientCertIfGiven}
	_, address := serve(t, config)
	mine := []tls.Certificate{ca.issue(t)}
	for name, c := range map[string]struct {
		tls   *tls.Config
		token string
		want  string
	}{
		"certificate":            {&tls.Config{RootCAs: ca.pool, Certificates: mine}, "", "ok"},
		"certificate, bad token": {&tls.Config{RootCAs: ca.pool, Certificates: mine}, "wrong-0123456789abcdef", "unauthenticated"},
		"token":                  {&tls.Config{RootCAs: ca.pool}, operateToken, "ok"},
		"read token":             {&tls.Config{RootCAs: ca.pool}, readToken, "forbidden"},
		"nothing":                {&tls.Config{RootCAs: ca.pool}, "", "unauthenticated"},
		"other server CA":        {&tls.Config{RootCAs: other.pool, Certificates: mine}, operateToken, "unreachable"},
		"other client CA":        {&tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{other.issue(t)}}, "", "unreachable"},
		"clear text":             {nil, operateToken, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			client := newTestClient(t, ClientOptions{Address: address, Token: c.token, TLS: c.tls})
			err := client.Move(t.Context(), "job-2", control.Stopping)
			got := "ok"
			var e *Error
			switch {
			case isUnreachable(err):
				got = "unreachable"
				if c.tls != nil && !strings.Contains(err.Error(), "; check --ca, --cert and --key") {
					t.Errorf("no help in: %v", err)
				}
				if c.tls == nil && !strings.Contains(err.Error(), "speaks TLS: give --ca") {
					t.Errorf("no help in: %v", err)
				}
			case errors.As(err, &e):
				got = map[Kind]string{Unauthenticated: "unauthenticated", Forbidden: "forbidden"}[e.Kind]
			case err != nil:
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("%s: %v", got, err)
			}
		})
	}
}
