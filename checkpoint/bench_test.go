//go:build unix

package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWrite takes checkpoints of 64 MiB, of which three are kept, in chunks of several sizes. It reports what a
// CPU-second writes, compaction and sums included, and the most memory that was in use.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("chunk=%dKiB", size>>10), func(b *testing.B) {
			const total = 64 << 20
			data := make([]byte, size)
			r := rand.New(rand.NewPCG(1, 1))
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			s := mustOpen(b, Options{Dir: b.TempDir()})
			b.SetBytes(total)
			heap, stop := watchHeap()
			began := cpuTime()
			b.ResetTimer()
			for range b.N {
				if err := writeChunks(s, data, total); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			used := cpuTime() - began
			close(stop)
			b.ReportMetric(float64(b.N)*total/1e6/used.Seconds(), "MB/cpu-s")
			b.ReportMetric(float64(<-heap)/(1<<20), "heap-MiB")
			st, err := s.Stats()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(st.Tables)/float64(max(1, st.Live)), "disk/live")
			began = cpuTime()
			if err := s.Verify(nil); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(st.Live)/1e6/(cpuTime()-began).Seconds(), "read-MB/cpu-s")
		})
	}
}

func writeChunks(s *Store, data []byte, total int) error {
	n := s.Next()
	w, err := s.Write(n, 0, nil, int64(total))
	if err != nil {
		return err
	}
	for at := 0; at < total; at += len(data) {
		if err := w.Put(at/(total/4), 0, data); err != nil {
			w.Abort()
			return err
		}
	}
	for region := range 4 {
		if err := w.Describe(RegionPart{Region: region, Base: n}); err != nil {
			return err
		}
	}
	p, err := w.Close()
	if err != nil {
		return err
	}
	return s.Commit(manifest(n, n-1, nil, p))
}

// watchHeap returns the most heap in use until stop is closed.
func watchHeap() (most chan uint64, stop chan struct{}) {
	most, stop = make(chan uint64, 1), make(chan struct{})
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var peak uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			select {
			case <-tick.C:
			case <-stop:
				most <- peak
				return
			}
		}
	}()
	return most, stop
}
