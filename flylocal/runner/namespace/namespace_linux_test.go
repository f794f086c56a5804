package namespace

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/machineinit"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/runnertest"
)

func TestMain(m *testing.M) {
	machineinit.RunIfInit()
	runnertest.App()
	os.Exit(m.Run())
}

func TestMachineBootsAnswersAndStops(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"m1", "v1"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r, err := New(t.Context(), runner.Config{
		StateDir: dir, CacheDir: filepath.Join(dir, "cache"), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	img := runnertest.Image(t, runnertest.AppLayer(t))
	machine, err := r.Start(t.Context(), runner.Spec{
		App: "app", MachineID: "m1", Dir: filepath.Join(dir, "m1"), PrivateIP: netip.MustParseAddr("fdaa:0:1:a7b::2"),
		Image: img, ImageDigest: runnertest.Digest(t, img), User: "tenant",
		Argv:   []string{runnertest.AppPath, runnertest.AppArg, "serve", "[::]:8080"},
		Mounts: []runner.Mount{{VolumeID: "v1", VolumeDir: filepath.Join(dir, "v1"), Path: "/data"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := machine.Dial(t.Context(), 8080)
	for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); {
		conn, err = machine.Dial(t.Context(), 8080)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if answer, err := runnertest.Say(conn, "hello"); err != nil || answer != "HELLO" {
		t.Errorf("the machine answered %q, %v", answer, err)
	}
	if err := machine.Stop(t.Context(), "SIGTERM", 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if exit := machine.Wait(); exit.Code != 7 || !exit.Requested {
		t.Errorf("the machine ended with %+v, not its own code 7", exit)
	}
}
