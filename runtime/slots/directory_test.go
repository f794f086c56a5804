package slots

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

func TestListIsSharedAndRememberedForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		var fail error
		d := newDirectory(func(context.Context) (flyapi.MachineList, error) {
			fetches++
			time.Sleep(time.Second) // the bubble's clock: others ask meanwhile
			return flyapi.MachineList{}, fail
		})
		defer d.close()
		crowd := func(ask func(context.Context) (flyapi.MachineList, error), want int, fails bool) {
			t.Helper()
			fetches = 0
			var wait sync.WaitGroup
			for range 100 {
				wait.Go(func() {
					if _, err := ask(t.Context()); (err != nil) != fails {
						t.Errorf("error %v", err)
					}
				})
			}
			wait.Wait()
			if fetches != want {
				t.Errorf("%d fetches, want %d", fetches, want)
			}
		}
		crowd(d.recent, 1, false)
		crowd(d.recent, 0, false)
		crowd(d.fresh, 1, false)
		time.Sleep(listAge)
		fail = errors.New("down")
		crowd(d.recent, 1, true)
		crowd(d.fresh, 0, true)
		time.Sleep(listFailure)
		fail = nil
		crowd(d.recent, 1, false)
	})
}

// Who asks for what is there now gets no list that was asked for before.
func TestFreshListIsNotOneThatWasUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		d := newDirectory(func(context.Context) (flyapi.MachineList, error) {
			fetches++
			n := fetches
			time.Sleep(time.Second)
			return flyapi.MachineList{Rows: make([]flyapi.MachineRow, n)}, nil
		})
		defer d.close()
		go func() { _, _ = d.recent(t.Context()) }()
		time.Sleep(time.Millisecond)
		if list, err := d.fresh(t.Context()); err != nil || len(list.Rows) != 2 {
			t.Errorf("%d rows, error %v", len(list.Rows), err)
		}
	})
}
