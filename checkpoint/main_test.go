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
	goleak.VerifyTestMain(m)
}
