//go:build !unix

package summary

// peakRSS is the most memory in bytes that the process has held at once, or 0 if it is unknown.
func peakRSS() int64 { return 0 }
