package checkpoint

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	Probing()
	if os.Getenv(childVariable) != "" {
		child()
		return
	}
	// Under the race detector a process sleeps for a second when it ends; the children need not.
	if err := os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
