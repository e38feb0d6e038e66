//go:build !unix

package cli

import "os/exec"

// ownGroup keeps signals of the terminal from a process, where that can be told.
func ownGroup(*exec.Cmd) {}
