//go:build crashpoints

package crashpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
)

// dirEnv names a directory. A file in it with a point's name arms that point for one death, and is gone
// after it.
const dirEnv = "FLYFLEET_CRASHPOINTS"

var victim atomic.Int64

// Victim says whom to kill in place of this process.
func Victim(pid int) { victim.Store(int64(pid)) }

// At kills the server when the point is armed. In the server it does not return then.
func At(p Point) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		return
	}
	pid := int(victim.Load())
	if pid == 0 {
		pid = os.Getpid()
	}
	// A dead server cannot die: the point stays armed for the next one.
	if !lives(pid) || os.Remove(filepath.Join(dir, string(p))) != nil {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	if pid == os.Getpid() {
		select {}
	}
}

func lives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
	return len(rest) > 0 && rest[0] != 'Z' && rest[0] != 'X'
}
