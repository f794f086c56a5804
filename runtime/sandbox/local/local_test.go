package local_test

import (
	"os"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/local"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox/sandboxtest/confine"
)

func TestMain(m *testing.M) { confine.Main(m) }

func TestLocalKeepsTheContract(t *testing.T) {
	h := sandboxtest.Harness{
		Name: "local",
		Open: func(t testing.TB) sandbox.Sandbox { return openAt(t, t.TempDir()) },
		Absent: map[sandboxtest.Fixture]string{
			sandboxtest.Again: "its ids live and end with its process",
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
	sandboxtest.Run(t, h)
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
