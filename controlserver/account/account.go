//go:build linux

// Package account decides as whom execs run: an unprivileged user where the process may switch to it,
// the process's own user otherwise.
package account

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
)

// The exec user of every machine.
const (
	TenantName = "tenant"
	TenantUID  = 10000
	TenantGID  = 10000
)

// Account is a user that an exec can run as.
type Account struct {
	Name string
	Home string
	// Switch is what a child must become; nil: it stays what the server is.
	Switch *keeper.User
}

// Accounts are the users of this machine, as far as this process may become them.
type Accounts struct {
	own    Account
	tenant *Account
}

// Detect looks at the process: real root, or root of a user namespace in which the tenant's ids are
// mapped, runs execs as the tenant, unless the tenant could not enter the workspace: below a directory closed to
// others (a machine without a root of its own, run by root) every exec would fail. workspace becomes the tenant's home,
// and that of the own user.
func Detect(workspace string) (*Accounts, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("find out who may be switched to: %w", err)
	}
	a := &Accounts{own: Account{Name: ownName(), Home: workspace}}
	if canSwitch(string(status)) && mapped("/proc/self/uid_map", TenantUID) && mapped("/proc/self/gid_map", TenantGID) && setgroupsAllowed() &&
		enterable(workspace, TenantUID, TenantGID) {
		a.tenant = &Account{Name: TenantName, Home: workspace, Switch: &keeper.User{UID: TenantUID, GID: TenantGID}}
	}
	return a, nil
}

// Separate says whether execs by default run as another user than the server.
func (a *Accounts) Separate() bool { return a.tenant != nil }

// Default is the user of execs that name none.
func (a *Accounts) Default() Account {
	if a.tenant != nil {
		return *a.tenant
	}
	return a.own
}

// enterable says whether a user may enter a directory, by the modes of it and of all above it. One that is not there yet
// is judged by those that are; access lists are not looked at.
func enterable(dir string, uid, gid uint32) bool {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	for ; ; dir = filepath.Dir(dir) {
		var st syscall.Stat_t
		if err := syscall.Stat(dir, &st); err == nil {
			may := st.Mode & 0o001
			if st.Uid == uid {
				may = st.Mode & 0o100
			} else if st.Gid == gid {
				may = st.Mode & 0o010
			}
			if may == 0 {
				return false
			}
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// Find gives the account of a name: the exec user, the server's own user, or another of /etc/passwd
// where this process may switch. The error is for the exec's record.
func (a *Accounts) Find(name string) (Account, error) {
	switch {
	case name == "" || name == TenantName:
		return a.Default(), nil
	case name == a.own.Name:
		own := a.own
		if name == "root" {
			own.Home = "/root"
		}
		return own, nil
	case a.tenant == nil:
		return Account{}, fmt.Errorf("this control server cannot switch users")
	}
	u, err := user.Lookup(name)
	if err != nil {
		return Account{}, fmt.Errorf("the user does not exist on this machine")
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		return Account{}, fmt.Errorf("the user's ids are not numbers")
	}
	return Account{Name: name, Home: u.HomeDir, Switch: &keeper.User{UID: uint32(uid), GID: uint32(gid)}}, nil
}

func ownName() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Geteuid())
}

// Capability bits of CapEff, from linux/capability.h.
const (
	capSetgid = 6
	capSetuid = 7
)

func canSwitch(status string) bool {
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && bits>>capSetgid&1 == 1 && bits>>capSetuid&1 == 1
		}
	}
	return false
}

// mapped says whether an id exists in the process's user namespace. Lines are "inside outside count".
func mapped(path string, id uint64) bool {
	f, err := os.Open(path)
	if err != nil {
		// A kernel without user namespaces has every id.
		return os.IsNotExist(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[0], 10, 64)
		count, err2 := strconv.ParseUint(fields[2], 10, 64)
		if err1 == nil && err2 == nil && id >= first && id-first < count {
			return true
		}
	}
	return false
}

func setgroupsAllowed() bool {
	b, err := os.ReadFile("/proc/self/setgroups")
	return err != nil || strings.TrimSpace(string(b)) == "allow"
}
