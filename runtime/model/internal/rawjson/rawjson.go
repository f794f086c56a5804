// Package rawjson takes JSON apart and puts it together without changing a byte of the values. encoding/json
// compacts raw messages, escapes < and > in them, and loses half surrogates when it decodes a string.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one member of an object. Value is raw.
type Member struct {
	Name  string
	Value []byte
}

// Members are an object's members, in order, each value in its own bytes.
func Members(object []byte) ([]Member, error) {
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errors.New("not a JSON object")
	}
	var members []Member
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("a JSON object's member: %w", err)
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("a JSON object's member: %w", err)
		}
		members = append(members, Member{Name: key, Value: bytes.Clone(value)})
	}
	return members, nil
}

// Object is an object in the making: Object{}.Str("type", "text").Raw("input", args).Bytes().
type Object []Member

// Str adds a string.
func (o Object) Str(name, text string) Object { return o.Raw(name, AppendString(nil, text)) }

// Raw adds a value in its own bytes.
func (o Object) Raw(name string, value []byte) Object {
	return append(o, Member{Name: name, Value: value})
}

// Bytes is the object.
func (o Object) Bytes() []byte { return AppendObject(nil, o) }

// AppendObject writes members as an object.
func AppendObject(dst []byte, members []Member) []byte {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, m.Name), ':')
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

// AppendArray writes values as a list.
func AppendArray(dst []byte, values [][]byte) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, v...)
	}
	return append(dst, ']')
}

// Merge adds the members of an object to members. One that is there already, or reserved, is an error.
func Merge(members []Member, object []byte, reserved ...string) ([]Member, error) {
	if len(object) == 0 {
		return members, nil
	}
	more, err := Members(object)
	if err != nil {
		return nil, err
	}
	for _, m := range more {
		if Find(members, m.Name) != nil || slices.Contains(reserved, m.Name) {
			return nil, fmt.Errorf("member %q is written by the client", m.Name)
		}
		members = append(members, m)
	}
	return members, nil
}

// Find is the value of the member of that name, or nil.
func Find(members []Member, name string) []byte {
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// AppendString writes text as a JSON string. What is not UTF-8 becomes U+FFFD.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	// The only error is invalid UTF-8, and then the string is still written, mended.
	out, _ := jsontext.AppendQuote(dst, text)
	return out
}

// AppendBody writes the inside of a raw JSON string: what stands between its quotes. Two of them behind one
// another are the inside of the joined string, also where the pieces part a surrogate pair. A null has none.
func AppendBody(dst, raw []byte) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return dst, nil
	}
	if raw[0] != '"' || len(raw) < 2 {
		return dst, errors.New("not a JSON string")
	}
	return append(dst, raw[1:len(raw)-1]...), nil
}

// Text is the text of a string's inside, for people: half a surrogate is U+FFFD.
func Text(body []byte) (string, error) {
	var s string
	err := json.Unmarshal(Quoted(body), &s)
	return s, err
}

// Inner is the JSON text that a string's inside holds. Half a surrogate cannot stand in text, so it stays an escape,
// which means the same inside a string of the inner JSON.
func Inner(body []byte) ([]byte, error) {
	if !json.Valid(Quoted(body)) {
		return nil, errors.New("not a JSON string")
	}
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			out = append(out, body[i])
			continue
		}
		i++
		if body[i] != 'u' {
			out = append(out, unescape[body[i]])
			continue
		}
		r := hex4(body[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		if len(body) > i+6 && body[i+1] == '\\' && body[i+2] == 'u' {
			if joined := utf16.DecodeRune(r, hex4(body[i+3:])); joined != utf8.RuneError {
				out = utf8.AppendRune(out, joined)
				i += 6
				continue
			}
		}
		out = fmt.Appendf(out, `\u%04x`, r)
	}
	return out, nil
}

var unescape = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hex4 reads four digits of a string that is known to be valid.
func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n)
}

// Quoted is the raw JSON string that a string's inside makes.
func Quoted(body []byte) []byte {
	out := make([]byte, 0, len(body)+2)
	out = append(out, '"')
	out = append(out, body...)
	return append(out, '"')
}
