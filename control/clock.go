package control

import "time"

// clock is time as a machine lives it. A stretch in which the machine was not stepped (the process was
// stopped, the computer slept) counts for no more than most, and a clock that is set back for nothing: a
// machine that wakes up must not take everybody for silent before it has looked at what they sent.
type clock struct {
	most  time.Duration
	seen  time.Duration
	now   time.Duration
	begun bool
}

func (c *clock) step(now time.Duration) {
	if c.begun {
		c.now += min(max(now-c.seen, 0), c.most)
	}
	c.seen, c.begun = now, true
}

func (c Config) withDefaults() Config {
	c.PingEvery = orDefault(c.PingEvery, 250*time.Millisecond)
	c.SilentAfter = orDefault(c.SilentAfter, 2*time.Second)
	c.LostAfter = orDefault(c.LostAfter, 3*time.Second)
	c.GoneAfter = orDefault(c.GoneAfter, time.Minute)
	c.AskEvery = orDefault(c.AskEvery, time.Second)
	c.FloorEvery = orDefault(c.FloorEvery, 50*time.Millisecond)
	c.ExpectedNodes = max(c.ExpectedNodes, 1)
	c.SaveWait = orDefault(c.SaveWait, 5*time.Minute)
	c.RetryAfter = orDefault(c.RetryAfter, 10*time.Second)
	c.HolderWait = orDefault(c.HolderWait, 2*time.Minute)
	if c.MostRecoveries <= 0 {
		c.MostRecoveries = 10
	}
	return c
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}
