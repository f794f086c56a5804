package namespace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
)

// Level says how much isolation there is.
type Level string

// The levels, best first.
const (
	Mapped   Level = "mapped"
	SingleID Level = "single-id"
)

const (
	// wantIDs is how many ids an image may use: 0 to 65535.
	wantIDs = 65536
	// preferredBase is where real root maps them: a range that neither people, nor /etc/subuid, nor systemd-nspawn
	// (up to 0x6fffffff) give out.
	preferredBase = 0x70000000
	// fewestIDs leaves room for an exec user of 10000; below it nothing is worth mapping.
	fewestIDs = 16384
)

// mapping is how a machine's ids become the host's.
type mapping struct {
	level Level
	// byRoot: this process is root, writes the map itself, and hands sources over as detached mounts. Machine id 0
	// is the host's base.
	byRoot bool
	base   int
	count  int
	// sub are the ranges that newuidmap and newgidmap give an ordinary user; machine id 0 is the user itself.
	subUID, subGID idRange
}

type idRange struct{ start, count int }

// owners says whether ids other than the machine's root exist.
func (m mapping) owners() bool { return m.level == Mapped }

// mappings lists what this process may try, best first.
func mappings() ([]mapping, error) {
	if os.Geteuid() == 0 {
		m, err := rootMapping()
		if err != nil {
			return nil, err
		}
		return []mapping{m}, nil
	}
	single := mapping{level: SingleID, count: 1}
	m, err := subMapping()
	if err != nil {
		return []mapping{single}, nil //nolint:nilerr // an ordinary user without ranges is no failure
	}
	return []mapping{m, single}, nil
}

// rootMapping takes the preferred range, or in a container that has fewer ids the highest ones.
func rootMapping() (mapping, error) {
	uids, uerr := highest("/proc/self/uid_map")
	gids, gerr := highest("/proc/self/gid_map")
	if err := errors.Join(uerr, gerr); err != nil {
		return mapping{}, fmt.Errorf("find unprivileged ids: %w", err)
	}
	return rangeWithin(uids, gids)
}

// rangeWithin chooses from the ids that exist here.
func rangeWithin(uids, gids idRange) (mapping, error) {
	end := min(uids.start+uids.count, gids.start+gids.count)
	base := max(1, uids.start, gids.start, min(preferredBase, end-wantIDs))
	m := mapping{level: Mapped, byRoot: true, base: base, count: min(wantIDs, end-base)}
	if m.count < fewestIDs {
		return mapping{}, fmt.Errorf("this root has only %d ids to give; the namespace runner needs %d", m.count, fewestIDs)
	}
	return m, nil
}

// highest reads the range with the highest ids that exist in this user namespace.
func highest(path string) (idRange, error) {
	f, err := os.Open(path)
	if err != nil {
		return idRange{}, err
	}
	defer f.Close()
	best, err := highestOf(f)
	if err != nil {
		return idRange{}, fmt.Errorf("%s: %w", path, err)
	}
	return best, nil
}

func highestOf(idMap io.Reader) (best idRange, err error) {
	lines := bufio.NewScanner(idMap)
	for lines.Scan() {
		var r idRange
		var outside int
		if _, err := fmt.Sscan(lines.Text(), &r.start, &outside, &r.count); err != nil {
			return idRange{}, err
		}
		if r.start >= best.start {
			best = r
		}
	}
	return best, lines.Err()
}

// subMapping finds the ordinary user's ranges.
func subMapping() (mapping, error) {
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(tool); err != nil {
			return mapping{}, err
		}
	}
	uids, uerr := subRange("/etc/subuid", os.Getuid())
	gids, gerr := subRange("/etc/subgid", os.Getuid())
	if err := errors.Join(uerr, gerr); err != nil {
		return mapping{}, err
	}
	return mapping{level: Mapped, count: 1 + min(uids.count, gids.count), subUID: uids, subGID: gids}, nil
}

// subRange reads the user's first range that is big enough; subuid(5): name or number, start, count.
func subRange(path string, uid int) (idRange, error) {
	f, err := os.Open(path)
	if err != nil {
		return idRange{}, err
	}
	defer f.Close()
	names := []string{strconv.Itoa(uid)}
	if u, err := user.LookupId(names[0]); err == nil {
		names = append(names, u.Username)
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		parts := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(parts) != 3 || (parts[0] != names[0] && parts[0] != names[len(names)-1]) {
			continue
		}
		start, serr := strconv.Atoi(parts[1])
		count, cerr := strconv.Atoi(parts[2])
		if serr == nil && cerr == nil && count >= fewestIDs {
			return idRange{start, min(count, wantIDs-1)}, nil
		}
	}
	return idRange{}, errors.Join(fmt.Errorf("%s has no range for this user", path), lines.Err())
}
