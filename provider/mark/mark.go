// Package mark is how the provider recognises its own machines: by metadata, which Fly stores without restarting
// anything. Volumes, addresses and apps have none; the machines beside them speak for them.
package mark

import (
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

const (
	// OwnerKey says who swaps the machine's image. Each machine that flyfleet made has it.
	OwnerKey = "flyfleet_image_owner"
	// CreateKey is Open from a machine's creation until Terraform has been told of it, then Done. Only an open machine
	// can be what an interrupted create left behind; a done one is somebody's already, and a create that took it would
	// put one machine under two resources.
	CreateKey = "flyfleet_create"
)

// The values of OwnerKey.
const (
	Terraform = "terraform"
	Rollout   = "rollout"
)

// The values of CreateKey.
const (
	Open = "open"
	Done = "done"
)

// Ours reports that flyfleet made the machine.
func Ours(m *flyapi.Machine) bool { return m.Metadata()[OwnerKey] != "" }

// Interrupted reports that a create of flyfleet's made the machine and did not live to tell.
func Interrupted(m *flyapi.Machine) bool { return m.Metadata()[CreateKey] == Open }

// Finished says why a machine with these metadata is not what an interrupted create left behind; "" when it is.
func Finished(metadata map[string]string) string {
	switch metadata[CreateKey] {
	case Open:
		return ""
	case Done:
		return "its create was finished, so it is another resource's, or was one's whose state is lost"
	}
	return fmt.Sprintf("its metadata has no %s, so flyfleet did not make it", CreateKey)
}
