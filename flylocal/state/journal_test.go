package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func reopen(t *testing.T, s *Store, dir string) *Store {
	t.Helper()
	if s != nil {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shut(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func ids(t *testing.T, s *Store) string {
	t.Helper()
	machines, err := s.Machines()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range machines {
		out = append(out, m.ID+"="+m.State)
	}
	return strings.Join(out, " ")
}

func TestTheLastWriteOfEachRecordCounts(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, nil, dir)
	for _, m := range []Machine{{ID: "a", State: "created"}, {ID: "b", State: "created"}, {ID: "a", State: "started"}, {ID: "c", State: "created"}} {
		if err := s.SaveMachine(&m); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.DropMachine("c"), s.DropMachine("never"), s.SaveApp(&App{Name: "a"})); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s, dir)
	defer shut(t, s)
	if got := ids(t, s); got != "b=created a=started" {
		t.Errorf("%s", got)
	}
	if apps, err := s.Apps(); err != nil || len(apps) != 1 {
		t.Errorf("%v, %v", apps, err)
	}
}

func TestAHalfWrittenLastLineIsCutOff(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, nil, dir)
	if err := s.SaveMachine(&Machine{ID: "a", State: "started"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "state.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"kind":"machine","id":"a","value":{"id":"a","name":"` + strings.Repeat("x", 4096)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s = reopen(t, s, dir)
	if got := ids(t, s); got != "a=started" {
		t.Errorf("%s", got)
	}
	if err := s.SaveMachine(&Machine{ID: "b", State: "stopped"}); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s, dir)
	if got := ids(t, s); got != "a=started b=stopped" {
		t.Errorf("after the next write: %s", got)
	}
	shut(t, s)
	if err := os.WriteFile(filepath.Join(dir, "state.jsonl"), []byte("nonsense\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestOldLinesDoNotFillTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, nil, dir)
	config := []byte(strings.Repeat("x", 1<<20))
	for i := range 60 {
		if err := s.SaveMachine(&Machine{ID: fmt.Sprint(i % 2), State: fmt.Sprint(i), Config: config}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "state.jsonl"))
	if err != nil || info.Size() > smallJournal+(4<<20) {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	s = reopen(t, s, dir)
	defer shut(t, s)
	if got := ids(t, s); got != "0=58 1=59" {
		t.Errorf("%s", got)
	}
}
