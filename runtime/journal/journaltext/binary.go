package journaltext

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
)

// maxField bounds what is read of a broken file.
const maxField = 1 << 20

// Encode writes entries as the store keeps them: columns, and the body's bytes. For each entry: session and
// submission (16 bytes each), then as uvarints seq, fence, kind and the time in ms, then call and body, each after
// its length.
func Encode(entries []journal.Entry) ([]byte, error) {
	var out []byte
	for _, e := range entries {
		kind, body, err := journal.Marshal(e.Body)
		if err != nil {
			return nil, err
		}
		out = append(out, e.Session[:]...)
		out = append(out, e.Submission[:]...)
		for _, n := range []int64{e.Seq, e.Fence, int64(kind), e.At.UnixMilli()} {
			out = binary.AppendUvarint(out, uint64(n))
		}
		for _, field := range [][]byte{[]byte(e.Call), body} {
			out = binary.AppendUvarint(out, uint64(len(field)))
			out = append(out, field...)
		}
	}
	return out, nil
}

// Decode reads what Encode wrote, with this build or another.
func Decode(data []byte) ([]journal.Entry, error) {
	r := bytes.NewReader(data)
	var entries []journal.Entry
	for r.Len() > 0 {
		entry, err := decodeEntry(r)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(entries)+1, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func decodeEntry(r *bytes.Reader) (journal.Entry, error) {
	var e journal.Entry
	if _, err := io.ReadFull(r, e.Session[:]); err != nil {
		return e, err
	}
	if _, err := io.ReadFull(r, e.Submission[:]); err != nil {
		return e, err
	}
	var numbers [4]uint64
	for i := range numbers {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return e, err
		}
		numbers[i] = n
	}
	e.Seq, e.Fence, e.Kind, e.At = int64(numbers[0]), int64(numbers[1]), journal.Kind(numbers[2]), time.UnixMilli(int64(numbers[3])).UTC()
	call, err := decodeField(r)
	if err != nil {
		return e, err
	}
	body, err := decodeField(r)
	if err != nil {
		return e, err
	}
	e.Call = string(call)
	e.Body, err = journal.Unmarshal(e.Kind, body)
	return e, err
}

func decodeField(r *bytes.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxField {
		return nil, errors.New("a field is too long")
	}
	field := make([]byte, n)
	_, err = io.ReadFull(r, field)
	return field, err
}
