package inventory_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/inventory"
)

type source struct {
	mu      sync.Mutex
	calls   map[string]int
	list    func(ctx context.Context, call int) (flyapi.MachineList, error)
	onWrite func(flyapi.Write)
}

func (s *source) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[what]++
	return s.calls[what]
}

func (s *source) Org() string                   { return "acme" }
func (s *source) OnWrite(fn func(flyapi.Write)) { s.onWrite = fn }
func (s *source) OrgMachines(ctx context.Context) (flyapi.MachineList, error) {
	return s.list(ctx, s.count("machines"))
}

func (s *source) ListOrgVolumes(context.Context) ([]flyapi.VolumeRow, error) {
	s.count("volumes")
	return []flyapi.VolumeRow{{App: "a", Volume: flyapi.Volume{ID: "v1"}}, {App: "b", Volume: flyapi.Volume{ID: "v2"}}}, nil
}

func (s *source) ListOrgAddresses(context.Context) ([]flyapi.Address, error) {
	s.count("addresses")
	return []flyapi.Address{{App: "a", IP: "fdaa::1"}, {App: "a", IP: "fdaa::2"}}, nil
}

func (s *source) ListApps(context.Context, string) ([]flyapi.App, error) {
	s.count("apps")
	return []flyapi.App{{Name: "a", Network: "n"}}, nil
}

func rows(r ...flyapi.MachineRow) func(context.Context, int) (flyapi.MachineList, error) {
	return func(context.Context, int) (flyapi.MachineList, error) { return flyapi.MachineList{Rows: r}, nil }
}

// A thousand questions at once are one list.
func TestQuestionsShareOneList(t *testing.T) {
	s := &source{}
	synctest.Test(t, func(t *testing.T) {
		s.list = func(context.Context, int) (flyapi.MachineList, error) {
			time.Sleep(time.Second) // the bubble's clock: everybody asks meanwhile
			return flyapi.MachineList{Rows: []flyapi.MachineRow{{App: "a", ID: "m1", InstanceID: "01"}}}, nil
		}
		inv := inventory.New(s)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if _, fresh, err := inv.Machine(t.Context(), "a", "m1", "01"); !fresh || err != nil {
					t.Errorf("fresh %v, error %v", fresh, err)
				}
			})
		}
		all.Wait()
		if s.calls["machines"] != 1 {
			t.Errorf("%d lists", s.calls["machines"])
		}
	})
}

// A row lets a caller skip its GET only when nothing can have changed since it last looked.
func TestOnlyAKnownVersionNeedsNoGet(t *testing.T) {
	s := &source{list: rows(
		flyapi.MachineRow{App: "a", ID: "m1", InstanceID: "01", HostStatus: "ok"},
		flyapi.MachineRow{App: "a", ID: "away", InstanceID: "01", HostStatus: "unreachable"},
		flyapi.MachineRow{App: "a", ID: "gone", InstanceID: "01", State: "destroyed"},
	)}
	inv := inventory.New(s)
	for _, tc := range []struct {
		app, id, known string
		fresh          bool
	}{
		{"a", "m1", "01", true},
		{"a", "m1", "00", false},
		{"a", "m1", "", false},
		{"b", "m1", "01", false}, // the same id in another app is another machine to Terraform
		{"a", "m2", "01", false},
		{"a", "away", "01", false},
		{"a", "gone", "01", false},
	} {
		if _, fresh, err := inv.Machine(t.Context(), tc.app, tc.id, tc.known); fresh != tc.fresh || err != nil {
			t.Errorf("%+v: fresh %v, error %v", tc, fresh, err)
		}
	}
}

func TestWritesMakeRowsStale(t *testing.T) {
	s := &source{list: rows(flyapi.MachineRow{App: "a", ID: "m1", InstanceID: "01"}, flyapi.MachineRow{App: "b", ID: "m2", InstanceID: "01"})}
	inv := inventory.New(s)
	known := func() (m1, m2, v1, v2, addr, app bool) {
		_, m1, _ = inv.Machine(t.Context(), "a", "m1", "01")
		_, m2, _ = inv.Machine(t.Context(), "b", "m2", "01")
		_, v1, _ = inv.Volume(t.Context(), "a", "v1")
		_, v2, _ = inv.Volume(t.Context(), "b", "v2")
		_, addr, _ = inv.Addresses(t.Context(), "a")
		_, app, _ = inv.App(t.Context(), "a")
		return
	}
	if m1, m2, v1, v2, addr, app := known(); !m1 || !m2 || !v1 || !v2 || !addr || !app {
		t.Fatal("not all known at first")
	}
	s.onWrite(flyapi.Write{Kind: flyapi.WroteMachine, App: "a", ID: "m1"})
	if m1, m2, v1, v2, addr, app := known(); m1 || v1 || !m2 || !v2 || !addr || !app {
		t.Error("a machine's write makes it and its app's volumes stale, and nothing else")
	}
	s.onWrite(flyapi.Write{Kind: flyapi.WroteAddress, App: "a"})
	s.onWrite(flyapi.Write{Kind: flyapi.WroteApp, App: "a"})
	if _, m2, _, v2, addr, app := known(); !m2 || !v2 || addr || app {
		t.Error("writes of address and app")
	}
}

// One whole diagnostic and a thousand short ones; and no thousand calls to a dead server.
func TestFailedListIsRememberedForTenSeconds(t *testing.T) {
	whole := errors.New("list the machines of organization acme: nothing answers at http://127.0.0.1:4280 (start the local platform …)")
	s := &source{list: func(context.Context, int) (flyapi.MachineList, error) { return flyapi.MachineList{}, whole }}
	synctest.Test(t, func(t *testing.T) {
		inv := inventory.New(s)
		ask := func() error { _, _, err := inv.Machine(t.Context(), "a", "m", "01"); return err }
		if err := ask(); err.Error() != whole.Error() {
			t.Errorf("first: %v", err)
		}
		for range 5 {
			var again *inventory.RepeatedError
			if err := ask(); !errors.As(err, &again) || strings.Contains(err.Error(), "127.0.0.1") || !errors.Is(err, whole) {
				t.Errorf("later: %v", err)
			}
		}
		if s.calls["machines"] != 1 {
			t.Errorf("%d lists", s.calls["machines"])
		}
		time.Sleep(11 * time.Second)
		if err := ask(); err.Error() != whole.Error() || s.calls["machines"] != 2 {
			t.Errorf("after the memory: %v, %d lists", err, s.calls["machines"])
		}
	})
}

// One cancelled question does not fail those that wait beside it, and is not remembered.
func TestCancelledLeaderIsReplaced(t *testing.T) {
	s := &source{}
	synctest.Test(t, func(t *testing.T) {
		s.list = func(ctx context.Context, call int) (flyapi.MachineList, error) {
			if call == 1 {
				<-ctx.Done()
				return flyapi.MachineList{}, ctx.Err()
			}
			return flyapi.MachineList{Rows: []flyapi.MachineRow{{App: "a", ID: "m1", InstanceID: "01"}}}, nil
		}
		inv := inventory.New(s)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, _, err := inv.Machine(ctx, "a", "m1", "01"); !errors.Is(err, context.Canceled) {
				t.Errorf("leader: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if _, fresh, err := inv.Machine(t.Context(), "a", "m1", "01"); !fresh || err != nil {
				t.Errorf("follower: fresh %v, error %v", fresh, err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}
