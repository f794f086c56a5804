package machinetoken_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/machinetoken"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

type commands map[uuid.UUID]store.ExecSlot

func (c commands) ExecSlot(_ context.Context, exec uuid.UUID) (store.ExecSlot, error) {
	if row, there := c[exec]; there {
		return row, nil
	}
	return store.ExecSlot{}, fmt.Errorf("command: %w", store.ErrNotFound)
}

func keys(t testing.TB, seeds ...string) *machinetoken.Keys {
	t.Helper()
	var all [][]byte
	for _, s := range seeds {
		all = append(all, []byte(strings.Repeat(s, 32)))
	}
	k, err := machinetoken.NewKeys(all...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A token is its command's, as long as that runs and has its slot.
func TestTokenDiesWithItsCommandAndItsSlot(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	exec, other := store.NewID(), store.NewID()
	row := store.ExecSlot{Tenant: "t", Session: store.NewID(), Call: "c", State: store.ExecStarted, Machine: "m", Slot: 2, ClaimedAt: at, Slotted: true}
	k := keys(t, "k")
	text := k.Token(exec, machinetoken.ClaimOf(store.Held{Machine: "m", Slot: 2, ClaimedAt: at, Fence: 7}))
	if again := keys(t, "k").Token(exec, machinetoken.ClaimOf(store.Held{Machine: "m", Slot: 2, ClaimedAt: at.Local(), Fence: 8})); again != text {
		t.Error("another replica, after a takeover, derives another token")
	}
	change := func(f func(*store.ExecSlot)) store.ExecSlot {
		r := row
		f(&r)
		return r
	}
	for name, c := range map[string]struct {
		keys  *machinetoken.Keys
		token string
		row   store.ExecSlot
		good  bool
	}{
		"running":                {k, text, row, true},
		"the key was changed":    {keys(t, "n", "k"), text, row, true},
		"the key is gone":        {keys(t, "n"), text, row, false},
		"exited":                 {k, text, change(func(r *store.ExecSlot) { r.State = store.ExecExited }), false},
		"lost":                   {k, text, change(func(r *store.ExecSlot) { r.State = store.ExecLost }), false},
		"the slot was released":  {k, text, change(func(r *store.ExecSlot) { r.Slot, r.ClaimedAt = 0, time.Time{} }), false},
		"the slot was claimed":   {k, text, change(func(r *store.ExecSlot) { r.ClaimedAt = at.Add(time.Microsecond) }), false},
		"another slot":           {k, text, change(func(r *store.ExecSlot) { r.Slot = 3 }), false},
		"another machine":        {k, text, change(func(r *store.ExecSlot) { r.Machine = "n" }), false},
		"another command's mac":  {k, strings.Replace(k.Token(other, machinetoken.Claim{Machine: "m", Slot: 2, At: at}), other.String(), exec.String(), 1), row, false},
		"a command of nobody's":  {k, strings.Replace(text, exec.String(), other.String(), 1), row, false},
		"another spelling":       {k, strings.Replace(text, exec.String(), strings.ToUpper(exec.String()), 1), row, strings.ToUpper(exec.String()) == exec.String()},
		"no mac":                 {k, text[:len(text)-43], row, false},
		"the last bit":           {k, text[:len(text)-1] + string(text[len(text)-1]^1), row, false},
		"another form":           {k, "ffm2" + text[4:], row, false},
		"empty":                  {k, "", row, false},
		"a very long one":        {k, text + strings.Repeat("A", 1<<20), row, false},
		"only dots, long enough": {k, strings.Repeat(".", len(text)), row, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, is, err := c.keys.Verify(t.Context(), commands{exec: c.row}, c.token)
			switch {
			case c.good && (err != nil || got != exec || is != c.row):
				t.Errorf("%s, %+v, %v", got, is, err)
			case !c.good && (!errors.Is(err, machinetoken.ErrInvalid) || got != uuid.Nil || is != store.ExecSlot{}):
				t.Errorf("%s, %+v, %v", got, is, err)
			}
		})
	}
}

type down struct{}

func (down) ExecSlot(context.Context, uuid.UUID) (store.ExecSlot, error) {
	return store.ExecSlot{}, errors.New("no database")
}

// A database that is away is no verdict on a token.
func TestTokenThatCannotBeLookedUpIsNotInvalid(t *testing.T) {
	k := keys(t, "k")
	if _, _, err := k.Verify(t.Context(), down{}, k.Token(store.NewID(), machinetoken.Claim{})); err == nil || errors.Is(err, machinetoken.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

func TestKeysAreLongAndNeverShown(t *testing.T) {
	for _, bad := range [][][]byte{{}, {[]byte("short")}, {bytes.Repeat([]byte("k"), 32), nil}} {
		if _, err := machinetoken.NewKeys(bad...); err == nil || strings.Contains(err.Error(), "short") {
			t.Errorf("%d keys: %v", len(bad), err)
		}
	}
	k := keys(t, "k")
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "keys", k)
	if said := log.String() + fmt.Sprint(k) + fmt.Sprintf("%+v", k); strings.Contains(said, "kkk") || strings.Contains(said, "107 107") {
		t.Errorf("shown: %s", said)
	}
}
