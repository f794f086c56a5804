package acceptance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// foreign is what another tool adds to a machine between plan and apply: a field that nobody here knows, with
// numbers that no float64 holds, a number whose spelling matters, keys out of order, an escaped NUL.
const foreign = `"zz_future": {"z": 1.0, "a": 9007199254740993, "huge": 1e400, "nul": "a\u0000b", "half": "\ud800", "spaced" : [ 1,2 ] }`

// A saved plan applies to the machine as it is now: the config that is sent is the config last read, byte for byte,
// but for the value of image. flyctl#1469, flyctl#1543: updates that send a config of their own lose what others set.
func TestSavedPlanKeepsWhatOthersSetMeanwhile(t *testing.T) {
	p, w := startTenants(t, 1, "")
	v2 := p.image(t, "v2")
	w.setImage(v2)
	wantOnlyImage(t, w.plan(), 1)

	before := p.machine(t, "acc-0")
	changed := spliceForeign(t, before.Config)
	p.must(t, http.MethodPost, "/v1/apps/acc-0/machines/"+before.ID, []byte(`{"config":`+string(changed)+`}`))
	p.waitState(t, "acc-0", before.ID, "started")

	p.recorder.reset()
	w.must("apply", "-no-color", "saved.tfplan")

	read, sent := lastReadAndSent(t, p.recorder, "/machines/"+before.ID)
	if !bytes.Contains(read, []byte(foreign)) || !bytes.Contains(read, []byte(`"SET_OUTSIDE": "yes"`)) {
		t.Fatalf("the platform does not show what was set outside, the test proves nothing: %s", read)
	}
	if want := withImage(t, read, v2); !bytes.Equal(sent, want) {
		t.Errorf("the config sent differs from the config read in more than its image:\nsent %s\nwant %s", sent, want)
	}
	after := p.machine(t, "acc-0")
	if !bytes.Contains(after.Config, []byte(foreign)) || !bytes.Contains(after.Config, []byte(`"swap_size_mb": 512`)) {
		t.Errorf("after the swap the machine has lost what others set: %s", after.Config)
	}
	if again := w.plan().changed(); len(again) != 0 {
		t.Errorf("what others set is planned away: %v", again[0].attributes())
	}
}

// spliceForeign writes into the raw config, keeping its bytes: the unknown field first, one more env value, swap.
func spliceForeign(t *testing.T, config json.RawMessage) []byte {
	t.Helper()
	text := string(config)
	text = replaceOnce(t, text, `{`, `{`+foreign+`, "init": {"swap_size_mb": 512}, `)
	return []byte(replaceOnce(t, text, `"env":{`, `"env":{"SET_OUTSIDE": "yes", `))
}

func replaceOnce(t *testing.T, text, old, replacement string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("no %q in %s", old, text)
	}
	return strings.Replace(text, old, replacement, 1)
}

// lastReadAndSent returns the config of the last GET of a machine before its one update, and of that update.
func lastReadAndSent(t *testing.T, r *recorder, path string) (read, sent json.RawMessage) {
	t.Helper()
	posts := 0
	for _, e := range r.all() {
		if !strings.HasSuffix(e.Path, path) {
			continue
		}
		switch {
		case e.Method == http.MethodGet && e.Status == http.StatusOK && posts == 0:
			read = configOf(t, e.Answer)
		case e.Method == http.MethodPost:
			posts++
			sent = configOf(t, e.Body)
		}
	}
	if posts != 1 || read == nil {
		t.Fatalf("%d updates of %s, read before: %v; want one after a read", posts, path, read != nil)
	}
	return read, sent
}

func configOf(t *testing.T, body []byte) json.RawMessage {
	t.Helper()
	var machine struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(body, &machine); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return machine.Config
}

// withImage is config with another image, every other byte as it was.
func withImage(t *testing.T, config json.RawMessage, image string) []byte {
	t.Helper()
	var known struct {
		Image json.RawMessage `json:"image"`
	}
	if err := json.Unmarshal(config, &known); err != nil {
		t.Fatal(err)
	}
	if bytes.Count(config, known.Image) != 1 {
		t.Fatalf("image %s does not stand once in %s", known.Image, config)
	}
	quoted, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Replace(config, known.Image, quoted, 1)
}
