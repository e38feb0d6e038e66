package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"
)

// checkEvery is how often files are looked at, when connections are made.
const checkEvery = time.Second

// Files are the files of a node, read again when they change.
type Files struct {
	ca, cert, key string
	changed       func(error)

	mu      sync.Mutex
	current *material
	raw     [3][]byte
	failed  [3][]byte // the last content that could not be used
	checked time.Time
}

// material is one reading of the files.
type material struct {
	pair  tls.Certificate
	roots *x509.CertPool
}

// Load reads the authority, certificate and key of a node.
//
// changed, if not nil, is told of new files that were taken up (nil) or could not be (an error); it is
// called while a connection is made; it must not block and not use the Files.
func Load(caFile, certFile, keyFile string, changed func(error)) (*Files, error) {
	f := &Files{ca: caFile, cert: certFile, key: keyFile, changed: changed}
	current, raw, err := f.read()
	if err != nil {
		return nil, err
	}
	f.current, f.raw, f.checked = current, raw, time.Now()
	return f, nil
}

// Config returns settings for both ends of a connection. A server asks for a certificate and verifies it;
// a client sets ServerName, in a clone, to the name or address that the other end's certificate must have.
//
// Certificate and key follow the files; the authority is the one of now, so take settings anew for every
// listener's connection (tls.Config.GetConfigForClient) or dial if it is to follow, too.
func (f *Files) Config() *tls.Config {
	roots := f.latest().roots
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    roots,
		ClientCAs:  roots,
		ClientAuth: tls.RequireAndVerifyClientCert,
		// A session that is resumed would not be verified against the newest authority.
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &f.latest().pair, nil },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &f.latest().pair, nil },
	}
}

// latest returns what the files hold, at most checkEvery old.
func (f *Files) latest() *material {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.checked) >= checkEvery {
		f.checked = now
		f.reload()
	}
	return f.current
}

func (f *Files) reload() {
	current, raw, err := f.read()
	if same(raw, f.raw) || err != nil && same(raw, f.failed) {
		return
	}
	if err != nil {
		f.failed = raw
	} else {
		f.current, f.raw, f.failed = current, raw, [3][]byte{}
	}
	if f.changed != nil {
		f.changed(err)
	}
}

func same(a, b [3][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// read reads and checks the files.
func (f *Files) read() (*material, [3][]byte, error) {
	var raw [3][]byte
	for i, path := range []string{f.ca, f.cert, f.key} {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, raw, err
		}
		raw[i] = b
	}
	m := &material{roots: x509.NewCertPool()}
	if !m.roots.AppendCertsFromPEM(raw[0]) {
		return nil, raw, fmt.Errorf("%s holds no certificate", f.ca)
	}
	var err error
	if m.pair, err = tls.X509KeyPair(raw[1], raw[2]); err != nil {
		return nil, raw, fmt.Errorf("%s with %s: %w", f.cert, f.key, err)
	}
	leaf := m.pair.Leaf
	if now := time.Now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return nil, raw, fmt.Errorf("%s is valid from %s to %s only; make a new one (simnode certs)", f.cert, leaf.NotBefore.Format(time.DateTime), leaf.NotAfter.Format(time.DateTime))
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: intermediates(m.pair), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, raw, fmt.Errorf("%s is not signed by %s: %w", f.cert, f.ca, err)
	}
	return m, raw, nil
}

func intermediates(pair tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			pool.AddCert(c)
		}
	}
	return pool
}
