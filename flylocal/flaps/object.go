package flaps

import (
	"encoding/json"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/rawjson"
)

// object writes a JSON object member by member. encoding/json would compact the raw config and lose its bytes.
type object struct{ buf []byte }

func (o *object) raw(key string, value []byte) {
	if len(o.buf) == 0 {
		o.buf = append(o.buf, '{')
	} else {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, rawjson.String(key)...)
	o.buf = append(o.buf, ':')
	o.buf = append(o.buf, value...)
}

func (o *object) str(key, value string) { o.raw(key, rawjson.String(value)) }

// optional leaves an empty text out.
func (o *object) optional(key, value string) {
	if value != "" {
		o.str(key, value)
	}
}

// val encodes any other value; the platform's own values always encode.
func (o *object) val(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte("null")
	}
	o.raw(key, text)
}

func (o *object) time(key string, value time.Time) { o.str(key, stamp(value)) }

// nullable writes null for an empty text.
func (o *object) nullable(key, value string) {
	if value == "" {
		o.raw(key, []byte("null"))
		return
	}
	o.str(key, value)
}

func (o *object) bytes() []byte {
	if len(o.buf) == 0 {
		return []byte("{}")
	}
	return append(o.buf, '}')
}

// array joins encoded elements.
func array[T any](rows []T, encode func(T) []byte) []byte {
	out := []byte{'['}
	for i, row := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, encode(row)...)
	}
	return append(out, ']')
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
