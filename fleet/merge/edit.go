package merge

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// set writes value at path, making the objects on the way that are missing.
func set(raw []byte, path string, value []byte) ([]byte, error) {
	pl, err := find(raw, path)
	if err != nil {
		return nil, err
	}
	if pl.found {
		return splice(raw, pl.at, wrap(pl.missing, value)), nil
	}
	text := wrap(pl.missing[1:], value)
	if kind(raw, pl.parent) == '[' {
		if n := fmt.Sprint(len(pl.siblings)); pl.missing[0] != "-" && pl.missing[0] != n {
			return nil, fmt.Errorf("config %s has %s elements, so %s is no place in it", orRoot(pl.under), n, path)
		}
		return insert(raw, pl, text), nil
	}
	return insert(raw, pl, member(pl.missing[0], text)), nil
}

// remove takes the value at path out, with its name and one comma. A path that leads nowhere changes nothing.
func remove(raw []byte, path string) ([]byte, error) {
	pl, err := find(raw, path)
	if err != nil || !pl.found || len(pl.missing) > 0 {
		return raw, err
	}
	kids, i := pl.siblings, pl.index
	cut := span{kids[i].key, kids[i].val.end}
	switch {
	case i > 0:
		cut.start = kids[i-1].val.end
	case len(kids) > 1:
		cut.end = kids[1].key
	}
	return splice(raw, cut, nil), nil
}

func find(raw []byte, path string) (place, error) {
	root, err := whole(raw)
	if err != nil {
		return place{}, err
	}
	return locate(raw, root, path)
}

// insert puts text behind the last child, or behind the opening bracket.
func insert(raw []byte, pl place, text []byte) []byte {
	if n := len(pl.siblings); n > 0 {
		end := pl.siblings[n-1].val.end
		return splice(raw, span{end, end}, append([]byte{','}, text...))
	}
	return splice(raw, span{pl.parent.start + 1, pl.parent.start + 1}, text)
}

// wrap puts value into the objects named: wrap([a b], v) is {"a":{"b":v}}.
func wrap(names []string, value []byte) []byte {
	for i := len(names) - 1; i >= 0; i-- {
		value = append(append([]byte{'{'}, member(names[i], value)...), '}')
	}
	return value
}

func member(name string, value []byte) []byte {
	return append(append(quote(name), ':'), value...)
}

// quote never fails: bytes that are not UTF-8 become U+FFFD, the error only says so.
func quote(s string) []byte {
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}

func splice(raw []byte, at span, text []byte) []byte {
	return bytes.Join([][]byte{raw[:at.start], text, raw[at.end:]}, nil)
}
