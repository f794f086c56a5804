//go:build !linux

package namespace

import (
	"context"
	"errors"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
)

// New fails: namespaces are a thing of Linux.
func New(context.Context, runner.Config) (runner.Runner, error) {
	return nil, errors.New("the namespace runner needs Linux; the process runner works here, without isolation")
}
