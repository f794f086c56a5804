package local

import (
	"slices"
	"testing"
)

func TestTreeIsSessionAndDescendants(t *testing.T) {
	// 10 leads; 11 is its child; 12 has a session of its own below that, 13 a child there; 14 lost its parent and kept the
	// session; 15 is 14's child with its own session. 20 and 21 are strangers.
	all := []relative{
		{13, 12, 12}, {12, 11, 12}, {11, 10, 10}, {10, 2, 10}, {14, 1, 10}, {15, 14, 15}, {20, 1, 20}, {21, 20, 20}, {1, 0, 1}, {2, 1, 2},
	}
	got := below(all, 10)
	slices.Sort(got)
	if want := []int{11, 12, 13, 14, 15}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := below(all, 99); len(got) > 0 {
		t.Errorf("of a leader that has gone: %v", got)
	}
}
