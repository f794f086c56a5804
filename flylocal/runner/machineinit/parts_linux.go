package machineinit

import (
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/guest"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/stage"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/supervise"
)

var parts = map[string]func() int{
	stage.Name:     stage.Run,
	stage.InitPath: guest.Run,
	supervise.Name: supervise.Run,
}
