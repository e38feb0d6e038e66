package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simnode/simnode/sim"
)

// collector tells the metrics of a node, all of the moment at which they are asked for. Times are in
// seconds; what a node does not know it leaves out.
type collector struct{ n *Node }

// Describe implements prometheus.Collector: the metrics depend on what is going on, so none is promised.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// samples gathers metrics.
type samples struct{ to chan<- prometheus.Metric }

// labels are pairs of name and value.
func (s samples) put(kind prometheus.ValueType, name, help string, value float64, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	s.to <- prometheus.MustNewConstMetric(prometheus.NewDesc("simnode_"+name, help, names, nil), kind, value, values...)
}

func (s samples) gauge(name, help string, value float64, labels ...string) {
	s.put(prometheus.GaugeValue, name, help, value, labels...)
}

func (s samples) counter(name, help string, value uint64, labels ...string) {
	s.put(prometheus.CounterValue, name, help, float64(value), labels...)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := samples{to}
	status := c.n.loop.shown.Load()
	c.cluster(s)
	c.coordinator(s, status)
	c.agent(s, status)
	c.regions(s)
	c.links(s)
	c.n.loop.answers.Collect(to)
}

func (c *collector) cluster(s samples) {
	leader, term := c.n.cluster.Leader()
	s.gauge("leader", "1 if this node coordinates.", truth(leader == c.n.config.Name))
	s.gauge("term", "Term of the coordinator.", float64(term))
	m := c.n.cluster.Metrics()
	s.counter("elections_won_total", "Elections that this node won.", m.Elections)
	s.gauge("log_committed_index", "Last entry of the log that is committed.", float64(m.Committed))
	s.gauge("log_applied_index", "Last entry of the log that this node has applied.", float64(m.Applied))
	s.gauge("log_disk_full", "1 if the log has no room.", truth(m.DiskFull))
	s.gauge("voters", "Nodes that vote.", float64(m.Voters))
	s.gauge("nodes", "Nodes by what gossip takes them for.", float64(m.Alive), "state", "alive")
	s.gauge("nodes", "Nodes by what gossip takes them for.", float64(m.Dead), "state", "dead")
	s.gauge("gossip_health", "Health of gossip as this node sees itself, 0 is best.", float64(m.Health))
	for _, node := range c.n.cluster.Nodes() {
		if !node.LastHeard.IsZero() {
			s.gauge("heartbeat_age_seconds", "Time since anything last came from a node.", time.Since(node.LastHeard).Seconds(), "node", node.Name)
		}
	}
	s.gauge("loop_idle_seconds", "Time since the loop was last seen at work.", time.Since(c.n.loop.shown.Load().at).Seconds())
	state := c.n.machine.state.Load()
	s.gauge("epoch", "Last epoch that the log has given.", float64(state.LastEpoch))
	waiting := 0
	for _, j := range state.Jobs {
		if !j.Phase.Ended() {
			waiting++
		}
	}
	s.gauge("jobs", "Jobs that have not ended.", float64(waiting))
	s.counter("unreadable_messages_total", "Messages that could not be read.", c.n.refused.total())
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// coordinator tells what the coordinator knows, on the node that coordinates.
func (c *collector) coordinator(s samples, status *loopStatus) {
	k, n := &status.coord, &status.coordCounts
	const refused = "Messages refused by reason: of another epoch, of a coordinator of another term, of a process that is not the member's."
	s.counter("refused_total", refused, n.OtherEpoch, "by", "coordinator", "reason", "epoch")
	s.counter("refused_total", refused, n.OtherTerm, "by", "coordinator", "reason", "term")
	s.counter("refused_total", refused, status.agentCounts.OtherEpoch, "by", "agent", "reason", "epoch")
	s.counter("refused_total", refused, status.agentCounts.OldTerm, "by", "agent", "reason", "term")
	s.counter("refused_total", refused, status.agentCounts.OtherProcess, "by", "agent", "reason", "process")
	s.counter("reports_received_total", "Frames of reports that the coordinator took in.", n.Reports)
	s.counter("grants_sent_total", "Bounds of regions that the coordinator gave.", n.Grants)
	s.counter("grant_messages_total", "Messages with bounds that the coordinator sent.", n.Messages)
	s.counter("cuts_total", "Cuts that the coordinator made.", n.Cuts)
	s.counter("takeovers_total", "Jobs taken over from another coordinator.", n.Takeovers)
	if !k.Leading || k.Job == "" {
		return
	}
	for _, m := range k.Members {
		s.gauge("member_silent_seconds", "Time since a member was last heard.", m.Silent.Seconds(), "node", m.Name)
		s.counter("member_events_total", "Events that a member has handled in the current job.", m.Events, "node", m.Name)
		s.gauge("member_backlog", "1 if a member cannot take more.", truth(m.Backlog), "node", m.Name)
	}
	if !k.Running {
		return
	}
	s.gauge("simulated_seconds", "Simulated time below which all has run.", seconds(k.Floor))
	s.gauge("cap_seconds", "Simulated time that no region passes before the next cut, stop time or end.", seconds(k.Cap))
	for i, r := range k.Regions {
		id := strconv.Itoa(i)
		s.gauge("region_lag_seconds", "How far the bound of a region is below the largest bound.", lag(k.Cap, r.Given), "region", id)
		s.gauge("region_effective_seconds", "Time of the first event that a region has or may still get.", seconds(r.Effective), "region", id)
	}
}

func lag(to, given sim.Time) float64 { return max(seconds(to)-seconds(given), 0) }

// seconds is a time, as far as a float can hold it.
func seconds(t sim.Time) float64 { return t.Seconds() }

func (c *collector) agent(s samples, status *loopStatus) {
	n := &status.agentCounts
	s.counter("batches_sent_total", "Event frames sent to other nodes.", n.BatchesOut)
	s.counter("batch_bytes_sent_total", "Bytes of event frames sent.", n.BytesOut)
	s.counter("batches_received_total", "Event frames received.", n.BatchesIn)
	s.counter("batch_bytes_received_total", "Bytes of event frames received.", n.BytesIn)
	s.counter("observation_frames_sent_total", "Frames of observations handed to the node that records.", n.ObservedOut)
	s.counter("observation_bytes_sent_total", "Bytes of them.", n.ObservedBytes)
	s.counter("reports_sent_total", "Reports sent to the coordinator.", n.Reports)
	s.counter("grants_taken_total", "Bounds taken from the coordinator.", n.Grants)
	s.gauge("loop_inputs", "Inputs that the loop last took at once.", float64(status.inputs))
	s.gauge("links_waiting_bytes", "Bytes for which links have no room.", float64(status.outputs))
	s.gauge("stage", "1 for what this node is doing for a job.", 1, "stage", string(status.agent.Stage))
}

// regions tells of the regions of this node.
func (c *collector) regions(s samples) {
	share := c.n.exec.shown.Load()
	if share == nil || !share.ready.Load() {
		return
	}
	for _, r := range share.part.Stats() {
		id := strconv.Itoa(r.Region)
		s.counter("region_events_total", "Events that a region has handled in the current job.", r.Events, "region", id)
		s.gauge("region_queue", "Events that are pending in a region.", float64(r.Queued), "region", id)
		s.gauge("region_entities", "Entities of a region.", float64(r.Entities), "region", id)
		s.gauge("region_ghosts", "Ghosts that a region shows.", float64(r.Ghosts), "region", id)
		s.gauge("region_grant_seconds", "Bound below which a region may run.", seconds(r.Bound), "region", id)
		s.gauge("region_next_seconds", "Time of the next event of a region.", seconds(r.Next), "region", id)
	}
}

// links tells of the links with other nodes, and of the port that they share.
func (c *collector) links(s samples) {
	for _, p := range c.n.cluster.LinkStats() {
		l := &p.Link
		s.gauge("link_up", "1 if the other end of a link answers.", truth(p.Up), "node", p.Name)
		s.gauge("link_backlog_bytes", "Bytes that wait for acknowledgement.", float64(p.Backlog), "node", p.Name)
		s.counter("link_messages_sent_total", "Messages given to a link.", l.MessagesSent, "node", p.Name)
		s.counter("link_messages_received_total", "Messages that came over a link.", l.MessagesReceived, "node", p.Name)
		s.counter("link_bytes_sent_total", "Bytes sent over a link.", l.BytesSent, "node", p.Name)
		s.counter("link_bytes_received_total", "Bytes that came over a link.", l.BytesReceived, "node", p.Name)
		s.counter("link_resent_frames_total", "Frames sent again after a connection broke.", l.Resent, "node", p.Name)
		s.counter("link_duplicate_frames_total", "Frames that came more than once.", l.Duplicates, "node", p.Name)
		s.counter("link_refused_frames_total", "Frames of other processes, clusters or versions, or malformed.", l.Refused, "node", p.Name)
		s.counter("link_replaced_total", "How often another process took the place of the other end.", l.Replaced, "node", p.Name)
		s.counter("link_connections_total", "Connections made.", p.Connects, "node", p.Name)
		s.counter("link_lost_connections_total", "Connections lost.", p.Lost, "node", p.Name)
	}
	n := c.n.cluster.PortCounts()
	s.counter("port_accepted_total", "Connections accepted.", n.Accepted)
	s.counter("port_refused_total", "Connections refused for what they said.", n.Refused)
	s.counter("port_evicted_total", "Connections closed since there were too many strangers.", n.Evicted)
}
