// Package machineinit lets one executable play every part of a machine: the platform, the stage that prepares a
// machine's file systems, its init, and the supervisor of the runner without isolation. So there is one file to
// install, and no second one that could be of another version.
//
// Programs that start machines call RunIfInit before anything else in main, tests in TestMain.
package machineinit

import (
	"errors"
	"os"
	"sync/atomic"
)

var armed atomic.Bool

// RunIfInit plays the part that the process was started for and exits; in a process that was started by a person it
// returns at once. A part is told by argv[0], which no shell and no installation gives.
func RunIfInit() {
	if len(os.Args) > 0 {
		if run, ok := parts[os.Args[0]]; ok {
			os.Exit(run())
		}
	}
	armed.Store(true)
}

// Check fails in a program that never called RunIfInit: its copies would run as the program itself, again and again.
func Check() error {
	if armed.Load() {
		return nil
	}
	return errors.New("this program cannot start machines: its main, or its TestMain, must call machineinit.RunIfInit() first")
}
