package flylocal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/namespace"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/none"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/process"
)

type factory struct {
	name string
	make func(context.Context, runner.Config) (runner.Runner, error)
	// auto says that "auto" may choose it. The runner without processes must be asked for by name.
	auto bool
}

// factories in the order in which "auto" tries them.
var factories = []factory{
	{name: "namespace", make: namespace.New, auto: true},
	{name: "process", make: process.New, auto: true},
	{name: "none", make: none.New},
}

// Runners are the names that Options.Runner takes.
func Runners() []string {
	names := []string{"auto"}
	for _, f := range factories {
		names = append(names, f.name)
	}
	return names
}

func pickRunner(ctx context.Context, name string, cfg runner.Config) (runner.Runner, error) {
	if name != "" && name != "auto" {
		i := slices.IndexFunc(factories, func(f factory) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("runner %q is unknown, choose one of %v", name, Runners())
		}
		r, err := factories[i].make(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("runner %s: %w", name, err)
		}
		return r, nil
	}
	var why []error
	for _, f := range factories {
		if !f.auto {
			continue
		}
		r, err := f.make(ctx, cfg)
		if err == nil {
			return r, nil
		}
		cfg.Log.Info("runner cannot work here", "runner", f.name, "error", err)
		why = append(why, fmt.Errorf("runner %s: %w", f.name, err))
	}
	return nil, errors.Join(append(why, errors.New("no runner that starts processes works on this computer; Options.Runner \"none\" starts none"))...)
}
