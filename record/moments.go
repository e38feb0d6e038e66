package record

import "math"

// The products below are converted to float64 before they are added, which forbids the compiler to
// fuse the two operations: processors with and without fused multiply-add give the same bits.

// sum adds floats with a running compensation (A. Neumaier, 1974): its error does not grow with the
// number of terms.
type sum struct{ total, lost float64 }

func (s *sum) add(x float64) {
	t := s.total + x
	if math.Abs(s.total) >= math.Abs(x) {
		s.lost += (s.total - t) + x
	} else {
		s.lost += (x - t) + s.total
	}
	s.total = t
}

func (s *sum) value() float64 {
	if math.IsInf(s.total, 0) {
		return s.total
	}
	return s.total + s.lost
}

// moments keeps mean and squared deviations of weighted values in one pass (D. West, "Updating mean
// and variance estimates", 1979; with weights of 1 it is Welford's method).
type moments struct{ weight, mean, squares float64 }

func (m *moments) add(x, weight float64) {
	m.weight += weight
	d := x - m.mean
	m.mean += float64(d * weight / m.weight)
	m.squares += float64(float64(weight*d) * (x - m.mean))
}
