//go:build linux

package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A full disk must not keep an end, a fence or a tombstone from being written. Blocks are set aside for
// that in a file of their own: when a record does not fit, the file gives some up, and the record is
// tried again. The janitor fills it up when there is room.
const (
	reserveBytes = 1 << 20
	reserveStep  = 64 << 10
)

// Room is the state of the spool's volume, in bytes.
type Room struct {
	Total, Free uint64
	// Floor is what output leaves free: below it, bytes are counted and dropped, and new execs are
	// kept off this disk.
	Floor uint64
	// Quota is what all execs together may take.
	Quota uint64
}

// Below says whether the disk is at its floor.
func (r Room) Below() bool { return r.Free < r.Floor }

const (
	mostFloor  = 16 << 20
	leastQuota = 64 << 20
	mostQuota  = 4 << 30
)

// Room looks at the volume.
func (s *Spool) Room() (Room, error) { return roomOf(s.root) }

// RoomFor looks at the disk that an exec is on.
func (s *Spool) RoomFor(id string) (Room, error) { return roomOf(s.Dir(id)) }

func roomOf(dir string) (Room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Room{}, fmt.Errorf("free space of the spool: %w", err)
	}
	total := st.Blocks * uint64(st.Bsize)
	return Room{
		Total: total, Free: st.Bavail * uint64(st.Bsize),
		Floor: min(mostFloor, total/16), Quota: min(max(total/20, min(leastQuota, total/4)), mostQuota),
	}, nil
}

// Reserve sets blocks aside, as far as that leaves the floor alone.
func (s *Spool) Reserve() error {
	room, err := s.Room()
	if err != nil {
		return err
	}
	want := int64(min(reserveBytes, room.Total/64))
	f, err := os.OpenFile(s.reserve(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("set room aside: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() >= want || room.Below() {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, want); err != nil && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("set room aside: %w", err)
	}
	return nil
}

func (s *Spool) reserve() string { return filepath.Join(s.root, "reserve") }

// withRoom writes a record, and makes room for it from the reserve when there is none.
func (s *Spool) withRoom(write func() error) error {
	for {
		err := write()
		if !errors.Is(err, unix.ENOSPC) || !s.yield() {
			return err
		}
	}
}

// yield gives a part of the reserve up; false when there is none left.
func (s *Spool) yield() bool {
	info, err := os.Stat(s.reserve())
	if err != nil || info.Size() == 0 {
		return false
	}
	return os.Truncate(s.reserve(), max(0, info.Size()-reserveStep)) == nil
}
