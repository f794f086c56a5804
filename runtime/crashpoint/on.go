//go:build crashpoints

package crashpoint

import (
	"os"
	"path/filepath"
	"syscall"
)

// On says whether this build can crash on demand.
const On = true

// dirEnv names a directory. A file in it with a point's name arms that point for one death, and is gone
// after it.
const dirEnv = "FLYFLEET_CRASHPOINTS"

// Hit kills this process, as SIGKILL does, when the point is armed; it does not return then.
func Hit(point string) {
	dir := os.Getenv(dirEnv)
	if dir == "" || os.Remove(filepath.Join(dir, point)) != nil {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
