package chaos

import "time"

// network is the links between processes.
type network struct {
	w *world
	r *stream
	// cut counts what keeps frames from getting from one node to another.
	cut [][]int
	// conn numbers the connections between two nodes, the lesser first; frames of an earlier one are lost.
	conn [][]int
	// line holds the frames of a stream that are on the way, in order; due is how many of them would have
	// arrived but for a cut, last when the last one arrives.
	line [][][][]byte
	due  [][]int
	last [][]time.Duration
	// Counts, for the report.
	frames, lost, twice, harmed uint64
}

func newNetwork(w *world, seed uint64, nodes int) *network {
	n := &network{w: w, r: newStream(seed, streamNetwork)}
	for range nodes {
		n.cut = append(n.cut, make([]int, nodes))
		n.conn = append(n.conn, make([]int, nodes))
		n.line = append(n.line, make([][][]byte, nodes))
		n.due = append(n.due, make([]int, nodes))
		n.last = append(n.last, make([]time.Duration, nodes))
	}
	return n
}

func (n *network) connection(a, b int) *int { return &n.conn[min(a, b)][max(a, b)] }

// transmit puts a frame on its way. It must not be changed afterwards.
func (n *network) transmit(from, to int, frame []byte) {
	n.frames++
	n.w.trace.fold(uint64(from)<<32|uint64(to), uint64(len(frame)))
	if n.w.settings.net.stream {
		n.queue(from, to, frame)
		return
	}
	s := &n.w.settings.net
	if n.r.Bernoulli(s.loss) || n.cut[from][to] > 0 {
		n.lost++
		return
	}
	if n.r.Bernoulli(s.harm) {
		n.harmed++
		damaged := append([]byte(nil), frame...)
		damaged[n.r.n(len(frame))] ^= 1 << n.r.n(8)
		n.datagram(from, to, damaged, true)
	}
	n.datagram(from, to, frame, false)
	if n.r.Bernoulli(s.twice) {
		n.twice++
		n.datagram(from, to, frame, false)
	}
}

func (n *network) delay() time.Duration {
	s := &n.w.settings.net
	d := s.delay
	if s.jitter > 0 {
		d += n.r.exp(s.jitter)
	}
	if n.r.Bernoulli(s.spike) {
		d += n.r.exp(s.spikeDelay)
	}
	return d
}

func (n *network) datagram(from, to int, frame []byte, damaged bool) {
	n.w.after(n.delay(), func() {
		if n.cut[from][to] > 0 {
			n.lost++
			return
		}
		n.w.hosts[to].arrive(from, frame, damaged)
	})
}

// queue sends a frame on a stream, which keeps order.
func (n *network) queue(from, to int, frame []byte) {
	n.line[from][to] = append(n.line[from][to], frame)
	n.expect(from, to)
}

// expect has the next frame of a stream arrive.
func (n *network) expect(from, to int) {
	at := max(n.w.now+n.delay(), n.last[from][to])
	n.last[from][to] = at
	conn := n.connection(from, to)
	number := *conn
	n.w.at(at, func() {
		switch {
		case number != *conn:
		case n.cut[from][to] > 0:
			n.due[from][to]++
		default:
			frame := n.line[from][to][0]
			n.line[from][to] = n.line[from][to][1:]
			n.w.hosts[to].arrive(from, frame, false)
		}
	})
}

// sever cuts the way from one node to another.
func (n *network) sever(from, to int) {
	if from != to {
		n.cut[from][to]++
		n.w.changed()
	}
}

// heal undoes one sever.
func (n *network) heal(from, to int) {
	if from == to {
		return
	}
	n.cut[from][to]--
	n.w.changed()
	if n.cut[from][to] > 0 || !n.w.settings.net.stream {
		return
	}
	if n.r.Bernoulli(n.w.settings.net.breaksAfterHealing) {
		n.reset(from, to)
		return
	}
	due := n.due[from][to]
	n.due[from][to] = 0
	for range due {
		n.expect(from, to)
	}
}

// reset breaks the connection between two nodes: what is on the way is lost, and both ends begin again.
func (n *network) reset(a, b int) {
	if a == b {
		return
	}
	*n.connection(a, b)++
	for _, d := range [][2]int{{a, b}, {b, a}} {
		n.lost += uint64(len(n.line[d[0]][d[1]]))
		n.line[d[0]][d[1]], n.due[d[0]][d[1]] = nil, 0
	}
	n.w.hosts[a].reconnected(b)
	n.w.hosts[b].reconnected(a)
}

// connected reports whether two nodes run and reach each other.
func (n *network) connected(a, b int) bool {
	return n.w.hosts[a].running() && n.w.hosts[b].running() && n.cut[a][b] == 0 && n.cut[b][a] == 0
}
