package local_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/local"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest/confine"
)

func TestMain(m *testing.M) { confine.Main(m) }

func TestLocalKeepsTheContract(t *testing.T) { sandboxtest.Run(t, harness()) }

// The umask is the process's: these run alone.
func TestModesAreAsAskedUnderATightUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	h := harness()
	ran := 0
	for _, c := range sandboxtest.Cases() {
		if strings.Contains(c.Name, "whatever the umask") || strings.Contains(c.Name, "parents are made") {
			ran++
			t.Run(c.String(), func(t *testing.T) { h.RunCase(t, c) })
		}
	}
	if ran < 4 {
		t.Errorf("only %d cases name the umask", ran)
	}
}

func harness() sandboxtest.Harness {
	h := sandboxtest.Harness{
		Name: "local",
		Open: func(t testing.TB) sandbox.Sandbox { return openAt(t, t.TempDir()) },
		Absent: map[sandboxtest.Fixture]string{
			sandboxtest.Again:   "its ids live and end with its process",
			sandboxtest.Owned:   "who has it is its only owner",
			sandboxtest.Restart: "its commands and ids live and end with its process",
		},
	}
	h.Denied = h.Open
	if small, reason := confine.Small(); reason == "" {
		h.Full = func(t testing.TB) sandbox.Sandbox {
			dir, err := os.MkdirTemp(small, "full-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			return openAt(t, dir)
		}
	} else {
		h.Absent[sandboxtest.Full] = reason
	}
	return h
}

func openAt(t testing.TB, dir string) *local.Sandbox {
	t.Helper()
	box, err := local.Open(local.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}
