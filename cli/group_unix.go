//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal from a process.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
