//go:build !linux

package machineinit

import "github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/supervise"

var parts = map[string]func() int{supervise.Name: supervise.Run}
