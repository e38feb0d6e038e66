//go:build unix

package checkpoint

import (
	"os"
	"syscall"
)

// stopped reports whether a process was ended by somebody, and not by what it did.
func stopped(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return false
	}
	switch status.Signal() {
	case syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
		return true
	}
	return false
}
