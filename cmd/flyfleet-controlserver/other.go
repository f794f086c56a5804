//go:build !linux

// Command flyfleet-controlserver is the one inbound surface of a tenant machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "flyfleet-controlserver: machines run Linux; build with GOOS=linux for their image")
	os.Exit(1)
}
