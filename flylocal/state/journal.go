package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// journal is a file of JSON lines:
//
//	{"kind":"machine","id":"…","value":{…}}     the machine is this now
//	{"kind":"machine","id":"…"}                 the machine is gone
//
// A line is written by one write. A file per record would be simpler, and costs a file's creation for each change.
// When most of the file is old it is written anew beside itself and renamed over.
type journal struct {
	path string
	file *os.File
	size int64
	live map[key]span
	used int64 // Bytes of the lines that count.
}

type key struct{ kind, id string }

type span struct{ at, length int64 }

type line struct {
	Kind  string          `json:"kind"`
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value,omitempty"`
}

// smallJournal is the size up to which old lines do not matter.
const smallJournal = 16 << 20

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	j := &journal{path: path, file: file, live: map[key]span{}}
	if err := j.scan(); err != nil {
		file.Close()
		return nil, err
	}
	return j, nil
}

// scan finds the lines that count. A last line without its end was being written when the platform was killed: it is
// cut off. Any other line that is no record means that the file was damaged.
func (j *journal) scan() error {
	data, err := io.ReadAll(j.file)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	for j.size < int64(len(data)) {
		rest := data[j.size:]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		var l line
		if err := json.Unmarshal(rest[:end], &l); err != nil {
			return fmt.Errorf("state file %s is damaged at byte %d (%w); remove it, or the whole state directory", j.path, j.size, err)
		}
		j.note(l, int64(end)+1)
	}
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

func (j *journal) note(l line, length int64) {
	k := key{l.Kind, l.ID}
	j.used -= j.live[k].length
	delete(j.live, k)
	if l.Value != nil {
		j.live[k] = span{j.size, length}
		j.used += length
	}
	j.size += length
}

func (j *journal) put(kind, id string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("state %s %s: %w", kind, id, err)
	}
	return j.write(line{Kind: kind, ID: id, Value: raw})
}

func (j *journal) drop(kind, id string) error { return j.write(line{Kind: kind, ID: id}) }

func (j *journal) write(l line) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	raw = append(raw, '\n')
	if _, err := j.file.WriteAt(raw, j.size); err != nil {
		// Half a line in the middle would damage the file once the next one follows.
		return fmt.Errorf("state: %w", errors.Join(err, j.file.Truncate(j.size)))
	}
	j.note(l, int64(len(raw)))
	if j.size > smallJournal && j.size > 4*j.used {
		return j.compact()
	}
	return nil
}

// compact writes the lines that count into a new file and puts it in the old one's place.
func (j *journal) compact() error {
	file, err := os.OpenFile(j.path+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	next := &journal{path: j.path, file: file, live: map[key]span{}}
	for _, k := range j.keys("") {
		raw, err := j.read(k)
		if err == nil {
			_, err = file.WriteAt(raw, next.size)
		}
		if err != nil {
			file.Close()
			return fmt.Errorf("state: %w", err)
		}
		next.note(line{Kind: k.kind, ID: k.id, Value: raw}, int64(len(raw)))
	}
	if err := os.Rename(j.path+".tmp", j.path); err != nil {
		file.Close()
		return fmt.Errorf("state: %w", err)
	}
	j.file.Close()
	*j = *next
	return nil
}

// keys lists what lives of a kind, or everything, in the order of writing.
func (j *journal) keys(kind string) []key {
	var all []key
	for k := range j.live {
		if kind == "" || k.kind == kind {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b key) int { return cmp.Compare(j.live[a].at, j.live[b].at) })
	return all
}

func (j *journal) read(k key) ([]byte, error) {
	s := j.live[k]
	raw := make([]byte, s.length)
	_, err := j.file.ReadAt(raw, s.at)
	return raw, err
}

func (j *journal) close() error { return j.file.Close() }

func readAll[T any](j *journal, kind string) ([]*T, error) {
	var all []*T
	for _, k := range j.keys(kind) {
		raw, err := j.read(k)
		if err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
		var l line
		one := new(T)
		err = json.Unmarshal(raw, &l)
		if err == nil {
			err = json.Unmarshal(l.Value, one)
		}
		if err != nil {
			return nil, fmt.Errorf("state file %s: %s %s: %w", j.path, k.kind, k.id, err)
		}
		all = append(all, one)
	}
	return all, nil
}
