// Command flyfleet sets up, uses and rolls a fleet of tenant machines, on Fly or on this computer.
package main

import (
	"context"
	"os"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
)

func main() {
	machineinit.RunIfInit()
	os.Exit(command.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
