//go:build linux

package crashtest

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/slots"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// The owner stands still while an append of its is under way in the database, longer than its lease. The takeover waits for
// the append and reads it: with a weaker lock than FOR SHARE it would not, and both would write the same entry.
// nearai/ironclaw#7471.
func TestNewOwnerReadsTheAppendUnderWay(t *testing.T) {
	m := startBare(t)
	t.Run("of", func(t *testing.T) {
		// One goes with those of other sessions in one statement, the other is a transaction with rows.
		for _, kind := range []journal.Kind{journal.KindTurnStarted, journal.KindToolResult} {
			t.Run(kind.String(), func(t *testing.T) {
				t.Parallel()
				x := newTrial(t, m)
				x.slowAppends(kind)
				first := x.start()
				x.appendUnderWay()
				first.signal(syscall.SIGSTOP)
				second := x.start()
				x.fenceRises(1)
				first.signal(syscall.SIGCONT)
				if second.diesOrSettles() {
					t.Fatal("killed by nobody of ours")
				}
				x.staleIsRefused()
				first.stop()
				second.stop()
				x.verify()
				if t.Failed() {
					t.Logf("%v\nfirst:\n%s\nsecond:\n%s", x.kinds(), first.log.String(), second.log.String())
				}
			})
		}
	})
}

// slowAppends makes the database take long over the first owner's entry of a kind.
func (x *trial) slowAppends(kind journal.Kind) {
	x.sql(fmt.Sprintf(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.fence = 1 AND NEW.kind = %d THEN PERFORM pg_sleep(4); END IF;
  RETURN NEW;
END $$`, kind))
	x.sql("CREATE TRIGGER slow BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION slow()")
}

func (x *trial) sql(text string) {
	x.t.Helper()
	conn, err := pgx.Connect(x.t.Context(), x.url)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = conn.Close(x.t.Context()) }()
	if _, err := conn.Exec(x.t.Context(), text); err != nil {
		x.t.Fatal(err)
	}
}

// appendUnderWay waits until the database sleeps over an entry.
func (x *trial) appendUnderWay() {
	x.t.Helper()
	conn, err := pgx.Connect(x.t.Context(), x.url)
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = conn.Close(x.t.Context()) }()
	x.soon(func() string { return "no append is under way" }, func() bool {
		var n int
		if err := conn.QueryRow(x.t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'").Scan(&n); err != nil {
			x.t.Fatal(err)
		}
		return n > 0
	})
}

// staleIsRefused: whoever comes to the machine with the first claim's fence does nothing there any more.
func (x *trial) staleIsRefused() {
	x.t.Helper()
	scope := slots.ScopeOf(store.Claim{Session: x.session})
	box := x.machine.box(x.t, scope, 1)
	_, err := box.Exec(x.t.Context(), sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo x >> " + x.dir + "/a"}})
	if !errors.Is(err, sandbox.ErrFenced) {
		x.t.Errorf("the machine answers a stale owner with %v", err)
	}
}
