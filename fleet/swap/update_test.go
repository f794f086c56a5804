package swap_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/merge"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
)

func change(path, base, ours string) merge.Change {
	c := merge.Change{Path: path}
	if base != "" {
		c.Base = json.RawMessage(base)
	}
	if ours != "" {
		c.Ours = json.RawMessage(ours)
	}
	return c
}

// Two public providers sent the plan's config only: foreign env, init and auto_destroy were erased, and {} was sent for
// what was not managed. flyctl#1469 and its kin wiped one field after the other.
func TestUpdateWritesManagedPathsOnly(t *testing.T) {
	l := newLab(t)
	m := l.machine("update", plain(`,"env":{"MINE":"1","FOREIGN":"keep"},"auto_destroy":false,"x_unknown":[1e400]`), flyapi.StateStarted, false)
	outcome, err := l.engine.Update(t.Context(), target(m, "update"), []merge.Change{
		change("/env/MINE", `"1"`, `"2"`),
		change("/env/OLD", `"gone already"`, ``),
		change("/stop_config", ``, `{"signal":"SIGTERM","timeout":"30s"}`),
	})
	wants(t, outcome, err, swap.Swapped, "")
	after := l.get("update", m.ID)
	want := strings.Replace(strings.TrimSuffix(string(m.Config()), "}"), `"MINE":"1"`, `"MINE":"2"`, 1) + `,"stop_config":{"signal":"SIGTERM","timeout":"30s"}}`
	if string(after.Config()) != want {
		t.Errorf("got  %s\nwant %s", after.Config(), want)
	}
	if after.ImageRef.Digest != oldDigest || after.InstanceID == m.InstanceID || outcome.Gate != swap.GateProbe || outcome.To != "" {
		t.Errorf("outcome %+v", outcome)
	}
}

func TestUpdateStopsAtWhatSomebodyElseChanged(t *testing.T) {
	l := newLab(t)
	m := l.machine("conflict", plain(`,"env":{"K":"theirsecret"}`), flyapi.StateStopped, false)
	changes := []merge.Change{change("/env/K", `"basesecret"`, `"oursecret"`)}
	outcome, err := l.engine.Update(t.Context(), target(m, "conflict"), changes)
	wants(t, outcome, err, swap.Skipped, swap.CodeConflict)
	var conflict *swap.ConflictError
	if !errors.As(err, &conflict) || conflict.Conflicts[0].Path != "/env/K" || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	if len(l.tape.updates(m.ID)) > 0 {
		t.Error("written all the same")
	}
	tg := target(m, "conflict")
	tg.Overwrite = true
	outcome, err = l.engine.Update(t.Context(), tg, changes)
	wants(t, outcome, err, swap.Swapped, "")
	if after := l.get("conflict", m.ID); !strings.Contains(string(after.Config()), `"oursecret"`) || after.State != flyapi.StateStopped {
		t.Errorf("after: %s %s", after.State, after.Config())
	}
}

// Metadata goes straight through: no new version, no restart, nobody asked to stop working.
func TestMetadataAloneRestartsNothing(t *testing.T) {
	l := newLab(t)
	m := l.machine("meta", plain(`,"metadata":{"mine":"1","old":"x","foreign":"keep"}`), flyapi.StateStarted, false)
	outcome, err := l.engine.Update(t.Context(), target(m, "meta"), []merge.Change{
		change("/metadata/mine", `"1"`, `"2"`), change("/metadata/old", `"x"`, ``), change("/metadata/a~1b", ``, `"new"`),
	})
	wants(t, outcome, err, swap.Swapped, "")
	after := l.get("meta", m.ID)
	if after.InstanceID != m.InstanceID || len(l.tape.updates(m.ID)) > 0 || len(l.tape.execs("")) > 0 {
		t.Errorf("a new version was made: %+v", outcome)
	}
	meta := after.Metadata()
	if meta["mine"] != "2" || meta["a/b"] != "new" || meta["foreign"] != "keep" || len(meta) != 3 {
		t.Errorf("metadata %v", meta)
	}
}

func TestUpdateOfWhatStandsAlreadyWritesNothing(t *testing.T) {
	l := newLab(t)
	m := l.machine("noop", plain(`,"env":{"A":"1"},"metadata":{"k":"v"}`), flyapi.StateStarted, false)
	for _, changes := range [][]merge.Change{
		{change("/env/A", `"0"`, `"1"`)},
		{change("/metadata/k", ``, `"v"`)},
		{change("/image", `"whatever"`, `"registry.fly.io/tenant:latest@`+oldDigest+`"`)},
	} {
		outcome, err := l.engine.Update(t.Context(), target(m, "noop"), changes)
		wants(t, outcome, err, swap.Unchanged, "")
	}
	if n := len(l.tape.find(func(c taped) bool { return c.method != "GET" })); n > 0 {
		t.Errorf("%d calls that are no GET", n)
	}
}

// An image among the changes is a swap: owner, digest and breaker count.
func TestUpdateWithAnImageIsASwapBesideTheRest(t *testing.T) {
	l := newLab(t)
	m := l.machine("both", plain(`,"env":{"A":"1"},"metadata":{"flyfleet_image_owner":"rollout"}`), flyapi.StateStarted, false)
	tg := target(m, "both")
	tg.As = swap.OwnerTerraform
	image := change("/image", `"`+oldImage+`"`, `"`+newImage+`"`)
	outcome, err := l.engine.Update(t.Context(), tg, []merge.Change{image, change("/env/A", `"1"`, `"2"`)})
	wants(t, outcome, err, swap.Skipped, swap.CodeOwned)

	take := change("/metadata/flyfleet_image_owner", `"rollout"`, `"terraform"`) // the same change takes it over
	l.Faults.FailPull(newDigest, "")
	outcome, err = l.engine.Update(t.Context(), tg, []merge.Change{image, take})
	wants(t, outcome, err, swap.Failed, swap.CodeReverted)
	l.Faults.Clear()
	outcome, err = l.engine.Update(t.Context(), tg, []merge.Change{image, take, change("/env/A", `"1"`, `"2"`)})
	wants(t, outcome, err, swap.Swapped, "")
	after := l.get("both", m.ID)
	if after.ImageRef.Digest != newDigest || after.Metadata()["flyfleet_image_owner"] != "terraform" || outcome.To != newImage {
		t.Errorf("after %s, outcome %+v", after.Config(), outcome)
	}
}

func TestUpdateWithABadPathIsRefusedWithoutACall(t *testing.T) {
	l := newLab(t)
	m := l.machine("bad", plain(""), flyapi.StateStopped, false)
	for _, c := range []merge.Change{change("env", ``, `1`), change("/a", ``, `{`)} {
		outcome, err := l.engine.Update(t.Context(), target(m, "bad"), []merge.Change{c})
		wants(t, outcome, err, swap.Failed, swap.CodeInvalid)
	}
	if n := len(l.tape.find(func(taped) bool { return true })); n > 0 {
		t.Errorf("%d calls", n)
	}
}
