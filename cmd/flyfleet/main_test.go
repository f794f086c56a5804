package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	testscript.Main(m, map[string]func(){"flyfleet": main})
}

// TestScripts runs the command lines of testdata/script as a user would type them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// Nothing of the tester's own platform or keys may be seen.
			env.Setenv("FLYFLEET_LOCAL_DIR", env.WorkDir+"/platform")
			return nil
		},
	})
}
