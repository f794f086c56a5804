package flyapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

// platform starts a local platform without processes and a client of it.
func platform(t *testing.T) (*flylocal.Platform, *flyapi.Client) {
	t.Helper()
	p, err := flylocal.Start(t.Context(), flylocal.Options{Dir: t.TempDir(), Runner: "none", SettleDelay: time.Millisecond, UnbindDelay: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	c, err := flyapi.New(flyapi.Config{FlapsURL: p.URL(), GraphQLURL: p.URL(), Token: p.Token(), Org: p.Org(), Transport: transport, Pace: flyapi.PaceOff})
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// must is for calls that give a value.
func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// One tenant from nothing to nothing, through every call that a provider makes.
func TestTenantsLifeOnAPlatform(t *testing.T) {
	p, c := platform(t)
	ctx := t.Context()
	app := must[flyapi.App](t)(c.CreateApp(ctx, "shop", p.Org(), "shop-net"))
	if app.Network != "shop-net" || app.Org != p.Org() {
		t.Errorf("app %+v", app)
	}
	if _, err := c.CreateApp(ctx, "shop", p.Org(), "shop-net"); !flyapi.IsNameTaken(err) {
		t.Errorf("second create: %v", err)
	}
	if apps := must[[]flyapi.App](t)(c.ListApps(ctx, p.Org())); len(apps) != 1 || apps[0].Network != "shop-net" {
		t.Errorf("apps %+v", apps)
	}

	vol := must[flyapi.Volume](t)(c.CreateVolume(ctx, "shop", flyapi.CreateVolumeRequest{Name: "data", Region: "ams", SizeGB: 1}))
	vol, _, err := c.ExtendVolume(ctx, "shop", vol.ID, 3)
	check(t, err)
	days, off := 9, false
	vol = must[flyapi.Volume](t)(c.UpdateVolume(ctx, "shop", vol.ID, flyapi.UpdateVolumeRequest{SnapshotRetention: &days, AutoBackup: &off}))
	if vol.SizeGB != 3 || vol.SnapshotRetention != 9 || vol.AutoBackup {
		t.Errorf("volume %+v", vol)
	}

	config := json.RawMessage(`{"image":"registry.fly.io/shop@sha256:1111111111111111111111111111111111111111111111111111111111111111","mounts":[{"volume":"` + vol.ID + `","path":"/data"}]}`)
	m := must[*flyapi.Machine](t)(c.CreateMachine(ctx, "shop", flyapi.CreateRequest{Name: "main", Region: "ams", Config: config}))
	check(t, c.WaitMachine(ctx, "shop", m.ID, flyapi.WaitRequest{States: []string{flyapi.StateStarted}, InstanceID: m.InstanceID}))
	if _, err := c.CreateMachine(ctx, "shop", flyapi.CreateRequest{Name: "main", Region: "ams", Config: json.RawMessage(`{"image":"x"}`)}); flyapi.NameTakenBy(err) != m.ID {
		t.Errorf("second create: %v", err)
	}
	if _, err := c.CreateMachine(ctx, "shop", flyapi.CreateRequest{Name: "two", Region: "ams", Config: config}); !flyapi.IsVolumeBound(err) || flyapi.VolumeHolder(err) != m.ID {
		t.Errorf("create on a bound volume: %v", err)
	}
	check(t, c.SetMetadata(ctx, "shop", m.ID, "a/b", "v"))
	m = must[*flyapi.Machine](t)(c.GetMachine(ctx, "shop", m.ID))
	if !flyapi.ConfigCovers(m.Config(), config) || m.Metadata()["a/b"] != "v" || !m.Reachable() || !m.Settled() {
		t.Errorf("machine %s", m.Raw())
	}
	rows := must[[]flyapi.MachineRow](t)(c.ListOrgMachines(ctx))
	if len(rows) != 1 || rows[0].App != "shop" || rows[0].InstanceID != m.InstanceID || rows[0].Digest != m.ImageRef.Digest || rows[0].Metadata["a/b"] != "v" {
		t.Errorf("rows %+v", rows)
	}
	vols := must[[]flyapi.VolumeRow](t)(c.ListOrgVolumes(ctx))
	if len(vols) != 1 || vols[0].App != "shop" || vols[0].AttachedMachine != m.ID || vols[0].SizeGB != 3 {
		t.Errorf("volumes %+v", vols)
	}

	value := "secret"
	if v := must[uint64](t)(c.UpdateSecrets(ctx, "shop", map[string]*string{"KEY": &value})); v == 0 {
		t.Error("no version of the secrets")
	}
	if list := must[[]flyapi.Secret](t)(c.ListSecrets(ctx, "shop")); len(list) != 1 || list[0].Name != "KEY" || list[0].Digest == "" {
		t.Errorf("secrets %+v", list)
	}

	check(t, c.DestroyMachine(ctx, "shop", m.ID, true, flyapi.Lease{}))
	check(t, c.WaitMachine(ctx, "shop", m.ID, flyapi.WaitRequest{States: []string{flyapi.StateDestroyed}}))
	check(t, c.DeleteVolume(ctx, "shop", vol.ID)) // bound for 20 ms more
	if v, err := c.GetVolume(ctx, "shop", vol.ID); err == nil && !v.Gone() {
		t.Errorf("volume %+v is not gone", v)
	}
	check(t, c.DeleteApp(ctx, "shop"))
	if _, err := c.GetApp(ctx, "shop"); !flyapi.IsNotFound(err) {
		t.Errorf("app after its delete: %v", err)
	}
}

// Both ways of listing addresses tell the network of a flycast address, by which a create in doubt is found again.
func TestAddressesOfOneAppAndOfAll(t *testing.T) {
	p, c := platform(t)
	ctx := t.Context()
	for _, app := range []string{"runtime", "tenant"} {
		must[flyapi.App](t)(c.CreateApp(ctx, app, p.Org(), app+"-net"))
	}
	flycast := must[flyapi.Address](t)(c.AssignAddress(ctx, "tenant", flyapi.AssignRequest{Type: flyapi.AddressPrivateV6, Network: "runtime-net"}))
	// Two at once get two addresses.
	one := must[flyapi.Address](t)(c.AssignAddress(ctx, "tenant", flyapi.AssignRequest{Type: flyapi.AddressV6}))
	two := must[flyapi.Address](t)(c.AssignAddress(ctx, "tenant", flyapi.AssignRequest{Type: flyapi.AddressV6}))
	if one.IP == two.IP {
		t.Errorf("one address twice: %s", one.IP)
	}
	for name, list := range map[string][]flyapi.Address{
		"of the app": must[[]flyapi.Address](t)(c.ListAddresses(ctx, "tenant")),
		"of all":     must[[]flyapi.Address](t)(c.ListOrgAddresses(ctx)),
	} {
		found := false
		for _, a := range list {
			if a.IP == flycast.IP {
				found = a.Type == flyapi.AddressPrivateV6 && a.Network == "runtime-net" && a.App == "tenant" && !a.CreatedAt.IsZero()
			}
		}
		if len(list) != 3 || !found {
			t.Errorf("%s: %+v", name, list)
		}
	}
	check(t, c.ReleaseAddress(ctx, "tenant", flycast.IP))
	if list := must[[]flyapi.Address](t)(c.ListAddresses(ctx, "tenant")); len(list) != 2 {
		t.Errorf("after the release: %+v", list)
	}
}
