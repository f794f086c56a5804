package slots

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// The metadata of machines that say whose they are.
const (
	metadataFleet     = "flyfleet_fleet"
	metadataTenant    = "flyfleet_tenant"
	metadataPool      = "flyfleet_pool"
	metadataPoolState = "flyfleet_pool_state"
	poolRetired       = "retired"
)

// owner is what metadata say of a machine.
type owner int

const (
	// elsewhere: another fleet, or neither tenant nor pool.
	elsewhere owner = iota
	// ours: the tenant's.
	ours
	// others: another tenant's.
	others
	// waiting: in the pool, and nobody's.
	waiting
	// withdrawn: retired by a claim that failed.
	withdrawn
)

// ownerOf reads metadata as tenant of a fleet sees them; pool is where a waiting machine must be.
func ownerOf(m map[string]string, fleet, tenant, pool string) owner {
	switch {
	case m[metadataFleet] != fleet:
		return elsewhere
	case m[metadataPoolState] == poolRetired:
		return withdrawn
	case tenant != "" && m[metadataTenant] == tenant:
		return ours
	case m[metadataTenant] != "":
		return others
	case pool != "" && m[metadataPool] == pool:
		return waiting
	}
	return elsewhere
}

// find gives the list's row of a machine.
func find(list flyapi.MachineList, id string) (flyapi.MachineRow, bool) {
	i := slices.IndexFunc(list.Rows, func(r flyapi.MachineRow) bool { return r.ID == id })
	if i < 0 {
		return flyapi.MachineRow{}, false
	}
	return list.Rows[i], true
}

// owned gives the rows of machines that are there and that a tenant owns, or could get from the pool.
func owned(list flyapi.MachineList, fleet, tenant, pool string, want owner) []flyapi.MachineRow {
	var out []flyapi.MachineRow
	for _, r := range list.Rows {
		if !r.Gone() && ownerOf(r.Metadata, fleet, tenant, pool) == want {
			out = append(out, r)
		}
	}
	return out
}

// addressOf is where a machine is reached: by flycast, which wakes it, where it is the app's only one.
func addressOf(list flyapi.MachineList, r flyapi.MachineRow) string {
	port := strconv.Itoa(wire.ControlPort)
	for _, other := range list.Rows {
		if other.App == r.App && other.ID != r.ID && !other.Gone() {
			return net.JoinHostPort(r.ID+".vm."+r.App+".internal", port)
		}
	}
	return net.JoinHostPort(r.App+".flycast", port)
}

// wakes says whether connecting to the address starts a cold machine.
func wakes(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && strings.HasSuffix(host, ".flycast")
}

// known is a row as the database keeps it. before is what it has of the machine, zero when nothing.
func known(list flyapi.MachineList, r flyapi.MachineRow, before store.Machine) store.Machine {
	m := store.Machine{ID: r.ID, App: r.App, Tenant: r.Metadata[metadataTenant], Address: addressOf(list, r), Epoch: before.Epoch, Image: r.Digest}
	if m.Tenant == "" {
		m.Pool = r.Metadata[metadataPool]
	}
	return m
}
