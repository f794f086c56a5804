package sandboxtest

import (
	"strconv"
	"strings"
)

// What the computer's own stat says, for comparison.

func unixOf(t *trial, name string) int64 {
	t.Helper()
	return int64(numbersOf(t, `stat -c %Y -- "$1"`, name)[0])
}

func ownerOf(t *trial, name string) []int {
	t.Helper()
	return numbersOf(t, `stat -c '%u %g' -- "$1"`, name)
}

func numbersOf(t *trial, script, name string) []int {
	t.Helper()
	var out []int
	for _, f := range strings.Fields(t.sh(script, name)) {
		n, err := strconv.Atoi(f)
		t.ok(err)
		out = append(out, n)
	}
	return out
}
