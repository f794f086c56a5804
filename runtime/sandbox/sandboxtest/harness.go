// Package sandboxtest holds every backend of the sandbox to the contract in the docstrings of package
// sandbox. A backend's own test calls Run; docs/guides/sandbox.md shows how.
//
// Cases look at results through the interface alone, and the programs that they run are those that busybox
// and coreutils have alike, so that they run on any computer with a POSIX shell.
package sandboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Harness is how the suite gets at a backend.
type Harness struct {
	// Name of the backend, for messages.
	Name string
	// Open gives a sandbox whose Dir is a fresh, empty directory. What it needs is taken down by t.Cleanup,
	// running commands included. Cases never run at the same time, so machines may be shared.
	Open func(t testing.TB) sandbox.Sandbox

	// Again gives another sandbox on the same Dir and with the same memory of ids: over another connection, in
	// another process, or after a restart of the client.
	Again func(t testing.TB, box sandbox.Sandbox) sandbox.Sandbox
	// Full is Open on a file system of at most 64 MiB that the case fills.
	Full func(t testing.TB) sandbox.Sandbox
	// Denied is Open where both commands and file operations are those of an ordinary user, whom
	// permissions hold.
	Denied func(t testing.TB) sandbox.Sandbox
	// Owned opens a session of its own, as Open does, and gives the sandbox of each of its owners; one with a
	// higher number, from 1, took the session over from those with lower ones.
	Owned func(t testing.TB) func(owner uint64) sandbox.Sandbox
	// Restart restarts the computer of the sandboxes that Open and Owned gave, at once, as when its power fails: nothing
	// on it is told. It returns when the computer answers again. A harness that has it has Owned.
	Restart func(t testing.TB)
	// Absent says why a fixture is nil. One that is nil without a reason fails the run.
	Absent map[Fixture]string

	// Latency is how long a call may take by itself: limits that cases set are long against it. 0: a millisecond.
	Latency time.Duration
	// Patience is how long one case may take before it fails. 0: 2 minutes.
	Patience time.Duration
}

// Fixture names an optional part of a Harness.
type Fixture string

// The fixtures.
const (
	Again   Fixture = "Again"
	Full    Fixture = "Full"
	Denied  Fixture = "Denied"
	Owned   Fixture = "Owned"
	Restart Fixture = "Restart"
)

var fixtures = []Fixture{Again, Full, Denied, Owned, Restart}

// Case is one thing that must hold.
type Case struct {
	// Concept is the file that holds the case.
	Concept string
	// Name says what must hold.
	Name string
	// Needs is the fixture without which the case cannot run; empty: none.
	Needs Fixture

	run func(t *trial)
}

// String is the case's name among all.
func (c Case) String() string { return c.Concept + "/" + c.Name }

// Cases lists all of them.
func Cases() []Case {
	var all []Case
	for _, concept := range slices.Sorted(maps.Keys(concepts)) {
		for _, c := range concepts[concept] {
			c.Concept = concept
			all = append(all, c)
		}
	}
	return all
}

// Run runs every case as a subtest of its concept's. Cases whose fixture is absent are logged and counted.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if err := h.check(); err != nil {
		t.Fatal(err)
	}
	run, not := h.plan()
	for _, c := range not {
		t.Logf("not run: %s: %s", c, h.Absent[c.Needs])
	}
	for len(run) > 0 {
		n := slices.IndexFunc(run, func(c Case) bool { return c.Concept != run[0].Concept })
		if n < 0 {
			n = len(run)
		}
		of := run[:n]
		t.Run(of[0].Concept, func(t *testing.T) {
			for _, c := range of {
				t.Run(c.Name, func(t *testing.T) { h.RunCase(t, c) })
			}
		})
		run = run[n:]
	}
	t.Logf("%s: %d cases, of which %d were not run", h.Name, len(Cases()), len(not))
}

// plan parts the cases into those that can be run and those whose fixture is absent.
func (h Harness) plan() (run, not []Case) {
	for _, c := range Cases() {
		if c.Needs == "" || h.has(c.Needs) {
			run = append(run, c)
		} else {
			not = append(not, c)
		}
	}
	return run, not
}

// RunCase runs one case on a test, or on what records like one.
func (h Harness) RunCase(t testing.TB, c Case) {
	t.Helper()
	open := h.Open
	switch c.Needs {
	case Full:
		open = h.Full
	case Denied:
		open = h.Denied
	case Owned:
		open = func(testing.TB) sandbox.Sandbox { return nil } // the case opens its owners
	}
	patience := cmp.Or(h.Patience, 2*time.Minute)
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, fmt.Errorf("the case took more than %v", patience))
	defer cancel()
	c.run(&trial{TB: t, harness: h, box: open(t), ctx: ctx})
}

func (h Harness) has(f Fixture) bool {
	switch f {
	case Again:
		return h.Again != nil
	case Full:
		return h.Full != nil
	case Denied:
		return h.Denied != nil
	case Owned:
		return h.Owned != nil
	case Restart:
		return h.Restart != nil
	}
	return false
}

func (h Harness) check() error {
	if h.Name == "" || h.Open == nil {
		return errors.New("a Harness needs Name and Open")
	}
	for _, f := range fixtures {
		if !h.has(f) && h.Absent[f] == "" {
			return fmt.Errorf("%s has no fixture %s, and Absent does not say why", h.Name, f)
		}
	}
	if h.has(Restart) && !h.has(Owned) {
		return fmt.Errorf("%s has the fixture %s without %s", h.Name, Restart, Owned)
	}
	return nil
}

// concepts holds the cases of each file.
var concepts = map[string][]Case{
	"names": namesCases, "stat": statCases, "readdir": readdirCases, "read": readCases, "write": writeCases,
	"mkdir": mkdirCases, "remove": removeCases,
	"exec": execCases, "follow": followCases, "signals": signalCases, "limits": limitCases, "input": inputCases,
	"terminal": terminalCases, "describe": describeCases,
	"once": onceCases, "batches": batchCases, "trees": treeCases, "concurrency": concurrencyCases,
	"full": fullCases, "denied": deniedCases, "owners": ownersCases, "restart": restartCases,
}
