package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// A fleet swap is one changed line per machine, whatever the number of machines.
func TestImageChangePlansOnlyTheImage(t *testing.T) {
	for _, n := range []int{1, 3, fleetSize()} {
		t.Run(fmt.Sprintf("%d_machines", n), func(t *testing.T) {
			p, w := startTenants(t, n, "")
			w.setImage(p.image(t, "v2"))
			wantOnlyImage(t, w.plan(), n)
			if n == fleetSize() {
				return // applying them all is the benchmark's business
			}
			w.must("apply", "-no-color", "saved.tfplan")
			if again := w.plan().changed(); len(again) != 0 {
				t.Errorf("after the swap %d resources still change: %v", len(again), again)
			}
		})
	}
}

// fleetSize is the size of the large fleet; machines are real processes.
func fleetSize() int {
	if os.Getenv("FLYFLEET_TEST_LONG") != "" {
		return 300
	}
	return 100
}

// Another spelling of the digest that runs is no change: nothing is planned, nothing is written.
func TestRespellingTheDigestWritesNothing(t *testing.T) {
	p, w := startTenants(t, 1, "")
	ref := p.image(t, "v1")
	repository, digest, found := strings.Cut(ref, "@")
	if !found {
		t.Fatalf("the image reference has no digest: %s", ref)
	}
	p.recorder.reset()
	w.setImage(repository + ":stable@" + digest)
	if changed := w.plan().changed(); len(changed) != 0 {
		t.Errorf("a plan for the digest that runs changes %v", changed)
	}
	w.apply()
	for _, e := range p.recorder.all() {
		if e.writes() && !strings.HasPrefix(e.Path, "/graphql") {
			t.Errorf("%s %s was sent for a respelled digest", e.Method, e.Path)
		}
	}
	if got := p.recorder.find(http.MethodGet, "/v1/"); len(got) == 0 {
		t.Error("the recorder saw no read; it is not in the way of the provider")
	}
}
