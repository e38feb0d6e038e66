//go:build linux

package hosttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// slowSwitch is a switch that hosts are plugged into instead of the bridge: it holds each frame up and loses some.
// It works where the kernel can do neither, since it is in this process; a port is a TAP device of a host.
type slowSwitch struct {
	delay time.Duration
	// loss is the part of frames that is lost.
	loss  float64
	ports []*port

	mu sync.Mutex
	// at is the port behind which an Ethernet address is.
	at map[[6]byte]*port
}

type port struct {
	file *os.File
	out  chan delayed
}

type delayed struct {
	due   time.Time
	frame []byte
}

// queued is how many frames wait for a port at most; more are lost, as they are in any switch.
const queued = 4096

// newSlowHosts makes hosts like newHosts, with a switch that is slow and loses frames. It skips the test where the
// system has no TAP devices.
func newSlowHosts(t *testing.T, list []member, delay time.Duration, loss float64) *hosts {
	t.Helper()
	s := &slowSwitch{delay: delay, loss: loss, at: map[[6]byte]*port{}}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	h := makeHosts(t, list, func(h *hosts, i int) {
		file, err := openTAP(space(i))
		if err != nil {
			t.Skipf("this system has no TAP devices: %v", err)
		}
		s.ports = append(s.ports, &port{file, make(chan delayed, queued)})
		h.ip("link", "set", space(i), "netns", space(i), "name", "eth0")
	})
	t.Cleanup(func() {
		stop()
		for _, p := range s.ports {
			_ = p.file.Close()
		}
		all.Wait()
	})
	for i, p := range s.ports {
		random := rand.New(rand.NewPCG(15, uint64(i)))
		all.Go(func() { s.receive(p, random) })
		all.Go(func() { p.deliver(ctx) })
	}
	return h
}

// openTAP makes a TAP device.
func openTAP(name string) (*os.File, error) {
	fd, err := syscall.Open("/dev/net/tun", syscall.O_RDWR|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	var request struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:syscall.IFNAMSIZ-1], name)
	request.flags = syscall.IFF_TAP | syscall.IFF_NO_PI
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.TUNSETIFF, uintptr(unsafe.Pointer(&request))); e != 0 {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("TUNSETIFF: %w", e)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// receive takes frames from a port until it is closed.
func (s *slowSwitch) receive(from *port, random *rand.Rand) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.file.Read(buffer)
		if err != nil {
			return
		}
		if n < 14 {
			continue
		}
		frame := append([]byte(nil), buffer[:n]...)
		for _, to := range s.targets(from, frame) {
			if random.Float64() < s.loss {
				continue
			}
			select {
			case to.out <- delayed{time.Now().Add(s.delay), frame}:
			default:
			}
		}
	}
}

// targets are the ports that a frame goes to, by what earlier frames taught.
func (s *slowSwitch) targets(from *port, frame []byte) (list []*port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[[6]byte(frame[6:])] = from
	if to := s.at[[6]byte(frame)]; to != nil && frame[0]&1 == 0 {
		return []*port{to}
	}
	for _, p := range s.ports {
		if p != from {
			list = append(list, p)
		}
	}
	return list
}

// deliver hands frames to the host when they are due, in order.
func (p *port) deliver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-p.out:
			time.Sleep(time.Until(d.due))
			_, _ = p.file.Write(d.frame) // The host may be down.
		}
	}
}

// shape slows the lines of hosts on the bridge down by the kernel, and says how.
func (h *hosts) shape() (how string) {
	h.t.Helper()
	for i := range h.list {
		if out, err := exec.Command("tc", "-n", space(i), "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "4mbit", "burst", "2kb", "latency", "50ms").CombinedOutput(); err != nil {
			h.t.Skipf("this system shapes no traffic: %s", out)
		}
	}
	return "a line of 4 Mbit/s whose queue holds 50 ms"
}
