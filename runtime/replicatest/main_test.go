//go:build linux

// Package replicatest holds several replicas of the runtime against one database: processes that are frozen past their
// lease and go on, killed, drained, or cut off from the database, while sessions work. A replica here is this test's own
// binary, with the real store, driver and executor, a scripted model, and tools that leave a trace for each effect.
//
// FLYFLEET_TEST_LONG=1 takes the real times and numbers: a TTL of 15 s, freezes of a minute, ten thousand parked sessions.
package replicatest

import (
	"os"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(settingsEnv); text != "" {
		os.Exit(childMain(text))
	}
	machinetest.Main(m)
}
