// The Terraform provider flyfleet/flyfleet, started by Terraform.
package main

import (
	"context"
	"flag"
	"log"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/flyfleet/terraform-provider-flyfleet/provider"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

func main() {
	debug := flag.Bool("debug", false, "run as a server that a debugger can attach to")
	flag.Parse()
	err := providerserver.Serve(context.Background(), provider.New(wire.Build, os.Getenv), providerserver.ServeOpts{
		Address: provider.Address, Debug: *debug, ProtocolVersion: 6,
	})
	if err != nil {
		log.Fatal(err)
	}
}
