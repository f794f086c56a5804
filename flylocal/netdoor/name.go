package netdoor

import (
	"fmt"
	"strings"
)

// target is what a name means.
type target struct {
	app string
	// machine is the id in <id>.vm.<app>.internal, empty otherwise.
	machine string
	flycast bool
}

// parseName reads a host name as Fly's private resolver does: case does not matter, one trailing dot is allowed.
func parseName(host string) (target, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if app, ok := strings.CutSuffix(name, ".flycast"); ok && validLabel(app) {
		return target{app: app, flycast: true}, nil
	}
	if rest, ok := strings.CutSuffix(name, ".internal"); ok {
		labels := strings.Split(rest, ".")
		switch {
		case len(labels) == 1 && validLabel(labels[0]):
			return target{app: labels[0]}, nil
		case len(labels) == 3 && labels[1] == "vm" && validLabel(labels[0]) && validLabel(labels[2]):
			return target{app: labels[2], machine: labels[0]}, nil
		}
	}
	return target{}, fmt.Errorf("%w: %q", ErrForbidden, host)
}

func validLabel(s string) bool {
	if s == "" || len(s) > 63 {
		return false
	}
	for _, c := range []byte(s) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
