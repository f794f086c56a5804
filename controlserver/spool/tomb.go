//go:build linux

package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Tomb is what is left of a collected exec: enough to answer a late retry of its start with its result,
// and never with a second run.
type Tomb struct {
	ID     string
	Scope  string
	Digest []byte
	// One of these.
	Exit      *wirev1.Exit
	Lost      *wirev1.Lost
	Forbidden bool
}

// tombLine is a tomb on disk.
type tombLine struct {
	ID        string          `json:"id"`
	Scope     string          `json:"scope"`
	Digest    []byte          `json:"digest,omitempty"`
	Exit      json.RawMessage `json:"exit,omitempty"`
	Lost      json.RawMessage `json:"lost,omitempty"`
	Forbidden bool            `json:"forbidden,omitempty"`
}

// Graveyard keeps tombs, in a file a day. Its methods are safe for concurrent use by one process.
type Graveyard struct {
	spool *Spool

	mu    sync.Mutex
	index map[string]grave
	// newest is the newest id whose tomb was dropped: it and older ones cannot be told apart from ids
	// that were never seen.
	newest string
}

type grave struct {
	day    string
	offset int64
}

const dayFormat = "2006-01-02"

// maxTomb bounds one line.
const maxTomb = 64 << 10

// Graveyard reads the index of all tombs. A torn last line is as if it were not there: the directory of
// its exec still is, because a tomb is on the disk before its exec goes.
func (s *Spool) Graveyard() (*Graveyard, error) {
	g := &Graveyard{spool: s, index: map[string]grave{}}
	newest, err := readFile(s.under("newest"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read tombstones: %w", err)
	}
	g.newest = string(newest)
	days, err := g.days()
	if err != nil {
		return nil, err
	}
	for _, day := range days {
		if err := g.read(day, func(id string, at int64) { g.index[id] = grave{day, at} }); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *Graveyard) path(day string) string { return filepath.Join(g.spool.under("tombs"), day) }

func (g *Graveyard) days() ([]string, error) {
	names, err := readNames(g.spool.under("tombs"))
	if err != nil {
		return nil, fmt.Errorf("read tombstones: %w", err)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(n string) bool { _, err := time.Parse(dayFormat, n); return err != nil }), nil
}

func (g *Graveyard) read(day string, each func(id string, at int64)) error {
	b, err := os.ReadFile(g.path(day))
	if err != nil {
		return fmt.Errorf("read tombstones: %w", err)
	}
	for at := 0; at < len(b); {
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			return nil
		}
		var line struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(b[at:at+end], &line) == nil && line.ID != "" {
			each(line.ID, int64(at))
		}
		at += end + 1
	}
	return nil
}

// Bury puts a tomb on the disk. Only after that may the exec's directory go.
func (g *Graveyard) Bury(t Tomb, now time.Time) error {
	line := tombLine{ID: t.ID, Scope: t.Scope, Digest: t.Digest, Forbidden: t.Forbidden}
	var err error
	if t.Exit != nil {
		line.Exit, err = protojson.Marshal(t.Exit)
	}
	if t.Lost != nil {
		line.Lost, err = protojson.Marshal(t.Lost)
	}
	if err != nil {
		return fmt.Errorf("bury exec %s: %w", t.ID, err)
	}
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("bury exec %s: %w", t.ID, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	day := now.UTC().Format(dayFormat)
	at, err := g.append(day, append(b, '\n'))
	if err != nil {
		return fmt.Errorf("bury exec %s: %w", t.ID, err)
	}
	g.index[t.ID] = grave{day, at}
	return nil
}

// append writes whole lines only: a torn one of an earlier life is cut off first.
func (g *Graveyard) append(day string, line []byte) (at int64, err error) {
	err = g.spool.withRoom(func() error {
		f, err := os.OpenFile(g.path(day), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if at, err = wholeLines(f); err != nil {
			return err
		}
		if _, err := f.WriteAt(line, at); err != nil {
			return errors.Join(err, f.Truncate(at))
		}
		return f.Sync()
	})
	return at, err
}

// wholeLines is where the last whole line of a file ends.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	from := max(0, info.Size()-maxTomb)
	tail := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	end := from + int64(bytes.LastIndexByte(tail, '\n')) + 1
	return end, f.Truncate(end)
}

// Find returns the tomb of an exec; nil when there is none.
func (g *Graveyard) Find(id string) (*Tomb, error) {
	g.mu.Lock()
	at, ok := g.index[id]
	g.mu.Unlock()
	if !ok {
		return nil, nil
	}
	f, err := os.Open(g.path(at.day))
	if err != nil {
		return nil, fmt.Errorf("read a tombstone: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, at.offset, maxTomb))
	if err != nil {
		return nil, fmt.Errorf("read a tombstone: %w", err)
	}
	b, _, _ = bytes.Cut(b, []byte("\n"))
	return parseTomb(b)
}

func parseTomb(b []byte) (*Tomb, error) {
	var line tombLine
	if err := json.Unmarshal(b, &line); err != nil {
		return nil, fmt.Errorf("a tombstone is damaged: %w", err)
	}
	t := &Tomb{ID: line.ID, Scope: line.Scope, Digest: line.Digest, Forbidden: line.Forbidden}
	read := protojson.UnmarshalOptions{DiscardUnknown: true}
	var err error
	switch {
	case line.Exit != nil:
		t.Exit = new(wirev1.Exit)
		err = read.Unmarshal(line.Exit, t.Exit)
	case line.Lost != nil:
		t.Lost = new(wirev1.Lost)
		err = read.Unmarshal(line.Lost, t.Lost)
	}
	if err != nil {
		return nil, fmt.Errorf("the tombstone of exec %s is damaged: %w", line.ID, err)
	}
	return t, nil
}

// Before says whether an id is at or before the newest one whose tomb was dropped.
func (g *Graveyard) Before(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return id <= g.newest
}

// Drop gives up the tombs of days that ended before a moment.
func (g *Graveyard) Drop(before time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	days, err := g.days()
	if err != nil {
		return err
	}
	last := before.UTC().Format(dayFormat)
	for _, day := range days {
		if day >= last {
			break
		}
		newest := g.newest
		if err := g.read(day, func(id string, _ int64) { newest = max(newest, id) }); err != nil {
			return err
		}
		if _, err := wire.IDTime(newest); newest != "" && err != nil {
			return fmt.Errorf("drop tombstones: %q is no id", newest)
		}
		if err := g.spool.replace(g.spool.under("newest"), []byte(newest)); err != nil {
			return fmt.Errorf("drop tombstones: %w", err)
		}
		if err := os.Remove(g.path(day)); err != nil {
			return fmt.Errorf("drop tombstones: %w", err)
		}
		g.newest = newest
		for id, at := range g.index {
			if at.day == day {
				delete(g.index, id)
			}
		}
	}
	return nil
}
