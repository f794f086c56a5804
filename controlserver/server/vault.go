//go:build linux

package server

import (
	"sync/atomic"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// vault counts what all execs take on the disk.
type vault struct {
	spool *spool.Spool
	used  atomic.Int64
}

func (v *vault) stored(delta int64) { v.used.Add(delta) }

// room says why an exec's output may not be stored now, UNSPECIFIED when it may.
func (v *vault) room(id string) wirev1.GapReason {
	room, err := v.spool.RoomFor(id)
	switch {
	case err != nil || room.Below():
		return wirev1.GapReason_GAP_REASON_DISK_FULL
	case v.used.Load() > int64(room.Quota) && !v.spool.IsAside(id):
		return wirev1.GapReason_GAP_REASON_QUOTA
	}
	return wirev1.GapReason_GAP_REASON_UNSPECIFIED
}
