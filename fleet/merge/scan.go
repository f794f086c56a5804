package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// span is a half-open range of bytes of the config.
type span struct{ start, end int }

// child is a member of an object, or an element of an array (whose name is then its index and whose key is empty).
type child struct {
	name string
	key  int // where the member's text begins: its name in an object, its value in an array
	val  span
}

// DuplicateKeyError says that an object names a key twice. Readers differ in which of the two counts, so no edit is safe.
type DuplicateKeyError struct {
	// Path is the JSON pointer of the key.
	Path string
}

// Error implements error.
func (e *DuplicateKeyError) Error() string {
	return fmt.Sprintf("the config has the key %s twice; it is not edited, because readers disagree on which one counts", e.Path)
}

// options keep bytes that are not UTF-8 as they are; names that occur twice are refused at every depth.
var options = []jsontext.Options{jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(false)}

// whole checks that raw is one JSON value and finds it, white space around it left out.
func whole(raw []byte) (span, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), options...)
	v, err := d.ReadValue()
	if err != nil {
		return span{}, scanError(err)
	}
	end := int(d.InputOffset())
	s := span{end - len(v), end}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return span{}, fmt.Errorf("the config has text after its end, at byte %d", end)
	}
	return s, nil
}

func scanError(err error) error {
	var syn *jsontext.SyntacticError
	if errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syn) {
		return &DuplicateKeyError{Path: string(syn.JSONPointer)}
	}
	if errors.As(err, &syn) {
		// Not the library's text: it may quote the bytes, and they may be a secret's.
		return fmt.Errorf("the config is not JSON at byte %d", syn.ByteOffset)
	}
	return errors.New("the config is not JSON: it ends too early")
}

// children lists what the object or array at s holds. The text was checked by whole before.
func children(raw []byte, s span) ([]child, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw[s.start:s.end]), options...)
	open, err := d.ReadToken()
	if err != nil {
		return nil, scanError(err)
	}
	object := open.Kind() == '{'
	var out []child
	for i := 0; ; i++ {
		if k := d.PeekKind(); k == '}' || k == ']' {
			return out, nil
		}
		c := child{name: strconv.Itoa(i)}
		if object {
			name, err := d.ReadValue()
			if err != nil {
				return nil, scanError(err)
			}
			c.key = s.start + int(d.InputOffset()) - len(name)
			decoded, err := jsontext.AppendUnquote(nil, name)
			if err != nil && !strings.Contains(err.Error(), "UTF-8") {
				return nil, scanError(err)
			}
			c.name = string(decoded)
		}
		v, err := d.ReadValue()
		if err != nil {
			return nil, scanError(err)
		}
		end := s.start + int(d.InputOffset())
		c.val = span{end - len(v), end}
		if !object {
			c.key = c.val.start
		}
		out = append(out, c)
	}
}

// kind is the first byte of a value: { [ " n t f or a digit or minus.
func kind(raw []byte, s span) byte { return raw[s.start] }

// place is where a pointer leads, as far as it leads anywhere.
type place struct {
	found bool
	at    span // the value, when found

	parent   span    // the deepest container on the way
	siblings []child // what parent holds
	index    int     // of the found one among siblings
	missing  []string
	// under is the pointer of parent, for messages.
	under string
}

// locate follows a pointer. A missing member, or a null on the way, is not an error: place.missing says what is not there.
func locate(raw []byte, root span, path string) (place, error) {
	p := jsontext.Pointer(path)
	if !p.IsValid() || path == "" {
		return place{}, fmt.Errorf("%q is not a JSON pointer to a part of a config", path)
	}
	var tokens []string
	for t := range p.Tokens() {
		tokens = append(tokens, t)
	}
	at, under := root, ""
	var pl place
	for i, t := range tokens {
		k := kind(raw, at)
		if k == 'n' && i > 0 {
			// A null stands for a container that is not there: it is what gets replaced.
			pl.missing = tokens[i:]
			pl.found, pl.at = true, at
			return pl, nil
		}
		if k != '{' && k != '[' {
			return place{}, fmt.Errorf("config %s is neither an object nor a list, so %s cannot be in it", orRoot(under), path)
		}
		kids, err := children(raw, at)
		if err != nil {
			return place{}, err
		}
		pl = place{parent: at, siblings: kids, under: under}
		j := indexOf(kids, t)
		if j < 0 {
			pl.missing = tokens[i:]
			return pl, nil
		}
		pl.index, at, under = j, kids[j].val, under+"/"+escape(t)
	}
	pl.found, pl.at = true, at
	return pl, nil
}

func indexOf(kids []child, name string) int {
	for i, k := range kids {
		if k.name == name {
			return i
		}
	}
	return -1
}

func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

func orRoot(path string) string {
	if path == "" {
		return "(top)"
	}
	return path
}

// Pointer makes a JSON pointer from plain names: Pointer("env", "A/B") is "/env/A~1B".
func Pointer(name ...string) string {
	var b strings.Builder
	for _, n := range name {
		b.WriteString("/" + escape(n))
	}
	return b.String()
}

// Get is the text of the value at a path, as it stands; ok is false where there is none. A null is found.
func Get(config json.RawMessage, path string) (value json.RawMessage, ok bool, err error) {
	root, err := whole(config)
	if err != nil {
		return nil, false, err
	}
	pl, err := locate(config, root, path)
	if err != nil || !pl.found || len(pl.missing) > 0 {
		return nil, false, err
	}
	return bytes.Clone(config[pl.at.start:pl.at.end]), true, nil
}
