package local

import (
	"crypto/sha256"
	"errors"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

func freshIDs(t *testing.T, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		id, err := uuid.NewV7()
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id.String()
	}
	return ids
}

func digestOf(text string) [sha256.Size]byte { return sum(call(text)) }

// use takes an id and settles it.
func use(t *testing.T, l *ledger, id string, size int64) {
	t.Helper()
	e, mine, err := l.claim(id, digestOf("call"))
	if err != nil || !mine {
		t.Fatalf("claim %s: mine %v, error %v", id, mine, err)
	}
	l.settle(e, "answer", nil, size)
}

func TestIdThatIsNoLongerRememberedIsExpiredAndNeverTakenAgain(t *testing.T) {
	for name, bound := range map[string]func(*ledger){
		"by number": func(l *ledger) { l.mostEntries = 3 },
		"by bytes":  func(l *ledger) { l.mostKept = 30 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			bound(l)
			ids := freshIDs(t, 10)
			for _, id := range ids {
				use(t, l, id, 10)
			}
			for i, id := range ids {
				_, mine, err := l.claim(id, digestOf("call"))
				if i < 7 && !errors.Is(err, sandbox.ErrExpired) || i >= 7 && (err != nil || mine) {
					t.Errorf("id %d: mine %v, error %v", i, mine, err)
				}
			}
			if len(l.entries) != 3 || l.kept != 30 {
				t.Errorf("%d entries with %d bytes are kept", len(l.entries), l.kept)
			}
		})
	}
}

func TestIdOfAnOperationThatRunsIsNotForgotten(t *testing.T) {
	l := newLedger()
	l.mostEntries = 2
	ids := freshIDs(t, 10)
	running, _, err := l.claim(ids[0], digestOf("call"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids[1:] {
		use(t, l, id, 1)
	}
	if e, mine, err := l.claim(ids[0], digestOf("call")); e != running || mine || err != nil {
		t.Errorf("mine %v, error %v", mine, err)
	}
}

func TestIdBrokenOffCanBeUsedAgain(t *testing.T) {
	l := newLedger()
	id := freshIDs(t, 1)[0]
	e, _, err := l.claim(id, digestOf("call"))
	if err != nil {
		t.Fatal(err)
	}
	l.abandon(e)
	<-e.done
	var unavailable *sandbox.UnavailableError
	if !errors.As(e.err, &unavailable) {
		t.Errorf("who waited was told %v", e.err)
	}
	use(t, l, id, 1)
}

func TestIdsThatAreNoUUIDv7AreRefused(t *testing.T) {
	l := newLedger()
	for _, id := range []string{"", "x", "F47AC10B-58CC-4372-A567-0E02B2C3D479", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "{01890a5d-ac96-774b-bcce-b302099a8057}"} {
		if _, _, err := l.claim(id, digestOf("call")); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: error %v", id, err)
		}
		if _, err := l.forbid(id); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("forbid %q: error %v", id, err)
		}
	}
}
