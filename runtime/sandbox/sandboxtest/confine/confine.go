// Package confine runs a test binary as an ordinary user that has a small file system to fill: what the cases of
// permissions and of a full disk need, whoever runs the tests.
package confine

import (
	"fmt"
	"os"
	"testing"
)

const (
	// stageEnv tells a process of the test binary what it is to become.
	stageEnv = "FLYFLEET_CONFINE_STAGE"
	smallEnv = "FLYFLEET_CONFINE_SMALL"
)

// Main is for TestMain. It runs the tests in a child of this process.
func Main(m *testing.M) {
	code, err := stage(os.Getenv(stageEnv), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "confine the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// Small is a directory in a file system of 16 MiB that these tests alone use; empty where there is none, with the
// reason.
func Small() (dir, reason string) {
	if dir = os.Getenv(smallEnv); dir == "" {
		return "", unconfined
	}
	return dir, ""
}
