//go:build linux

package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups makes a control group for every exec where the machine lets us: killing it is the one tree
// kill that nothing escapes. The zero value makes none.
type cgroups struct{ dir string }

// cgroup is one exec's.
type cgroup struct {
	path string
	fd   int
}

// groupPrefix begins the names of our groups; the exec's id follows.
const groupPrefix = "flyfleet-"

// findCgroups looks for the cgroup v2 hierarchy in mountinfo (it may be mounted anywhere, and beside v1)
// and tries a group below the one this process is in.
func findCgroups(epoch string) cgroups {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return cgroups{}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return cgroups{}
	}
	mount, at := cgroup2Mount(string(mounts)), cgroup2Path(string(own))
	if mount == "" || at == "" {
		return cgroups{}
	}
	c := cgroups{dir: filepath.Join(mount, at)}
	trial := filepath.Join(c.dir, groupPrefix+epoch)
	if err := os.Mkdir(trial, 0o755); err != nil {
		return cgroups{}
	}
	_, err = os.Stat(filepath.Join(trial, "cgroup.kill"))
	if removeErr := os.Remove(trial); err != nil || removeErr != nil {
		// A kernel before 5.14.
		return cgroups{}
	}
	return c
}

// clear ends what an earlier keeper of the same spool left in its groups, and removes them: those execs
// are lost, and a lost one must not run on.
func (c cgroups) clear(ours func(id string) bool) {
	if c.dir == "" {
		return
	}
	groups, _ := filepath.Glob(filepath.Join(c.dir, groupPrefix+"*"))
	for _, path := range groups {
		id := strings.TrimPrefix(filepath.Base(path), groupPrefix)
		if !ours(id) {
			continue
		}
		g := &cgroup{path: path, fd: -1}
		if g.kill() == nil {
			g.empty()
		}
	}
}

// cgroup2Mount is the first mount of type cgroup2 whose root is the hierarchy's own.
func cgroup2Mount(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if ok && strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 && fields[3] == "/" {
			return fields[4]
		}
	}
	return ""
}

// cgroup2Path is this process's path in the v2 hierarchy, the line "0::<path>".
func cgroup2Path(own string) string {
	for line := range strings.Lines(own) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return ""
}

// make makes an exec's group; nil where there are none, or this one cannot be made.
func (c cgroups) make(id string) *cgroup {
	if c.dir == "" {
		return nil
	}
	path := filepath.Join(c.dir, groupPrefix+id)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = os.Remove(path)
		return nil
	}
	return &cgroup{path: path, fd: fd}
}

// kill ends every process of the group.
func (g *cgroup) kill() error {
	return os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0o200)
}

// pids are the group's processes.
func (g *cgroup) pids() ([]byte, error) { return os.ReadFile(filepath.Join(g.path, "cgroup.procs")) }

// gone removes the group; false while orphans are in it.
func (g *cgroup) gone() bool {
	if g.fd >= 0 {
		_ = unix.Close(g.fd)
		g.fd = -1
	}
	return !errors.Is(os.Remove(g.path), unix.EBUSY)
}

// empty waits for killed processes to leave the group, and removes it.
func (g *cgroup) empty() {
	for range 100 {
		if g.gone() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
