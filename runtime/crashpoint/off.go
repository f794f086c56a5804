//go:build !crashpoints

package crashpoint

// On says whether this build can crash on demand.
const On = false

// Hit does nothing.
func Hit(string) {}
