package flylocal_test

import (
	"errors"
	"slices"
	"testing"

	fly "github.com/superfly/fly-go"
	"github.com/superfly/fly-go/flaps"
)

// fly-go is the client that Fly's own tools use: what it cannot use is no Fly platform.
func TestFlyGoDrivesTheLifeOfAMachine(t *testing.T) {
	p := start(t)
	c := client(t, p)
	ctx := t.Context()
	app, err := c.CreateApp(ctx, flaps.CreateAppRequest{Name: "tenant-a", Org: p.Org(), Network: "tenant-a"})
	if err != nil || app.Name != "tenant-a" || app.Network != "tenant-a" || app.Status != "pending" {
		t.Fatalf("create app: %+v, %v", app, err)
	}
	if err := c.WaitForApp(ctx, "tenant-a"); err != nil {
		t.Fatal(err)
	}
	volume, err := c.CreateVolume(ctx, "tenant-a", fly.CreateVolumeRequest{Name: "data", Region: "ams", SizeGb: ptr(1)})
	if err != nil || volume.State != "created" || volume.IsAttached() {
		t.Fatalf("create volume: %+v, %v", volume, err)
	}
	m, err := c.Launch(ctx, "tenant-a", fly.LaunchMachineInput{
		Name: "main", LeaseTTL: 60,
		Config: &fly.MachineConfig{
			Image: image, Env: map[string]string{"A": "1"}, Mounts: []fly.MachineMount{{Volume: volume.ID, Path: "/data"}},
			Checks: map[string]fly.MachineCheck{"alive": {Type: ptr("http"), Port: ptr(8080), HTTPPath: ptr("/healthz")}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if m.State != "created" || m.LeaseNonce == "" || m.Config.Guest == nil || m.Config.Guest.MemoryMB != 256 || m.HostStatus != fly.HostStatusOk {
		t.Fatalf("launch answered %+v", m)
	}
	nonce := m.LeaseNonce
	if err := c.Wait(ctx, "tenant-a", m.ID, flaps.WithWaitStates("started")); err != nil {
		t.Fatal(err)
	}
	lease, err := c.RefreshLease(ctx, "tenant-a", m.ID, ptr(60), nonce)
	if err != nil || lease.Data.Nonce != nonce || lease.Data.Version != m.InstanceID {
		t.Fatalf("refresh lease: %+v, %v", lease, err)
	}
	m.Config.Image = "registry.fly.io/base:v2"
	updated, err := c.Update(ctx, "tenant-a", fly.LaunchMachineInput{ID: m.ID, Config: m.Config}, nonce)
	if err != nil || updated.InstanceID == m.InstanceID || updated.State != "replacing" {
		t.Fatalf("update: %+v, %v", updated, err)
	}
	if err := c.Wait(ctx, "tenant-a", m.ID, flaps.WithWaitStates("settled"), flaps.WithWaitVersion(updated.InstanceID)); err != nil {
		t.Fatal(err)
	}
	now, err := c.Get(ctx, "tenant-a", m.ID)
	if err != nil || now.State != "started" || now.ImageRef.Tag != "v2" || now.Config.Env["A"] != "1" {
		t.Fatalf("after the update: %+v, %v", now, err)
	}
	if _, err := now.MostRecentStartTimeAfterLaunch(); err != nil {
		t.Errorf("fly-go does not see the start: %v", err)
	}
	if err := c.ReleaseLease(ctx, "tenant-a", m.ID, nonce); err != nil {
		t.Fatal(err)
	}
	if _, err := c.FindLease(ctx, "tenant-a", m.ID); !errors.Is(err, flaps.ErrFlapsNotFound) {
		t.Errorf("find lease after release: %v", err)
	}
	eventually(t, "checks pass", func() bool {
		m, err := c.Get(ctx, "tenant-a", m.ID)
		return err == nil && len(m.Checks) == 1 && m.Checks[0].Status == fly.Passing && m.Checks[0].UpdatedAt != nil
	})
	flyGoVerbs(t, c, m.ID)
	if err := c.Destroy(ctx, "tenant-a", fly.RemoveMachineInput{ID: m.ID, Kill: true}, ""); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx, "tenant-a", m.ID, flaps.WithWaitStates("destroyed")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume is free", func() bool {
		v, err := c.GetVolume(ctx, "tenant-a", volume.ID)
		return err == nil && !v.IsAttached()
	})
	if _, err := c.DeleteVolume(ctx, "tenant-a", volume.ID); err != nil {
		t.Fatal(err)
	}
	if left, err := c.GetVolumes(ctx, "tenant-a"); err != nil || len(left) != 0 {
		t.Errorf("volumes left: %+v, %v", left, err)
	}
	if err := c.DeleteApp(ctx, "tenant-a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetApp(ctx, "tenant-a"); !errors.Is(err, flaps.ErrFlapsNotFound) {
		t.Errorf("app after delete: %v", err)
	}
}

func flyGoVerbs(t *testing.T, c *flaps.Client, id string) {
	t.Helper()
	ctx := t.Context()
	steps := []struct {
		name, want string
		do         func() error
	}{
		{"stop", "stopped", func() error { return c.Stop(ctx, "tenant-a", fly.StopMachineInput{ID: id}, "") }},
		{"start", "started", func() error { _, err := c.Start(ctx, "tenant-a", id, ""); return err }},
		{"suspend", "suspended", func() error { return c.Suspend(ctx, "tenant-a", id, "") }},
		{"resume", "started", func() error { _, err := c.Start(ctx, "tenant-a", id, ""); return err }},
		{"restart", "started", func() error { return c.Restart(ctx, "tenant-a", fly.RestartMachineInput{ID: id, ForceStop: true}, "") }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if err := c.Wait(ctx, "tenant-a", id, flaps.WithWaitStates(step.want)); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
	if err := c.SetMetadata(ctx, "tenant-a", id, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.GetMetadata(ctx, "tenant-a", id); err != nil || got["k"] != "v" {
		t.Errorf("metadata %v, %v", got, err)
	}
	if err := c.DeleteMetadata(ctx, "tenant-a", id, "k"); err != nil {
		t.Error(err)
	}
	if got, err := c.Exec(ctx, "tenant-a", id, &fly.MachineExecRequest{Cmd: "probe --json"}); err != nil || got.ExitCode != 0 || got.StdOut == "" {
		t.Errorf("exec %+v, %v", got, err)
	}
	if _, err := c.GetProcesses(ctx, "tenant-a", id); err != nil {
		t.Error(err)
	}
	if err := c.Cordon(ctx, "tenant-a", id, ""); err != nil {
		t.Error(err)
	}
	if m, err := c.Get(ctx, "tenant-a", id); err != nil || !m.Cordoned {
		t.Errorf("cordoned: %+v, %v", m, err)
	}
	if err := c.Uncordon(ctx, "tenant-a", id, ""); err != nil {
		t.Error(err)
	}
}

func TestFlyGoReadsRegionsSecretsAndAddresses(t *testing.T) {
	p := start(t)
	c := client(t, p)
	ctx := t.Context()
	newApp(t, p, "tenant-b")
	if data, err := c.GetRegions(ctx); err != nil || len(data.Regions) != 18 || data.Nearest != "ams" {
		t.Errorf("regions: %+v, %v", data, err)
	}
	if _, err := c.SetAppSecret(ctx, "tenant-b", "TOKEN", "s3cr3t"); err != nil {
		t.Fatal(err)
	}
	updated, err := c.UpdateAppSecrets(ctx, "tenant-b", map[string]*string{"OTHER": ptr("x"), "NEVER_THERE": nil})
	if err != nil || updated.Version != 2 || len(updated.Secrets) != 2 {
		t.Fatalf("update secrets: %+v, %v", updated, err)
	}
	secrets, err := c.ListAppSecrets(ctx, "tenant-b", nil, false)
	if err != nil || len(secrets) != 2 || secrets[0].Value != nil || secrets[0].Digest == "" {
		t.Errorf("secrets: %+v, %v", secrets, err)
	}
	first, err := c.AssignIP(ctx, "tenant-b", flaps.AssignIPRequest{Type: "private_v6", Network: "runtime"})
	if err != nil || !first.IsFlycast() {
		t.Fatalf("private_v6: %+v, %v", first, err)
	}
	second, err := c.AssignIP(ctx, "tenant-b", flaps.AssignIPRequest{Type: "v6"})
	if err != nil || second.IP == first.IP {
		t.Fatalf("v6: %+v, %v", second, err)
	}
	if err := c.DeleteIPAssignment(ctx, "tenant-b", second.IP); err != nil {
		t.Fatal(err)
	}
	all, err := c.GetIPAssignments(ctx, "tenant-b")
	if err != nil || len(all.IPs) != 1 || all.IPs[0].IP != first.IP {
		t.Errorf("addresses: %+v, %v", all, err)
	}
	machines, err := c.List(ctx, "tenant-b", "state=started")
	if err != nil || machines == nil || len(slices.Clone(machines)) != 0 {
		t.Errorf("list: %v, %v", machines, err)
	}
}
