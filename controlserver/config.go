//go:build linux

// Package controlserver is the daemon inside a tenant machine: it makes the machine's directories, and
// runs the wire's server, the keeper of processes and the local probe until it is told to stop.
package controlserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

// Config is what a control server is told from outside, by environment variables in an image.
type Config struct {
	// Trust is FLYFLEET_TRUST: the public root keys whose delegates may speak to this machine.
	Trust string
	// Listen is FLYFLEET_LISTEN: host:port; "[::]:8080" and ":8080" take both address families.
	Listen string
	// Data is FLYFLEET_DATA: where workspace and spool lie; empty finds it (see layout).
	Data string
	// Run is FLYFLEET_RUN: the directory of the probe's socket.
	Run string
	// App and Machine are FLY_APP_NAME and FLY_MACHINE_ID: the audience of every token.
	App, Machine string
	// Grace is how long running commands have between TERM and KILL when the machine stops.
	Grace time.Duration
	// BodyTime is how long a request's body may take to arrive; 0 means server.DefaultBodyTime.
	BodyTime time.Duration
}

// Defaults of a Config's empty fields.
const (
	DefaultListen = "[::]:8080"
	DefaultData   = "/data"
	DefaultRun    = "/run/flyfleet"
	DefaultGrace  = 15 * time.Second
	// stopBudget is the whole time of a stop. Fly gives 30 s between its SIGTERM and SIGKILL with the
	// stop_config of our machines.
	stopBudget = 25 * time.Second
)

// check fills defaults in and refuses what could only fail later.
func (c *Config) check() (token.Trust, error) {
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.Run == "" {
		c.Run = DefaultRun
	}
	if c.Grace <= 0 {
		c.Grace = DefaultGrace
	}
	if c.Grace > stopBudget-5*time.Second {
		return token.Trust{}, fmt.Errorf("grace %s is too long: the whole stop has %s", c.Grace, stopBudget)
	}
	if c.App == "" || c.Machine == "" || strings.ContainsRune(c.App+c.Machine, '/') {
		return token.Trust{}, errors.New("FLY_APP_NAME and FLY_MACHINE_ID must name this machine: no token could be for it otherwise")
	}
	trust, err := token.ParseTrust(c.Trust)
	if err != nil {
		return token.Trust{}, fmt.Errorf("FLYFLEET_TRUST: %w", err)
	}
	return trust, nil
}

// aside is where execs are kept that start while the volume is full.
func (c *Config) aside() string { return filepath.Join(c.Run, "spool") }

// listener opens the control port on both families where the host has both.
func listener(address string) (*net.TCPListener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("FLYFLEET_LISTEN: %w", err)
	}
	if host == "::" {
		// An empty host means the same and does not fail where the kernel has no IPv6.
		host = ""
	}
	at, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("FLYFLEET_LISTEN: %w", err)
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("open the control port: %w", err)
	}
	return l, nil
}

// layout is where things lie on this machine.
type layout struct {
	workspace string
	// shown is the path by which commands know the workspace: /workspace where that leads to it.
	shown   string
	spool   string
	durable bool
}

// paths that layout looks at, replaced in tests.
type paths struct {
	data, linked, rootSpool string
	mounted                 func(dir string) (bool, error)
}

func systemPaths() paths {
	return paths{data: DefaultData, linked: "/workspace", rootSpool: "/var/lib/flyfleet/spool", mounted: mounted}
}

// findLayout decides where workspace and spool are. A configured data directory, or a volume at /data,
// holds both. A volume mounted at /workspace instead (an adopted machine) is the workspace itself, and
// the spool goes to the root disk: inside it the tenant could replace the spool.
func findLayout(configured string, p paths) (layout, error) {
	data, durable := configured, true
	if data == "" {
		data = p.data
		onVolume, err := p.mounted(data)
		if err != nil {
			return layout{}, err
		}
		atWorkspace, err := p.mounted(p.linked)
		if err != nil {
			return layout{}, err
		}
		if !onVolume && atWorkspace {
			return layout{workspace: p.linked, shown: p.linked, spool: p.rootSpool}, nil
		}
		durable = onVolume
	}
	data, err := filepath.Abs(data)
	if err != nil {
		return layout{}, fmt.Errorf("FLYFLEET_DATA: %w", err)
	}
	l := layout{workspace: filepath.Join(data, "workspace"), spool: filepath.Join(data, "spool"), durable: durable}
	l.shown = shownPath(l.workspace, p.linked)
	return l, nil
}

// shownPath is the path by which commands know the workspace: the link, when it leads there.
func shownPath(workspace, linked string) string {
	target, err := filepath.EvalSymlinks(linked)
	if err != nil {
		return workspace
	}
	if own, err := filepath.EvalSymlinks(workspace); err != nil || own != target {
		return workspace
	}
	return linked
}

// mounted says whether a directory is a mount point, by /proc/self/mountinfo.
func mounted(dir string) (bool, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, fmt.Errorf("find the volume: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		// Field 5 is the mount point, with blanks and backslashes escaped as octal; ours have none.
		if f := strings.Fields(line); len(f) > 4 && f[4] == dir {
			return true, nil
		}
	}
	return false, nil
}
