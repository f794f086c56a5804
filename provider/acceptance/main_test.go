// Package acceptance runs the provider as its users do: the real terraform, the built provider, the local platform
// with control servers in real machines.
package acceptance

import (
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	code := m.Run()
	if err := removePrograms(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// lockedWriter lets the platform's goroutines share a buffer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
