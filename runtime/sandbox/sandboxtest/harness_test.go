package sandboxtest

import (
	"os"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

func TestSuiteHasManyCasesWithNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.String()] {
			t.Errorf("%s is there twice", c)
		}
		seen[c.String()] = true
		if c.Name == "" || c.run == nil {
			t.Errorf("%s is no case", c)
		}
	}
	if len(seen) < 250 {
		t.Errorf("the suite has %d cases; it had more than 250", len(seen))
	}
	t.Logf("%d cases", len(seen))
}

func TestEachConceptHasItsFile(t *testing.T) {
	// The file is named for the concept, in the singular or not.
	files := map[string]string{"limits": "limits.go", "signals": "signals.go", "terminal": "input.go"}
	for concept := range concepts {
		name := files[concept]
		if name == "" {
			name = concept + ".go"
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("the cases of %s are not in %s", concept, name)
		}
	}
}

func openNone(testing.TB) sandbox.Sandbox { return nil }

func TestAbsentFixtureNeedsAReasonAndItsCasesAreNamed(t *testing.T) {
	h := Harness{Name: "none", Open: openNone, Denied: openNone}
	err := h.check()
	if err == nil || !strings.Contains(err.Error(), string(Again)) {
		t.Fatalf("a fixture without a reason is taken: %v", err)
	}
	h.Absent = map[Fixture]string{Again: "it has no memory", Full: "no small disk", Owned: "one owner", Restart: "it cannot"}
	if err := h.check(); err != nil {
		t.Fatal(err)
	}
	run, not := h.plan()
	if len(run)+len(not) != len(Cases()) {
		t.Errorf("%d cases are run and %d not, of %d", len(run), len(not), len(Cases()))
	}
	count := map[Fixture]int{}
	for _, c := range not {
		count[c.Needs]++
	}
	if count[Full] != len(fullCases) || count[Again] != len(onceVerbs) || count[Denied] != 0 ||
		count[Owned] != len(ownersCases) || count[Restart] != len(restartCases) {
		t.Errorf("not run: %v", count)
	}
}

func TestHarnessThatLacksWhatItNeedsIsRefused(t *testing.T) {
	why := map[Fixture]string{Again: "no", Full: "no", Denied: "no", Owned: "no"}
	restarts := Harness{Name: "restarts without owners", Open: openNone, Absent: why, Restart: func(testing.TB) {}}
	for _, h := range []Harness{{}, {Name: "none"}, {Open: openNone}, restarts} {
		if h.check() == nil {
			t.Errorf("%+v is taken", h)
		}
	}
}
