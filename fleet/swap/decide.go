package swap

import (
	"encoding/json"
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// writable says whether a machine may be written at all, from what Fly says about it now.
func writable(m *flyapi.Machine, t Target) *stop {
	meta := m.Metadata()
	switch {
	case m.Gone():
		return skip(CodeGone, "the machine is %s", m.State)
	case !m.Reachable():
		// Old config, no way to apply a new one: converge later (flyctl PR#3732, PR#3034, PR#3840).
		return skip(CodeUnreachable, "its host is %s, not ok; try again when Fly has it back", orNone(m.HostStatus))
	case m.IncompleteConfig || len(m.Config()) == 0:
		return skip(CodeIncomplete, "Fly cannot read its whole config now; writing it back would lose the rest")
	case t.Fleet != "" && meta[MetadataFleet] != t.Fleet:
		return skip(CodeForeign, "it belongs to fleet %s, not to %s", orNone(meta[MetadataFleet]), t.Fleet)
	}
	return nil
}

// owned says whether an owner other than t's keeps the image from being changed. warning is for a forced change.
func owned(m *flyapi.Machine, t Target) (warning string, s *stop) {
	owner := Owner(m.Metadata()[MetadataOwner])
	if owner == "" || owner == t.As {
		return "", nil
	}
	undo := map[Owner]string{
		OwnerTerraform: "Terraform owns its image and would plan to undo this; change `image` in the configuration instead",
		OwnerRollout:   "a rollout owns its image and would be undone by this; change it with `flyfleet redeploy-fleet`, or set image_owner back to terraform",
	}[owner]
	if undo == "" {
		undo = fmt.Sprintf("%q owns its image", string(owner))
	}
	if t.Force {
		return undo + "; done because it was forced", nil
	}
	return "", skip(CodeOwned, "%s", undo+", or force it")
}

// hasImage reports that the machine runs the image already: by digest where the target has one, however either is spelled.
func hasImage(m *flyapi.Machine, image string) bool {
	want := flyapi.DigestOf(image)
	if want == "" {
		return m.Image() == image
	}
	running, asked := m.ImageRef.Digest, flyapi.DigestOf(m.Image())
	return (running == want || (running == "" && asked == want)) && (asked == "" || asked == want)
}

// moved reports a conflict on the image itself: something else runs than the caller believed, and not what is wanted.
func moved(m *flyapi.Machine, t Target) *stop {
	if t.From == "" || t.Overwrite || t.From == m.Image() {
		return nil
	}
	was := flyapi.DigestOf(t.From)
	if was == "" && len(t.From) > 7 && t.From[:7] == "sha256:" {
		was = t.From
	}
	if was != "" && (was == m.ImageRef.Digest || was == flyapi.DigestOf(m.Image())) {
		return nil
	}
	return skip(CodeConflict, "its image was changed by somebody else meanwhile, from %s to %s; plan again, or overwrite", t.From, running(m))
}

// request is the update that keeps everything but the config: a machine that is not started is not started by it, a
// cordoned one stays out of routing. Region, name, events, checks and nonce are never sent.
func request(m *flyapi.Machine, config json.RawMessage, lease flyapi.Lease) flyapi.UpdateRequest {
	return flyapi.UpdateRequest{
		Config:                  config,
		CurrentVersion:          m.InstanceID,
		SkipLaunch:              m.State != flyapi.StateStarted,
		SkipServiceRegistration: m.Cordoned,
		Lease:                   lease,
	}
}

// stateAfter is the state that a machine should rest in after the update, by its state before it. A suspended machine's
// memory cannot outlive its image, so it ends stopped; nothing cold is started.
func stateAfter(before string) string {
	if before == flyapi.StateStarted {
		return flyapi.StateStarted
	}
	return flyapi.StateStopped
}

// rests reports that a machine came to the state that it should. A cold one may also read `created` until its host has
// prepared it.
func rests(before, now string) bool {
	want := stateAfter(before)
	return now == want || (want == flyapi.StateStopped && (now == flyapi.StateCreated || now == before))
}

// took judges whether the new version is there: the instance of the update's answer and the image that was asked for. Fly
// reverts a failed pull in silence, and the old version's checks pass (flyctl PR#4878, PR#4921).
func took(before, after *flyapi.Machine, instance, digest string) *stop {
	if after.InstanceID == before.InstanceID || (instance != "" && after.InstanceID != instance) {
		return fail(CodeReverted, "Fly went back to version %s (image %s): the new image could probably not be pulled or started%s",
			after.InstanceID, running(after), lastEvent(after))
	}
	if digest != "" && after.ImageRef.Digest != "" && after.ImageRef.Digest != digest {
		return fail(CodeReverted, "it runs image %s instead of %s: Fly went back to it, probably because the new one could not be pulled%s",
			running(after), digest, lastEvent(after))
	}
	if digest != "" && after.ImageRef.Digest == "" && flyapi.DigestOf(after.Image()) != digest {
		return fail(CodeReverted, "its config names image %s instead of %s", running(after), digest)
	}
	return nil
}

// running is the image that runs, as a reference.
func running(m *flyapi.Machine) string {
	if m.ImageRef.Repository != "" {
		return m.ImageRef.String()
	}
	return orNone(m.Image())
}

// lastEvent tells why a machine went down, where its history says so.
func lastEvent(m *flyapi.Machine) string {
	for _, e := range m.Events {
		switch {
		case e.Type == "exit" && e.OOMKilled:
			return "; its last exit: out of memory"
		case e.Type == "exit" && !e.RequestedStop:
			return fmt.Sprintf("; its last exit: code %d", e.ExitCode)
		}
	}
	return ""
}

// passing reports whether all of Fly's checks pass, and which do not. declared is how many the config asks for: a new
// version lists none until its first result.
func passing(m *flyapi.Machine, declared int) (ok bool, waiting string) {
	if len(m.Checks) < declared {
		return false, fmt.Sprintf("%d of %d checks have reported", len(m.Checks), declared)
	}
	for _, c := range m.Checks {
		if c.Status != "passing" {
			return false, fmt.Sprintf("check %s is %s", c.Name, orNone(c.Status))
		}
	}
	return true, ""
}

// declaredChecks counts the checks that a config asks for.
func declaredChecks(config json.RawMessage) int {
	var c struct {
		Checks   map[string]json.RawMessage `json:"checks"`
		Services []struct {
			Checks []json.RawMessage `json:"checks"`
		} `json:"services"`
	}
	if json.Unmarshal(config, &c) != nil {
		return 0
	}
	n := len(c.Checks)
	for _, s := range c.Services {
		n += len(s.Checks)
	}
	return n
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
