package api

import (
	"net"
	"sync"
)

// crowd is a listener that bounds connections, in all and of one address: those beyond are closed at
// once, so that a flood of them neither blocks others nor uses descriptors without bound.
type crowd struct {
	net.Listener
	most, mostOfOne int

	mu  sync.Mutex
	all int
	of  map[string]int
}

func newCrowd(l net.Listener, most int) *crowd {
	return &crowd{Listener: l, most: most, mostOfOne: max(1, most/4), of: map[string]int{}}
}

// Accept returns the next connection for which there is room.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err != nil {
			host = conn.RemoteAddr().String()
		}
		if !c.enter(host) {
			_ = conn.Close()
			continue
		}
		return &guest{Conn: conn, leave: sync.OnceFunc(func() { c.leave(host) })}, nil
	}
}

func (c *crowd) enter(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.most || c.of[host] >= c.mostOfOne {
		return false
	}
	c.all++
	c.of[host]++
	return true
}

func (c *crowd) leave(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[host]--; c.of[host] == 0 {
		delete(c.of, host)
	}
}

// guest is a connection that leaves the crowd when it is closed.
type guest struct {
	net.Conn
	leave func()
}

func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}
