//go:build !linux

package machineinit

var parts = map[string]func() int{}
