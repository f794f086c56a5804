// Package rawjson edits JSON text in place: a value is replaced, added or removed, and every other byte stays as it
// was, with its key order, white space, escapes and number text. A machine's config is kept as its sender wrote it;
// going through a Go struct or map would lose unknown fields, order and numbers past 2^53.
//
// All functions want valid JSON (json.Valid) and answer an error otherwise; none changes its input.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ErrNotObject is answered when a path steps into something that is neither object nor array.
var ErrNotObject = errors.New("not a JSON object")

// Member is one member of an object, or one element of an array (Key is then its index). Offsets are into the text
// that was scanned.
type Member struct {
	// Key is the decoded key.
	Key string
	// KeyStart is where the key's quote stands (for arrays, where the value starts).
	KeyStart int
	// Start and End bound the value.
	Start, End int
}

// Members lists the members of the object (or array) that text holds, in their order, duplicates included.
func Members(text []byte) ([]Member, error) {
	if !json.Valid(text) {
		return nil, errors.New("not valid JSON")
	}
	start := skipSpace(text, 0)
	return membersAt(text, start)
}

// Get answers the bytes of the value at path, exactly as they stand, and whether it is there. Of duplicate keys the
// last one counts, as it does for encoding/json.
func Get(text []byte, path ...string) ([]byte, bool) {
	if !json.Valid(text) {
		return nil, false
	}
	start := skipSpace(text, 0)
	end := skipValue(text, start)
	for _, key := range path {
		members, err := membersAt(text, start)
		if err != nil {
			return nil, false
		}
		m, ok := last(members, key)
		if !ok {
			return nil, false
		}
		start, end = m.Start, m.End
	}
	return text[start:end], true
}

// Set answers text with the value at path set. A missing last key is added at the object's end; a missing object on
// the way is made, and so is one that is null. An array is addressed by an existing index.
func Set(text []byte, value []byte, path ...string) ([]byte, error) {
	if !json.Valid(text) || !json.Valid(value) {
		return nil, errors.New("not valid JSON")
	}
	start := skipSpace(text, 0)
	for i, key := range path {
		if isNull(text, start) {
			return splice(text, start, start+len("null"), nest(value, path[i:])), nil
		}
		members, err := membersAt(text, start)
		if err != nil {
			return nil, fmt.Errorf("set %q: %w", key, err)
		}
		m, ok := last(members, key)
		switch {
		case ok && i == len(path)-1:
			return splice(text, m.Start, m.End, value), nil
		case ok:
			start = m.Start
			continue
		case text[start] != '{':
			return nil, fmt.Errorf("set: the array has no element %q", key)
		}
		added := append(quote(key), ':')
		added = append(added, nest(value, path[i+1:])...)
		at := start + 1
		if len(members) > 0 {
			added = append([]byte{','}, added...)
			at = members[len(members)-1].End
		}
		return splice(text, at, at, added), nil
	}
	return nil, errors.New("set: empty path")
}

// Delete answers text without the member at path. A path that leads nowhere changes nothing. Every duplicate of the
// key goes.
func Delete(text []byte, path ...string) ([]byte, error) {
	if !json.Valid(text) {
		return nil, errors.New("not valid JSON")
	}
	if len(path) == 0 {
		return nil, errors.New("delete: empty path")
	}
	for {
		next, found := deleteOne(text, path)
		if !found {
			return next, nil
		}
		text = next
	}
}

func deleteOne(text []byte, path []string) ([]byte, bool) {
	start := skipSpace(text, 0)
	for i, key := range path {
		members, err := membersAt(text, start)
		if err != nil {
			return text, false
		}
		m, ok := last(members, key)
		if !ok {
			return text, false
		}
		if i < len(path)-1 {
			start = m.Start
			continue
		}
		index := 0
		for j := range members {
			if members[j].Start == m.Start {
				index = j
			}
		}
		from, to := m.KeyStart, m.End
		switch {
		case index > 0:
			from = members[index-1].End
		case len(members) > 1:
			to = members[1].KeyStart
		}
		return splice(text, from, to, nil), true
	}
	return text, false
}

func last(members []Member, key string) (Member, bool) {
	for i := len(members) - 1; i >= 0; i-- {
		if members[i].Key == key {
			return members[i], true
		}
	}
	return Member{}, false
}

func isNull(text []byte, at int) bool { return bytes.HasPrefix(text[at:], []byte("null")) }

func nest(value []byte, path []string) []byte {
	out := value
	for i := len(path) - 1; i >= 0; i-- {
		wrapped := append([]byte{'{'}, quote(path[i])...)
		wrapped = append(append(wrapped, ':'), out...)
		out = append(wrapped, '}')
	}
	return out
}

func splice(text []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(text)-(to-from)+len(with))
	out = append(out, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}

func quote(s string) []byte { return String(s) }

// String encodes s as a JSON string without escaping what needs no escape in JSON.
func String(s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(`""`)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// membersAt scans the container that starts at the given offset of valid JSON.
func membersAt(text []byte, start int) ([]Member, error) {
	isArray := text[start] == '['
	if text[start] != '{' && !isArray {
		return nil, ErrNotObject
	}
	var members []Member
	i := skipSpace(text, start+1)
	for i < len(text) && text[i] != '}' && text[i] != ']' {
		m := Member{KeyStart: i, Start: i, Key: strconv.Itoa(len(members))}
		if !isArray {
			keyEnd := skipString(text, i)
			if err := json.Unmarshal(text[i:keyEnd], &m.Key); err != nil {
				return nil, fmt.Errorf("key at offset %d: %w", i, err)
			}
			m.Start = skipSpace(text, skipSpace(text, keyEnd)+1)
		}
		m.End = skipValue(text, m.Start)
		members = append(members, m)
		i = skipSpace(text, m.End)
		if i < len(text) && text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return members, nil
}

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++
	}
	return i
}

func skipString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipValue(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default:
			i = skipScalar(text, i)
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

func skipScalar(text []byte, i int) int {
	for i < len(text) && !bytes.ContainsRune([]byte(",:]} \t\r\n"), rune(text[i])) {
		i++
	}
	return i
}
