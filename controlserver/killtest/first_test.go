package killtest

import (
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/crashpoint"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/machinetest"
)

// A first server that gives up says what is wrong, and the machine ends with it. One that is killed, by a
// want of memory for instance, is no such word.
func TestServerKilledBeforeItEverServedIsStartedAgain(t *testing.T) {
	t.Parallel()
	m := start(t, machinetest.Options{}, crashpoint.Adopted)
	if m.armed(crashpoint.Adopted) {
		t.Fatal("no server died")
	}
	if _, err := m.Client(machinetest.ClientOptions{}).Hello(limited(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
}
