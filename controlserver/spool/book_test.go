//go:build linux

package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

const (
	full   = wirev1.GapReason_GAP_REASON_DISK_FULL
	capped = wirev1.GapReason_GAP_REASON_CAP
)

// look walks a book from an offset and says what it finds, as "from-to" stored and "[from-to]" missing.
func look(b *spool.Book, at, end uint64) string {
	var out []string
	for at < end {
		gap, until := b.At(at, end)
		if gap != nil {
			out = append(out, "["+span(gap.From, gap.To)+"]")
			at = gap.To
			continue
		}
		out = append(out, span(at, until))
		at = until
	}
	return strings.Join(out, " ")
}

func span(a, b uint64) string { return num(a) + "-" + num(b) }

func num(n uint64) string {
	if n == 0 {
		return "0"
	}
	var s string
	for ; n > 0; n /= 10 {
		s = string(rune('0'+n%10)) + s
	}
	return s
}

func TestBookTellsWhatIsNotStoredAlsoAfterARestart(t *testing.T) {
	s, _ := open(t)
	id := create(t, s)
	out, errs := spool.NewBook(s, id, "out", spool.State{}), spool.NewBook(s, id, "err", spool.State{})
	steps := []error{
		out.Begin(100, full), out.Begin(120, full), out.End(200), out.End(210),
		errs.Begin(0, capped), out.GiveUp(50), out.GiveUp(40), out.Begin(300, capped),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	check := func(out, errs *spool.Book) {
		t.Helper()
		if got := look(out, 0, 400); got != "[0-50] 50-100 [100-200] 200-300 [300-400]" {
			t.Fatalf("out: %s", got)
		}
		if got := look(out, 150, 250); got != "[150-200] 200-250" {
			t.Fatalf("out from 150: %s", got)
		}
		if got := look(errs, 0, 9); got != "[0-9]" {
			t.Fatalf("err: %s", got)
		}
		if out.Gaping() != capped || out.Tail() != 50 {
			t.Fatalf("got %v, %d", out.Gaping(), out.Tail())
		}
	}
	check(out, errs)
	st, err := s.State(id)
	if err != nil {
		t.Fatal(err)
	}
	check(spool.NewBook(s, id, "out", st), spool.NewBook(s, id, "err", st))
}

func TestCollectedStreamIsAllGap(t *testing.T) {
	if got := look(spool.Collected(), 0, 7); got != "[0-7]" {
		t.Fatalf("got %s", got)
	}
}

func TestTombsSurviveAndTornOnesDoNotCount(t *testing.T) {
	s, dir := open(t)
	g, err := s.Graveyard()
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)
	exited := spool.Tomb{ID: create(t, s), Scope: "s", Digest: []byte("d"), Exit: &wirev1.Exit{Code: 3, StdoutEnd: 9}}
	lost := spool.Tomb{ID: create(t, s), Scope: "s", Digest: []byte("d"), Lost: &wirev1.Lost{Reason: 1}}
	forbidden := spool.Tomb{ID: create(t, s), Scope: "s", Forbidden: true}
	for i, tomb := range []spool.Tomb{exited, lost, forbidden} {
		if err := g.Bury(tomb, day.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	tear := func() {
		f, err := os.OpenFile(filepath.Join(dir, "tombs", "2026-03-02"), os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"id":"torn`); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	tear()
	again, err := s.Graveyard()
	if err != nil {
		t.Fatal(err)
	}
	after := spool.Tomb{ID: create(t, s), Scope: "s", Exit: &wirev1.Exit{Code: 4}}
	if err := again.Bury(after, day.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	third, err := s.Graveyard()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []spool.Tomb{exited, lost, forbidden, after} {
		got, err := third.Find(want.ID)
		if err != nil || got == nil || got.Scope != want.Scope || string(got.Digest) != string(want.Digest) || got.Forbidden != want.Forbidden ||
			!proto.Equal(got.Exit, want.Exit) || !proto.Equal(got.Lost, want.Lost) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if got, err := third.Find(create(t, s)); got != nil || err != nil {
		t.Fatalf("an unknown one: %+v, %v", got, err)
	}
}

func TestIdsBeforeADroppedTombAreRememberedAsSuch(t *testing.T) {
	s, _ := open(t)
	g, err := s.Graveyard()
	if err != nil {
		t.Fatal(err)
	}
	older, dropped, newer := create(t, s), create(t, s), create(t, s)
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if err := errors.Join(g.Bury(spool.Tomb{ID: dropped}, day), g.Bury(spool.Tomb{ID: newer}, day.AddDate(0, 0, 1))); err != nil {
		t.Fatal(err)
	}
	if g.Before(dropped) {
		t.Fatal("nothing was dropped yet")
	}
	if err := g.Drop(day.AddDate(0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	again, err := s.Graveyard()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*spool.Graveyard{g, again} {
		if !x.Before(older) || !x.Before(dropped) || x.Before(newer) {
			t.Fatal("the border is wrong")
		}
		if got, err := x.Find(dropped); got != nil || err != nil {
			t.Fatalf("got %+v, %v", got, err)
		}
		if got, err := x.Find(newer); got == nil || err != nil {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
}

func TestAsideAndVolumeShareTheIds(t *testing.T) {
	s, dir := open(t)
	id, other := create(t, s), ""
	if err := s.Create(id, true); !errors.Is(err, os.ErrExist) {
		t.Fatalf("got %v", err)
	}
	other = create(t, s)
	if err := s.Remove(other); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(other, true); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(other, false); !errors.Is(err, os.ErrExist) {
		t.Fatalf("got %v", err)
	}
	if !s.IsAside(other) || s.IsAside(id) || s.Dir(other) != filepath.Join(dir+"-aside", other) {
		t.Fatalf("got %s", s.Dir(other))
	}
	if err := s.AppendForgotten(other); err != nil {
		t.Fatal(err)
	}
	ids, err := s.IDs()
	if err != nil || len(ids) != 2 || ids[0] != other {
		t.Fatalf("got %v, %v", ids, err)
	}
}

func TestMachinesCauseOutweighsAClientsSignal(t *testing.T) {
	client, wall, stopping := wirev1.ExitCause_EXIT_CAUSE_SIGNALED_BY_CLIENT, wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT, wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING
	exited := wirev1.ExitCause_EXIT_CAUSE_EXITED
	for _, x := range [][3]wirev1.ExitCause{
		{exited, client, client}, {client, wall, wall}, {wall, client, wall}, {wall, stopping, wall}, {client, client, client}, {exited, 0, exited},
	} {
		if got := spool.StrongerCause(x[0], x[1]); got != x[2] {
			t.Errorf("%v then %v: got %v, want %v", x[0], x[1], got, x[2])
		}
	}
	for _, x := range []struct {
		recorded wirev1.ExitCause
		ended    spool.Ended
		want     wirev1.ExitCause
	}{
		{client, spool.Ended{Code: 0}, exited},
		{client, spool.Ended{Code: 143}, client},
		{client, spool.Ended{Signal: 15}, client},
		{wall, spool.Ended{Code: 0}, wall},
		{exited, spool.Ended{Signal: 9, OutOfMemory: true}, wirev1.ExitCause_EXIT_CAUSE_OUT_OF_MEMORY},
	} {
		if got := spool.CauseOf(x.recorded, x.ended); got != x.want {
			t.Errorf("%v with %+v: got %v, want %v", x.recorded, x.ended, got, x.want)
		}
	}
}

// Whatever a state file holds, from whichever version or crash: no panic, and the whole lines count.
func FuzzState(f *testing.F) {
	f.Add("started 1 2 e\ncause 4\ngap out 5 1\ngapend out 9\ntail err 7\nended 1 0 0 5 6 7 8 0\nforgotten\n")
	f.Add("forbidden s/one\n")
	f.Add("failed 1 2 e \"text\"\n")
	f.Add("gap out 1\nended 1\nstarted\n\n \n")
	f.Fuzz(func(t *testing.T, text string) {
		s, _ := open(t)
		id := create(t, s)
		if err := os.WriteFile(s.File(id, "state"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := s.State(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"out", "err"} {
			b := spool.NewBook(s, id, name, st)
			for at := uint64(0); at < 64; {
				gap, until := b.At(at, 64)
				next := until
				if gap != nil {
					next = gap.To
				}
				if next <= at {
					t.Fatalf("%q: %s stands still at %d", text, name, at)
				}
				at = next
			}
		}
	})
}
