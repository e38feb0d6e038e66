package airspace

import "math"

const daySeconds = 86400

// profile is the shape of departures over the local day: a rate for each hour relative to the mean
// of the day, so that it changes no daily total.
type profile struct {
	rate [24]float64
	// sum is the integral of rate - 1 from midnight to each hour, in seconds; sum2 is the integral of
	// that, in square seconds.
	sum, sum2 [25]float64
	// peak is the largest rate.
	peak float64
}

// hourlyShape returns departures by local solar hour, in any unit. The tables have no times of day,
// so this is an assumption: a night with few departures, a morning rise from five, an even day and
// an evening decline from eight, as in published schedules of US domestic flights.
func hourlyShape() [24]float64 {
	return [24]float64{
		8, 4, 3, 3, 6, 25, 70, 90, 92, 90, 92, 95,
		95, 92, 90, 94, 96, 98, 95, 85, 65, 45, 28, 15,
	}
}

func newProfile(hourly bool) profile {
	var p profile
	shape, total := hourlyShape(), 0.0
	for h := range shape {
		if !hourly {
			shape[h] = 1
		}
		total += shape[h]
	}
	for h := range shape {
		p.rate[h] = shape[h] * 24 / total
		p.peak = math.Max(p.peak, p.rate[h])
		p.sum[h+1] = p.sum[h] + (p.rate[h]-1)*3600
		p.sum2[h+1] = p.sum2[h] + (p.sum[h]+p.sum[h+1])/2*3600
	}
	return p
}

// clock splits s seconds into days, hour of day and seconds into the hour.
func clock(s float64) (days float64, hour int, rest float64) {
	days = math.Floor(s / daySeconds)
	s -= days * daySeconds
	hour = min(int(s/3600), 23)
	return days, hour, s - float64(hour)*3600
}

// share returns the rate at local time s seconds, as a share of the peak.
func (p *profile) share(s float64) float64 {
	_, hour, _ := clock(s)
	return p.rate[hour] / p.peak
}

// integral returns the integral of the rate from local time 0 to s, in seconds.
func (p *profile) integral(s float64) float64 {
	_, hour, rest := clock(s)
	return s + p.sum[hour] + (p.rate[hour]-1)*rest
}

// integral2 returns the integral of integral from 0 to s, in square seconds.
func (p *profile) integral2(s float64) float64 {
	days, hour, rest := clock(s)
	return s*s/2 + days*p.sum2[24] + p.sum2[hour] + p.sum[hour]*rest + (p.rate[hour]-1)*rest*rest/2
}
