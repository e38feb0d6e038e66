//go:build unix

package summary

import (
	"runtime"
	"syscall"
)

// peakRSS is the most memory in bytes that the process has held at once, or 0 if it is unknown.
func peakRSS() int64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	peak := int64(usage.Maxrss)
	if runtime.GOOS != "darwin" && runtime.GOOS != "ios" {
		peak *= 1024 // kilobytes but for Apple's systems
	}
	return peak
}
