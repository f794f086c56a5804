//go:build !linux

package demo

import "testing"

// processes needs Linux, where orphans can be adopted; elsewhere the demo's own report has to do.
type processes struct{}

func watchProcesses(*testing.T) *processes { return &processes{} }

func (*processes) none(*testing.T) {}
