package local

import (
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

func TestTimeThatTheComputerSleptThroughDoesNotCount(t *testing.T) {
	l := newLimits(sandbox.Command{Timeout: 10 * time.Second, Unattended: 10 * time.Second})
	for i := range 9 {
		if cause, _ := l.pass(time.Hour, false); cause != "" {
			t.Fatalf("pause %d ended it: %s", i, cause)
		}
	}
	if cause, _ := l.pass(time.Hour, false); cause != sandbox.CauseTimeout {
		t.Errorf("ten ticks of running: %q", cause)
	}
}

func TestHoldEndsByItselfAndIsCountedByKey(t *testing.T) {
	l := newLimits(sandbox.Command{Timeout: 3 * time.Second})
	l.hold("a", 5*time.Second)
	l.hold("b", time.Hour)
	for range 100 {
		if cause, _ := l.pass(time.Second, true); cause != "" {
			t.Fatal("a held command was ended")
		}
	}
	l.hold("b", 0)
	for range 2 {
		if cause, next := l.pass(time.Second, true); cause != "" || next > time.Second {
			t.Fatalf("cause %q, next look in %v", cause, next)
		}
	}
	if cause, _ := l.pass(time.Second, true); cause != sandbox.CauseTimeout {
		t.Errorf("after the holds: %q", cause)
	}
}

func TestWhoeverFollowsBeginsTheUnattendedTimeAnew(t *testing.T) {
	l := newLimits(sandbox.Command{Unattended: 2500 * time.Millisecond})
	for range 10 {
		l.pass(time.Second, false)
		if cause, next := l.pass(time.Second, true); cause != "" || next != time.Second {
			t.Fatalf("cause %q, next look in %v", cause, next)
		}
	}
	l.pass(time.Second, false)
	if cause, next := l.pass(time.Second, false); cause != "" || next != 500*time.Millisecond {
		t.Fatalf("cause %q, next look in %v", cause, next)
	}
	if cause, _ := l.pass(time.Second, false); cause != sandbox.CauseUnattended {
		t.Errorf("nobody for 3 s: %q", cause)
	}
}

func TestCommandWithoutLimitsHasNoClock(t *testing.T) {
	if newLimits(sandbox.Command{}) != nil {
		t.Error("a clock runs for nothing")
	}
}
