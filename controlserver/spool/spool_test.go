//go:build linux

package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func open(t *testing.T) (*spool.Spool, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spool")
	s, err := spool.Open(dir, dir+"-aside")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

func create(t *testing.T, s *spool.Spool) string {
	t.Helper()
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Create(id, false); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSpoolIsPrivateAndHasOneHolder(t *testing.T) {
	s, dir := open(t)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("got %v, %v", info.Mode(), err)
	}
	if _, err := spool.Open(dir, dir+"-aside"); !errors.Is(err, spool.ErrHeld) {
		t.Fatalf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := spool.Open(dir, dir+"-aside")
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

func TestIdIsTakenOnce(t *testing.T) {
	s, _ := open(t)
	id := create(t, s)
	if err := s.Create(id, false); !errors.Is(err, os.ErrExist) {
		t.Fatalf("got %v", err)
	}
	for _, bad := range []string{"", ".", "..", "../x", strings.ToUpper(id)} {
		if err := s.Create(bad, false); err == nil {
			t.Errorf("%q was made", bad)
		}
	}
}

func TestRecordKeepsNamesAndNoValues(t *testing.T) {
	s, _ := open(t)
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	r := &wirev1.ExecRequest{
		ExecId: id, Scope: "s", Fence: 2, Digest: []byte("d"), IfEpoch: "asked", From: &wirev1.Offsets{Stdout: 9},
		Spec: &wirev1.ExecSpec{
			Argv: [][]byte{[]byte("a\xff")}, Env: []*wirev1.EnvVar{{Name: []byte("A"), Value: []byte("plain-value")}},
			SecretEnv: []*wirev1.EnvVar{{Name: []byte("B"), Value: []byte("secret-value")}},
			Stdin:     &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_INLINE, Inline: []byte("inline-content")},
			DrainMs:   7,
		},
	}
	before := proto.Clone(r)
	b, err := spool.Record(r, "now")
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(r, before) {
		t.Fatal("recording changed the request")
	}
	for _, secret := range []string{"plain-value", "secret-value", "inline-content"} {
		if strings.Contains(string(b), secret) {
			t.Fatalf("%s is on record", secret)
		}
	}
	l, err := s.Begin(id, false, b)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	st, err := s.State(id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := st.Request()
	if err != nil {
		t.Fatal(err)
	}
	if got.GetIfEpoch() != "now" || string(got.GetSpec().GetArgv()[0]) != "a\xff" || string(got.GetSpec().GetSecretEnv()[0].GetName()) != "B" ||
		got.GetSpec().GetStdin().GetLength() != 14 || got.GetSpec().GetDrainMs() != 7 || got.GetFrom() != nil {
		t.Fatalf("got %v", got)
	}
	bare, err := s.State(create(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bare.Request(); !errors.Is(err, spool.ErrUnknown) {
		t.Fatalf("a bare directory: %v", err)
	}
}

// begun takes a fresh id and opens its log.
func begun(t *testing.T, s *spool.Spool) (string, *spool.Log) {
	t.Helper()
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Begin(id, false, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return id, l
}

func TestStateFoldsItsLinesAndIgnoresATornOne(t *testing.T) {
	s, _ := open(t)
	id, l := begun(t, s)
	steps := []error{
		l.Started(42, 1000, "epoch"),
		s.AppendCause(id, wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT),
		s.AppendCause(id, wirev1.ExitCause_EXIT_CAUSE_MACHINE_STOPPING),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	want := spool.Ended{Signal: 9, Core: true, At: 2000, UserUS: 1, SystemUS: 2, MaxRSS: 3}
	before, err := s.State(id)
	if err != nil || before.PID != 42 || before.Epoch != "epoch" || before.Cause != wirev1.ExitCause_EXIT_CAUSE_WALL_TIMEOUT || before.Ended != nil {
		t.Fatalf("got %+v, %v", before, err)
	}
	if err := s.AppendEnded(id, want); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.File(id, "state"))
	if err != nil {
		t.Fatal(err)
	}
	if st, _ := s.State(id); st.Ended == nil || *st.Ended != want {
		t.Fatalf("got %+v", st)
	}
	exit := &wirev1.Exit{Signal: 9, StdoutEnd: 7}
	for cut := strings.Index(string(whole), "ended"); cut < len(whole); cut++ {
		if err := os.WriteFile(s.File(id, "state"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if st, err := s.State(id); err != nil || st.Ended != nil || st.PID != 42 {
			t.Fatalf("torn at %d: %+v, %v", cut, st, err)
		}
		// What comes after a torn line counts.
		if err := s.AppendExit(id, exit); err != nil {
			t.Fatal(err)
		}
		st, err := s.State(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := st.Exit(); err != nil || !proto.Equal(got, exit) || st.PID != 42 {
			t.Fatalf("after a tear at %d: %v, %+v, %v", cut, got, st, err)
		}
	}
}

func TestFailureTextSurvives(t *testing.T) {
	s, _ := open(t)
	id, l := begun(t, s)
	f := spool.Failure{Step: wirev1.StartFailure_START_FAILURE_CWD, Text: "with \"quotes\"\nand a line"}
	if err := l.Failed(5, "e", f); err != nil {
		t.Fatal(err)
	}
	if st, err := s.State(id); err != nil || st.Failure == nil || *st.Failure != f || st.StartedAt != 5 {
		t.Fatalf("got %+v, %v", st, err)
	}
}

func TestFirstExitStaysAndATornOneCountsAsNone(t *testing.T) {
	s, _ := open(t)
	id, _ := begun(t, s)
	final := func() *wirev1.Exit {
		t.Helper()
		st, err := s.State(id)
		if err != nil {
			t.Fatal(err)
		}
		exit, err := st.Exit()
		if err != nil {
			t.Fatal(err)
		}
		return exit
	}
	if got := final(); got != nil {
		t.Fatalf("before: %v", got)
	}
	start, err := os.ReadFile(s.File(id, "state"))
	if err != nil {
		t.Fatal(err)
	}
	want := &wirev1.Exit{Code: 3, StdoutEnd: 7, EndedAtMs: 9, Rusage: &wirev1.Rusage{UserUs: 1}}
	if err := errors.Join(s.AppendExit(id, want), s.AppendExit(id, &wirev1.Exit{Code: 4})); err != nil {
		t.Fatal(err)
	}
	if got := final(); !proto.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	whole, err := os.ReadFile(s.File(id, "state"))
	if err != nil {
		t.Fatal(err)
	}
	end := len(start) + strings.Index(string(whole[len(start)+1:]), "\n") + 1
	for cut := len(start); cut < end; cut++ {
		if err := os.WriteFile(s.File(id, "state"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := final(); got != nil {
			t.Fatalf("cut at %d: %v", cut, got)
		}
	}
}

func TestFencesSurviveAndStayApart(t *testing.T) {
	s, dir := open(t)
	if f, err := s.Fence("a"); f != 0 || err != nil {
		t.Fatalf("got %d, %v", f, err)
	}
	if err := errors.Join(s.RaiseFence("a", 5), s.RaiseFence("a/b", 1<<63), s.RaiseFence("a", 6)); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	again, err := spool.Open(dir, dir+"-aside")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	for scope, want := range map[string]uint64{"a": 6, "a/b": 1 << 63, "b": 0} {
		if f, err := again.Fence(scope); f != want || err != nil {
			t.Errorf("%s: got %d, %v", scope, f, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "fences", ".*"))
	if err != nil || len(left) != 0 {
		t.Fatalf("left over: %v, %v", left, err)
	}
}

func TestNewestExecsComeFirst(t *testing.T) {
	s, dir := open(t)
	a, b := create(t, s), create(t, s)
	if err := os.Mkdir(filepath.Join(dir, "execs", "stray"), 0o700); err != nil {
		t.Fatal(err)
	}
	ids, err := s.IDs()
	if err != nil || len(ids) != 2 || ids[0] != b || ids[1] != a {
		t.Fatalf("got %v, %v", ids, err)
	}
}
