package machineconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// NamedCheck is a check with the name under which answers show it and with its defaults filled in.
type NamedCheck struct {
	Name string
	Check
}

// Defaults of a check that leaves them out.
const (
	defaultInterval = 10 * time.Second
	defaultTimeout  = 2 * time.Second
)

// AllChecks lists the checks: those at the top level by name, then each service's in order, named as Fly names them
// ("servicecheck-00-http-8080": number, type, port).
func (c *Config) AllChecks() []NamedCheck {
	var all []NamedCheck
	for _, name := range slices.Sorted(maps.Keys(c.Checks)) {
		all = append(all, NamedCheck{Name: name, Check: withDefaults(c.Checks[name], 0)})
	}
	number := 0
	for _, s := range c.Services {
		for _, check := range s.Checks {
			check = withDefaults(check, s.InternalPort)
			all = append(all, NamedCheck{Name: fmt.Sprintf("servicecheck-%02d-%s-%d", number, check.Type, check.Port), Check: check})
			number++
		}
	}
	return all
}

func withDefaults(check Check, port int) Check {
	if check.Type == "" {
		check.Type = "tcp"
	}
	if check.Port == 0 {
		check.Port = port
	}
	if check.Interval <= 0 {
		check.Interval = Duration(defaultInterval)
	}
	if check.Timeout <= 0 {
		check.Timeout = Duration(defaultTimeout)
	}
	check.Method = strings.ToUpper(check.Method) // fly.toml and its readers write "get"
	if check.Method == "" {
		check.Method = "GET"
	}
	if check.Path == "" {
		check.Path = "/"
	}
	return check
}
