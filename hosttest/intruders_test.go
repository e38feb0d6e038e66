//go:build linux

package hosttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// get fetches a page.
func get(ctx context.Context, url string) (string, error) {
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

// enough is more memory than a node of these tests needs, in bytes.
const enough = 400 << 20

// TestFault32Garbage sends what no node sends to all ports while a job runs, in streams and in packets.
func TestFault32Garbage(t *testing.T) {
	t.Parallel()
	end := "1000 s"
	if testing.Short() {
		end = "400 s"
	}
	c := newCluster(t, members(1, 2, 0))
	file := c.scenario(phold(200, end))
	want := c.alone(file)
	c.start()
	job := c.submit(file)
	c.reach(0.01)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, address := range c.address {
		all.Go(func() { garbage(ctx, uint64(i), address) })
	}
	c.same(job, want)
	stop()
	all.Wait()
	refused := 0.0
	for _, m := range c.list {
		refused += c.metric(m.name, "port_refused_total")
		if n := c.nodes[m.name].resident(); n > enough || !c.nodes[m.name].alive() {
			t.Errorf("%s holds %d MiB", m.name, n>>20)
		}
		if strings.Contains(c.nodes[m.name].log(), "panic") {
			t.Errorf("%s has panicked", m.name)
		}
	}
	if refused == 0 {
		t.Error("no connection counts as refused")
	}
	t.Logf("%g connections were refused", refused)
}

// garbage sends to the ports of a node until ctx ends.
func garbage(ctx context.Context, seed uint64, address string) {
	random := rand.New(rand.NewPCG(seed, 32))
	huge := binary.BigEndian.AppendUint64(nil, 1<<63-1)
	packets, err := net.Dial("udp", address+nodePort)
	if err != nil {
		return
	}
	defer packets.Close()
	for n := 0; ctx.Err() == nil; n++ {
		noise := make([]byte, 1+random.IntN(4096))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		_, _ = packets.Write(noise[:min(len(noise), 1400)]) // Whether it arrives does not matter.
		hello := [][]byte{noise, huge, bytes.Repeat([]byte{0xff}, 4096), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
			{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00"), append([]byte("simnode\x00\x01"), huge...)}[n%7]
		for _, port := range []string{nodePort, apiPort} {
			conn, err := net.DialTimeout("tcp", address+port, time.Second)
			if err != nil {
				continue
			}
			_, _ = conn.Write(hello)
			_, _ = conn.Write(noise)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, _ = io.CopyN(io.Discard, conn, 1<<10)
			_ = conn.Close()
		}
	}
}

// TestFault33Flood opens more connections to every port than a node takes, keeps them, and sends a byte now and
// then on some; the job, its nodes and whoever asks are not held up.
func TestFault33Flood(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	c := newCluster(t, members(1, 2, 0))
	file := c.scenario(phold(200, "1000 s"))
	want := c.alone(file)
	c.start()
	job := c.submit(file)
	c.reach(0.01)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	from := strings.TrimSuffix(c.address[0], "1") + "200" // The API bounds the connections of each host.
	for _, address := range c.address {
		for _, port := range []string{nodePort, apiPort} {
			all.Go(func() { flood(ctx, from, address+port, 500) })
		}
	}
	before := c.until("progress", func(s *status) bool { return s.at() > 0 || s.ended() }).at()
	c.until("progress under the flood", func(s *status) bool { return s.at() > before || s.ended() })
	if _, err := c.ask(t.Context(), "nodes"); err != nil {
		t.Error(err)
	}
	c.same(job, want)
	for _, m := range c.list {
		if n := c.nodes[m.name].resident(); n > enough || !c.nodes[m.name].alive() {
			t.Errorf("%s holds %d MiB", m.name, n>>20)
		}
		t.Logf("%s: %g connections gave way to others", m.name, c.metric(m.name, "port_evicted_total"))
	}
	stop()
	all.Wait()
}

// flood keeps so many connections from one address to another open until ctx ends, each with the beginning of
// something; those that are closed are opened again.
func flood(ctx context.Context, from, address string, each int) {
	dialer := &net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	open := make([]net.Conn, each)
	defer func() {
		for _, conn := range open {
			if conn != nil {
				_ = conn.Close()
			}
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		i := n % each
		if i == 0 && n > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		if open[i] == nil {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				open[i] = conn
			}
			continue
		}
		if _, err := open[i].Write([]byte("P")); err != nil {
			_ = open[i].Close()
			open[i] = nil
		}
	}
}

// TestFault16ConnectionsReset resets all connections between nodes again and again: what was on the way is sent
// again, and the job does not notice.
func TestFault16ConnectionsReset(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	if os.Getuid() != 0 {
		t.Skip("resetting the connections of others needs root")
	}
	if _, err := exec.LookPath("ss"); err != nil {
		t.Skip("ss (iproute2) is not installed")
	}
	const resets, least = 8, 3
	c := newCluster(t, members(1, 2, 0))
	file := c.scenario(phold(200, "2000 s"))
	want := c.alone(file)
	c.start()
	job := c.submit(file)
	c.reach(0.01)
	done := 0
	for ; done < resets && !c.until("status", func(*status) bool { return true }).ended(); done++ {
		for _, address := range c.address {
			if out, err := exec.Command("ss", "-K", "-t", "src", address, "sport", "=", nodePort).CombinedOutput(); err != nil {
				t.Skipf("this system does not reset connections: %v: %s", err, out)
			}
		}
		c.moves()
	}
	c.same(job, want)
	if n := c.metric("w0", "link_lost_connections_total") + c.metric("w1", "link_lost_connections_total"); done < least || n < float64(done) {
		t.Errorf("%g connections were lost in %d resets", n, done)
	}
}
