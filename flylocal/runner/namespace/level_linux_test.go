package namespace

import (
	"strings"
	"syscall"
	"testing"
)

func TestMappedIdsAreUnprivilegedAndExist(t *testing.T) {
	for _, c := range []struct {
		name, idMap string
		base, count int
	}{
		{"a computer's root", "         0          0 4294967295\n", preferredBase, 65536},
		{"root of a container with its own range", "0 100000 65536\n", 1, 65535},
		{"root of a rootless container", "0 1000 1\n1 100000 65536\n", 1, 65536},
		{"more than enough", "0 0 1000000\n", 1000000 - 65536, 65536},
		{"too few", "0 1000 1\n", 0, 0},
	} {
		r, err := highestOf(strings.NewReader(c.idMap))
		if err != nil {
			t.Fatal(err)
		}
		m, err := rangeWithin(r, r)
		if c.count == 0 {
			if err == nil {
				t.Errorf("%s: got %+v", c.name, m)
			}
			continue
		}
		if err != nil || m.base != c.base || m.count != c.count || !m.byRoot {
			t.Errorf("%s: got base %d and %d ids, %v", c.name, m.base, m.count, err)
		}
	}
}

func TestForbiddenNamespacesAreExplained(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSPC} {
		if got := (mapping{}).explain(errno).Error(); !strings.Contains(got, "sysctl") || !strings.Contains(got, "process runner") {
			t.Errorf("%v is explained as %q", errno, got)
		}
	}
}
