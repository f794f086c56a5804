package stage

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
)

// Run is the stage's main. It takes one request from the control line and returns the exit code, or does not return
// because it has become bubblewrap.
func Run() int {
	if err := keepDescriptorsIn(); err != nil {
		return 1
	}
	line, err := control.FromFile(os.NewFile(ControlFD, "control"))
	if err != nil {
		return 1
	}
	talk, err := line.Accept()
	if err != nil {
		return 1
	}
	var req Request
	files, err := talk.Receive(&req)
	if err != nil {
		return 1
	}
	s := stage{files: files}
	reply, next := s.do(req)
	if err := talk.Send(reply); err != nil || reply.Error != "" {
		return 1
	}
	if next == nil {
		return 0
	}
	talk.Close()
	// What went wrong from here on is on stderr, which the platform keeps for its error.
	fmt.Fprintln(os.Stderr, next())
	return 1
}

// keepDescriptorsIn ends every other descriptor here: the executable's own, and whatever the platform's process was
// started with. None may reach a machine.
func keepDescriptorsIn() error {
	err := unix.CloseRange(ControlFD+1, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11.
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > ControlFD {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

type stage struct {
	// files came beside the request; pinned sources are appended.
	files []*os.File
	// bench is the directory of the workbench.
	bench string
}

// do serves the request. next, when there is one, replaces the process and returns only its failure to do so.
func (s *stage) do(req Request) (reply Reply, next func() error) {
	err := s.enter(req.sources())
	if err == nil {
		switch {
		case req.Op == OpUnpack && req.Unpack != nil:
			reply.Unpacked, err = s.unpack(*req.Unpack)
		case req.Op == OpEmpty && req.Empty != nil:
			err = s.empty(*req.Empty)
		case req.Op == OpBoot && req.Boot != nil:
			reply.Copied, next, err = s.boot(*req.Boot)
		default:
			err = fmt.Errorf("unknown operation %q", req.Op)
		}
	}
	if err != nil {
		reply.Error = err.Error()
	}
	return reply, next
}

// enter makes sure that the namespaces are what the stage relies on, and takes possession of them.
func (s *stage) enter(sources []*Source) error {
	if err := refuseRealRoot(); err != nil {
		return err
	}
	// With the ids mapped by newuidmap the process is still whoever it was; its capabilities let it become root.
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return fmt.Errorf("become the namespace's root group: %w", err)
	}
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return fmt.Errorf("become the namespace's root: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep mounts to this namespace: %w", err)
	}
	// Real modes: what is unpacked and made here must not depend on the caller's umask.
	syscall.Umask(0o022)
	if err := s.pin(sources...); err != nil {
		return err
	}
	return s.workbench()
}

// refuseRealRoot fails unless this process is in a user namespace whose root is not root outside.
func refuseRealRoot() error {
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return fmt.Errorf("read the namespace's ids: %w", err)
	}
	f := strings.Fields(string(b))
	if len(f) < 3 || f[0] != "0" || f[1] == "0" {
		return fmt.Errorf("machines are never started as real root; the namespace's ids are %q", strings.Join(f, " "))
	}
	return nil
}

func (s *stage) unpack(u Unpack) (rootfs.Report, error) {
	dir, err := s.attach(u.Into, "into")
	if err != nil {
		return rootfs.Report{}, err
	}
	layers, err := s.file(u.Layers)
	if err != nil {
		return rootfs.Report{}, fmt.Errorf("layers: %w", err)
	}
	return rootfs.Unpack(dir, layers, u.Options)
}

func (s *stage) empty(src Source) error {
	dir, err := s.attach(src, "empty")
	if err != nil {
		return err
	}
	return rootfs.Empty(dir)
}
