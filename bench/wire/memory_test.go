package wire_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
)

// pss is the memory that a process has in proportion to how it is shared, in bytes.
func pss(b *testing.B, pid int) int {
	b.Helper()
	rollup, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		b.Fatalf("%v: a control server hides its memory from all but root; run as root", err)
	}
	for line := range bytes.Lines(rollup) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "Pss:" {
			kib, err := strconv.Atoi(f[1])
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Fatal("the kernel does not tell Pss")
	return 0
}
