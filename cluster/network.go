package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/simnode/simnode/cluster/link"
	"github.com/simnode/simnode/cluster/transport"
)

// Kinds of streams on the port.
const (
	kindRaft    byte = 2
	kindGossip  byte = 3
	kindRequest byte = 4
)

// network is what this package needs of the network: wire in production, one in memory in tests.
type network interface {
	// Layer returns the streams of a kind that others open.
	Layer(kind byte) (net.Listener, error)
	// Dial opens a stream to the node of a name, or to whoever is at the address if the name is empty.
	Dial(kind byte, name, addr string, timeout time.Duration) (net.Conn, error)
	// ReadPacket waits for a packet of gossip; it returns an error after Close.
	ReadPacket(b []byte) (int, net.Addr, error)
	WritePacket(b []byte, addr string) error
	// Addr is where others reach this node.
	Addr() netip.AddrPort
	// Links begins to carry messages between nodes.
	Links(resolve func(name string) (string, bool), received func(from, boot string, message []byte), replaced func(peer, boot string)) error
	Send(to string, message []byte) error
	SendWait(ctx context.Context, to string, message []byte) error
	Backlog(to string) int
	Boot(of string) string
	Drain(ctx context.Context) error
	Forget(name string)
	Close() error
}

// wire is the real network.
type wire struct {
	*transport.Transport
	mesh *transport.Mesh
	o    transport.MeshOptions
	udp  *net.UDPConn
	addr netip.AddrPort
}

// listen opens TCP and UDP on one port.
func listen(c *Config) (*wire, error) {
	o := transport.Options{
		Self:  link.Identity{Cluster: c.Cluster, Name: c.Name, Boot: c.Boot, Version: uint32(c.Version)},
		Bind:  c.Bind,
		TLS:   c.TLS,
		Event: (&teller{log: c.Log}).tell,
	}
	_, port, err := net.SplitHostPort(c.Bind)
	if err != nil {
		return nil, fmt.Errorf("bind address %q: %w", c.Bind, err)
	}
	// With port 0 the system chooses a TCP port whose UDP twin may be taken.
	attempts := 1
	if port == "0" {
		attempts = 20
	}
	for {
		w, err := listenOnce(o, c)
		if attempts--; err == nil || attempts == 0 {
			return w, err
		}
	}
}

func listenOnce(o transport.Options, c *Config) (*wire, error) {
	t, err := transport.Listen(o)
	if err != nil {
		return nil, err
	}
	tcp := t.Addr().(*net.TCPAddr)
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: tcp.IP, Port: tcp.Port, Zone: tcp.Zone})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gossip cannot have UDP port %d: %w", tcp.Port, err), t.Close())
	}
	_ = udp.SetReadBuffer(2 << 20) // less is worse, not wrong
	addr, err := advertised(c, tcp)
	if err != nil {
		return nil, errors.Join(err, t.Close(), udp.Close())
	}
	return &wire{Transport: t, udp: udp, addr: addr, o: c.mesh()}, nil
}

// teller logs what the transport tells, the same thing once a minute.
type teller struct {
	log *slog.Logger

	mu   sync.Mutex
	told map[string]time.Time
}

func (t *teller) tell(e transport.Event) {
	level := slog.LevelWarn
	if e.What == transport.LinkUp || e.What == transport.LinkDown {
		level = slog.LevelInfo
	}
	args := []any{"peer", e.Peer, "addr", e.Addr}
	if e.Err != nil {
		args = append(args, "error", e.Err)
	}
	if t.again(fmt.Sprint(e.What, e.Peer, e.Err)) {
		level = slog.LevelDebug
	}
	t.log.Log(context.Background(), level, string(e.What), args...)
}

// again reports whether a text was told within the last minute.
func (t *teller) again(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if last, ok := t.told[text]; ok && now.Sub(last) < time.Minute {
		return true
	}
	if t.told == nil || len(t.told) > 1000 {
		t.told = map[string]time.Time{}
	}
	t.told[text] = now
	return false
}

// advertised decides where others reach a node that listens on tcp.
func advertised(c *Config, tcp *net.TCPAddr) (netip.AddrPort, error) {
	host, port := "", ""
	if c.Advertise != "" {
		var err error
		if host, port, err = net.SplitHostPort(c.Advertise); err != nil {
			return netip.AddrPort{}, fmt.Errorf("advertise address %q: %w", c.Advertise, err)
		}
	}
	n := tcp.Port
	if port != "" && port != "0" {
		v, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("advertise address %q: port: %w", c.Advertise, err)
		}
		n = int(v)
	}
	ip := tcp.IP
	switch {
	case host != "":
		addrs, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("advertise address %q: %w", c.Advertise, err)
		}
		return netip.AddrPortFrom(addrs[0].Unmap(), uint16(n)), nil
	case ip.IsUnspecified():
		ip = outwards(c.Join)
	}
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("no address to advertise for %q; give one (advertise)", c.Bind)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}

// outwards returns the address of this machine on the way to one of the others. Nothing is sent.
func outwards(join []string) net.IP {
	for _, j := range join {
		host, _, err := net.SplitHostPort(j)
		if err != nil {
			host = j
		}
		conn, err := net.Dial("udp", net.JoinHostPort(host, "9"))
		if err != nil {
			continue
		}
		ip := conn.LocalAddr().(*net.UDPAddr).IP
		_ = conn.Close()
		if !ip.IsLoopback() {
			return ip
		}
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if ipn, ok := a.(*net.IPNet); ok && ipn.IP.IsGlobalUnicast() && ipn.IP.To4() != nil {
			return ipn.IP
		}
	}
	return net.IPv4(127, 0, 0, 1)
}

func (w *wire) Addr() netip.AddrPort { return w.addr }

func (w *wire) ReadPacket(b []byte) (int, net.Addr, error) { return w.udp.ReadFrom(b) }

func (w *wire) WritePacket(b []byte, addr string) error {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	_, err = w.udp.WriteTo(b, to)
	return err
}

func (w *wire) Links(resolve func(string) (string, bool), received func(string, string, []byte), replaced func(string, string)) error {
	w.o.Resolve, w.o.Received, w.o.Replaced = resolve, received, replaced
	mesh, err := w.Transport.Mesh(w.o)
	w.mesh = mesh
	return err
}

func (w *wire) Send(to string, message []byte) error { return w.mesh.Send(to, message) }

func (w *wire) SendWait(ctx context.Context, to string, message []byte) error {
	return w.mesh.SendWait(ctx, to, message)
}

func (w *wire) Backlog(to string) int { return w.mesh.Backlog(to) }

func (w *wire) Boot(of string) string { return w.mesh.Boot(of) }

func (w *wire) Drain(ctx context.Context) error { return w.mesh.Drain(ctx) }

func (w *wire) Forget(name string) { w.mesh.Forget(name) }

func (w *wire) Close() error { return errors.Join(w.udp.Close(), w.Transport.Close()) }
