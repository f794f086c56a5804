package swap

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// The metadata keys that a swap reads.
const (
	MetadataFleet = "flyfleet_fleet"
	MetadataOwner = "flyfleet_image_owner"
	// MetadataWire is the highest wire version of the machine's image: who carries it has a control server.
	MetadataWire = "flyfleet_wire"
)

// SecretsNote is what every swap does beside its purpose, for whoever shows a plan or a report: any update makes a
// machine take the app's current secrets (superfly/docs#895).
const SecretsNote = "an image swap also activates secrets that were staged since the machine's last update"

// Owner says whose word decides a machine's image, as metadata flyfleet_image_owner.
type Owner string

// The owners. A swap that names none acts as OwnerRollout.
const (
	OwnerTerraform Owner = "terraform"
	OwnerRollout   Owner = "rollout"
)

// Busy says what to do with a machine whose commands still run.
type Busy string

// The ways. BusyWait is the default.
const (
	// BusyWait asks again until nothing runs, then swaps; at the drain timeout the machine is skipped.
	BusyWait Busy = "wait"
	// BusyInterrupt swaps at once; the control server ends the commands in order and keeps their output.
	BusyInterrupt Busy = "interrupt"
)

// Cold says what to do with a machine that is not started.
type Cold string

// The ways. ColdKeep is the default.
const (
	// ColdKeep leaves it as it is: the new image is judged by instance and digest alone.
	ColdKeep Cold = "keep"
	// ColdVerify starts it, asks the gates, and stops it again.
	ColdVerify Cold = "verify"
)

// Target is one machine and what is wanted of it.
type Target struct {
	App, Machine string
	// Image is the reference to run, by digest: registry/repository[:tag]@sha256:…. A tag alone is taken, with a warning,
	// since what a tag means can change between machines (flyctl PR#5010).
	Image string
	// Fleet is the fleet that the machine must belong to (metadata flyfleet_fleet); "" does not ask.
	Fleet string
	// As says on whose behalf this is; see Owner.
	As Owner
	// Force swaps what another owns.
	Force bool
	// From is what the caller believes runs now, reference or digest; when something else does, that is a conflict. ""
	// does not ask.
	From string
	// Overwrite makes conflicts no reason to stop.
	Overwrite bool
	Busy      Busy
	OnCold    Cold
	// DrainTimeout is how long BusyWait waits; 0 means 10 minutes.
	DrainTimeout time.Duration
	// SettleTimeout is how long the new version may take to come to rest; 0 means 5 minutes.
	SettleTimeout time.Duration
	// GateTimeout is how long the gates may take to say yes; 0 means 2 minutes.
	GateTimeout time.Duration
}

func (t Target) withDefaults() Target {
	if t.As == "" {
		t.As = OwnerRollout
	}
	if t.Busy == "" {
		t.Busy = BusyWait
	}
	if t.OnCold == "" {
		t.OnCold = ColdKeep
	}
	t.DrainTimeout = orDuration(t.DrainTimeout, 10*time.Minute)
	t.SettleTimeout = orDuration(t.SettleTimeout, 5*time.Minute)
	t.GateTimeout = orDuration(t.GateTimeout, 2*time.Minute)
	return t
}

func (t Target) check() error {
	if t.App == "" || t.Machine == "" {
		return errors.New("a swap needs an app and a machine id")
	}
	if t.Busy != BusyWait && t.Busy != BusyInterrupt {
		return fmt.Errorf("busy is %q; want %q or %q", t.Busy, BusyWait, BusyInterrupt)
	}
	if t.OnCold != ColdKeep && t.OnCold != ColdVerify {
		return fmt.Errorf("on_cold_update is %q; want %q or %q", t.OnCold, ColdKeep, ColdVerify)
	}
	if d := flyapi.DigestOf(t.Image); d != "" && (!strings.HasPrefix(d, "sha256:") || len(d) != len("sha256:")+64) {
		return fmt.Errorf("image %q has a digest that is not sha256: and 64 hex digits", t.Image)
	}
	return nil
}

func orDuration(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}
