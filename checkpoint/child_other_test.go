//go:build !linux

package checkpoint

// childVariable tells the test binary that it is a child; there are none on this system.
const childVariable = "SIMNODE_CHECKPOINT_TEST_CHILD"

func child() {}
