// Package naming holds what Fly accepts as names of apps, machines, volumes, networks and regions, as checks that a
// plan can make without asking Fly. Each refusal says what would be right.
package naming

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MaxName is the most letters that a name may have: apps are DNS labels.
const MaxName = 63

var (
	appPattern     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	machinePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)
	volumePattern  = regexp.MustCompile(`^[a-z0-9_]+$`)
	networkPattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*$`)
	regionPattern  = regexp.MustCompile(`^[a-z]{3}$`)
)

// App checks the name of an app. The text of Fly's own refusal is "Name under 63 chars using numbers, lowercase letters
// and dashes".
func App(name string) error {
	return check("an app's name", name, appPattern, "lowercase letters, digits and dashes, with a letter or digit at both ends")
}

// Machine checks the name of a machine.
//
// Assumption: Fly documents no rule for machine names; its own are word-word-number, and names are used as host names.
func Machine(name string) error {
	return check("a machine's name", name, machinePattern, "lowercase letters, digits, dashes and underscores, with a letter or digit at both ends")
}

// Volume checks the name of a volume.
func Volume(name string) error {
	return check("a volume's name", name, volumePattern, "lowercase letters, digits and underscores (a dash is not allowed)")
}

// Network checks the name of a private network, which Fly makes when it is first used
// (superfly/docs: networking/custom-private-networks).
func Network(name string) error {
	return check("a network's name", name, networkPattern, "letters, digits and dashes, beginning with a letter")
}

func check(what, name string, pattern *regexp.Regexp, rule string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty; it takes 1 to %d of %s", what, MaxName, rule)
	case len(name) > MaxName:
		return fmt.Errorf("%s has at most %d letters; this one has %d: %q would fit", what, MaxName, len(name), strings.TrimRight(name[:MaxName], "-_"))
	case !pattern.MatchString(name):
		return fmt.Errorf("%s takes %s; got %q", what, rule, name)
	}
	return nil
}

// Regions are the regions that Fly listed when this was written (superfly/docs: reference/regions).
var Regions = []string{
	"ams", "arn", "bom", "cdg", "dfw", "ewr", "fra", "gru", "iad", "jnb", "lax", "lhr", "nrt", "ord", "sin", "sjc", "syd", "yyz",
}

// Region checks a region's code. A code that no region can have is an error; one that is only missing from Regions is
// not, because Fly adds regions: known tells them apart.
func Region(code string) (known bool, err error) {
	if !regionPattern.MatchString(code) {
		return false, fmt.Errorf("a region is one code of three lowercase letters, one of %s; got %q", strings.Join(Regions, ", "), code)
	}
	return slices.Contains(Regions, code), nil
}
