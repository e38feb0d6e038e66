package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/simnode/simnode/cluster/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// network knows where nodes are.
type network struct {
	mu    sync.Mutex
	addrs map[string]string
}

func newNetwork() *network { return &network{addrs: map[string]string{}} }

func (n *network) set(name, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[name] = addr
}

func (n *network) resolve(name string) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addr, ok := n.addrs[name]
	return addr, ok
}

// node is a Transport and a Mesh with what they told.
type node struct {
	*Transport
	mesh *Mesh

	mu       sync.Mutex
	changed  *sync.Cond
	got      map[string][][]byte
	boots    map[string]string
	replaced []string
	events   []Event
}

type change func(*Options, *MeshOptions)

func identity(name, boot string) link.Identity {
	return link.Identity{Cluster: "test", Name: name, Boot: boot, Version: 3}
}

// start makes a node that the network knows.
func start(t testing.TB, n *network, name, boot string, changes ...change) *node {
	t.Helper()
	x := &node{got: map[string][][]byte{}, boots: map[string]string{}}
	x.changed = sync.NewCond(&x.mu)
	o := Options{Self: identity(name, boot), Bind: "127.0.0.1:0", Event: x.event}
	m := MeshOptions{
		Resolve:  n.resolve,
		Received: x.received,
		Replaced: func(peer, boot string) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.replaced = append(x.replaced, peer+" "+boot)
			x.got[peer] = nil
			x.changed.Broadcast()
		},
		Keepalive: 50 * time.Millisecond, DeadAfter: 15 * time.Second, BackoffMin: time.Millisecond, BackoffMax: 50 * time.Millisecond,
	}
	for _, c := range changes {
		c(&o, &m)
	}
	var err error
	if x.Transport, err = Listen(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	if x.mesh, err = x.Mesh(m); err != nil {
		t.Fatal(err)
	}
	n.set(name, x.Addr().String())
	return x
}

func (x *node) received(from, boot string, message []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.got[from] = append(x.got[from], message)
	x.boots[from] = boot
	x.changed.Broadcast()
}

func (x *node) event(e Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.events = append(x.events, e)
	x.changed.Broadcast()
}

// until waits until ok holds, which is asked with the lock held whenever something was told.
func (x *node) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		late = true
		x.changed.Broadcast()
	})
	defer timer.Stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !ok() {
		if late {
			t.Fatalf("%s: waited 20 s for %s; events %v", x.o.Self.Name, what, x.events)
		}
		x.changed.Wait()
	}
}

// happened returns an event of that kind for which Err, if wanted, wraps want.
func (x *node) happened(t testing.TB, what What, ok func(Event) bool) (found Event) {
	t.Helper()
	x.until(t, "event "+string(what), func() bool {
		for _, e := range x.events {
			if e.What == what && ok(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// message number n, of about size bytes that depend on n.
func message(n, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(n))
	return append(b, bytes.Repeat([]byte{byte(n)}, size)...)
}

// wants checks that exactly the messages 0 to n-1 came, in order; size as in message.
func (x *node) wants(t testing.TB, from string, n int, size func(int) int) {
	t.Helper()
	x.until(t, fmt.Sprintf("%d messages of %s", n, from), func() bool { return len(x.got[from]) >= n })
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.got[from]) != n {
		t.Fatalf("%d messages, want %d", len(x.got[from]), n)
	}
	for i, m := range x.got[from] {
		if !bytes.Equal(m, message(i, size(i))) {
			t.Fatalf("message %d is not that: %d bytes, number %d", i, len(m), binary.LittleEndian.Uint64(m))
		}
	}
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
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
	return &authority{cert, key}
}

// config for a node whose certificate has the DNS names or, without any, the common name.
func (a *authority) config(t testing.TB, common string, names ...string) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: common}, DNSNames: names, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool}
}

func secure(c *tls.Config) change { return func(o *Options, _ *MeshOptions) { o.TLS = c } }

// proxy passes connections on to an address, until told otherwise.
type proxy struct {
	net.Listener
	to   string
	wait sync.WaitGroup
	mu   sync.Mutex
	open []net.Conn
	// deaf connections made from now on, and those open, swallow what the dialling side sends.
	deaf bool
	// slow is how long each 16 KiB take.
	slow time.Duration
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to}
	p.wait.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.reset()
		p.wait.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		in, err := p.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, in, out)
		p.mu.Unlock()
		p.wait.Go(func() { p.pass(out, in, true) })
		p.wait.Go(func() { p.pass(in, out, false) })
	}
}

// pass copies until an error and then closes both.
func (p *proxy) pass(to, from net.Conn, dialled bool) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			break
		}
		p.mu.Lock()
		swallow, slow := p.deaf && dialled, p.slow
		p.mu.Unlock()
		if slow > 0 {
			time.Sleep(slow)
		}
		if swallow {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}

// reset breaks all connections, with RST if the system grants it.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	p.open = nil
}

func (p *proxy) setDeaf(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = on
}
