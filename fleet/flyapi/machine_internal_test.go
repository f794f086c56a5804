package flyapi

import (
	"bytes"
	"testing"
)

// Whatever Fly sends, reading it neither panics nor makes up a config that is not in the answer.
func FuzzParseMachine(f *testing.F) {
	f.Add([]byte(`{"id":"m","config":{"image":"a","n":1e400},"events":[{"type":"exit","request":{"exit_event":{"exited_at":1}}},7],"checks":[null,{"name":1}]}`))
	f.Add([]byte(`{"id":"m","incomplete_config":{"image":"a"},"config":null,"created_at":"yesterday"}`))
	f.Add([]byte(`{"id":"m","config":{"metadata":{"a":1,"b":"c"}},"image_ref":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parseMachine(body)
		if err != nil {
			return
		}
		if !bytes.Contains(body, m.Config()) || !bytes.Equal(body, m.Raw()) {
			t.Fatalf("config %q is not in %q", m.Config(), body)
		}
		_, _ = m.Image(), m.Metadata()
	})
}
