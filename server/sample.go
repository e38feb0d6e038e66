package server

import (
	"sync"
	"time"
)

// sampler tells the rate of a count over about the last second, by looks at it that come at any times.
type sampler struct {
	mu       sync.Mutex
	job      string
	old, new sample
}

type sample struct {
	at time.Time
	n  uint64
}

// sampleFor is how long two samples are apart at least.
const sampleFor = 500 * time.Millisecond

// rate takes a look at the count and returns its rate per second.
func (s *sampler) rate(job string, n uint64, at time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job != s.job || n < s.new.n {
		s.job, s.old, s.new = job, sample{at, n}, sample{at, n}
	}
	span := at.Sub(s.old.at)
	rate := 0.0
	if span > 0 {
		rate = float64(n-s.old.n) / span.Seconds()
	}
	if at.Sub(s.new.at) >= sampleFor {
		s.old, s.new = s.new, sample{at, n}
	}
	return rate
}

// cache keeps the last answer about a job for a short while, so that many who watch ask once.
type cache struct {
	mu  sync.Mutex
	job string
	at  time.Time
	p   *progress
}

// cachedFor is how long an answer is good.
const cachedFor = watchEvery / 2

func (c *cache) get(job string, ask func() *progress) *progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.job == job && time.Since(c.at) < cachedFor {
		return c.p
	}
	p := ask()
	c.job, c.at, c.p = job, time.Now(), p
	return p
}
