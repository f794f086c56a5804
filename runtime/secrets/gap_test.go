package secrets_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
)

// Wherever a gap tears a text, of a known value that lies over its edge nothing is shown at that edge, unless what is there is
// shorter than the shortest value that is masked; and it does not depend on how the text is cut besides.
func TestGapShowsNoPartOfASecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few letters, so that values begin, end and go on like each other.
		values := rapid.SliceOfN(rapid.StringMatching("[abc]{6,14}"), 1, 3).Draw(t, "values")
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(values), rapid.StringMatching("[abc .]{0,8}"))).Draw(t, "text"), "")
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		to := rapid.IntRange(from, len(text)).Draw(t, "to")
		second := rapid.IntRange(to, len(text)).Draw(t, "second gap")
		r := secrets.NewExactRedactor(values...)

		head := torn(t, r, 0, text[:from], (*secrets.Stream).Cut)
		middle := torn(t, r, int64(to), text[to:second], (*secrets.Stream).Cut)
		tail := torn(t, r, int64(to), text[to:], (*secrets.Stream).Close)
		for _, value := range values {
			for begin := range len(text) {
				end := begin + len(value)
				if !strings.HasPrefix(text[begin:], value) {
					continue
				}
				if begin < from && from < end && from-begin >= secrets.MinValue {
					before, masked := strings.CutSuffix(head, secrets.Mask)
					if all, _ := r.Redact([]byte(text[:begin])); !masked || !strings.HasPrefix(string(all), before) {
						t.Fatalf("%q is shown before the gap: %q", text[begin:from], head)
					}
				}
				if begin < to && to < end && end-to >= secrets.MinValue {
					behind, masked := strings.CutPrefix(tail, secrets.Mask)
					if all, _ := r.Redact([]byte(text[end:])); !masked || !strings.HasSuffix(string(all), behind) {
						t.Fatalf("%q is shown after the gap: %q", text[to:end], tail)
					}
				}
				if begin < to && second < end && second-to >= secrets.MinValue && middle != secrets.Mask {
					t.Fatalf("%q is shown between two gaps: %q", text[to:second], middle)
				}
			}
		}
	})
}

// torn streams a text that begins at an offset, behind a gap unless that is 0, in pieces, some by a stream that was resumed, to its
// end. It must be as by one that gets all at once.
func torn(t *rapid.T, r *secrets.Redactor, start int64, text string, finish func(*secrets.Stream) secrets.Chunk) string {
	s, whole := r.Resume(start, nil), r.Resume(start, nil)
	var out []byte
	done, fed := 0, 0
	take := func(chunk secrets.Chunk) {
		if chunk.Offset != start+int64(done) {
			t.Fatalf("a chunk begins at %d, not %d", chunk.Offset, start+int64(done))
		}
		done += chunk.RawLen
		out = append(out, chunk.Data...)
	}
	var last []byte
	for fed < len(text) {
		n := rapid.IntRange(1, len(text)-fed).Draw(t, "piece")
		chunk := s.Write([]byte(text[fed : fed+n]))
		take(chunk)
		if fed += n; chunk.RawLen > 0 {
			last = chunk.Data
		}
		if rapid.Bool().Draw(t, "another owner") {
			s, fed = r.Resume(start+int64(done), last), done
		}
	}
	take(finish(s))
	if done != len(text) {
		t.Fatalf("%d of %d bytes came out", done, len(text))
	}
	first := whole.Write([]byte(text))
	if want := string(first.Data) + string(finish(whole).Data); string(out) != want {
		t.Fatalf("in pieces: %q, at once: %q", out, want)
	}
	return string(out)
}

func TestEdgesOfAGap(t *testing.T) {
	r := secrets.NewRedactor(apiKey)
	inBase64 := base64.StdEncoding.EncodeToString([]byte("user:" + apiKey))
	for text, want := range map[string]string{
		"x tenant-key-": "x [secret]", "x tenant": "x [secret]", "x tenan": "x tenan", "x " + apiKey: "x [secret]", inBase64[:16]: "dXNlcjp[secret]",
		"x ghp_a1B2": "x [secret]", "Bearer abc": "[secret]", "postgres://app:hunt": "postgres[secret]", "-----BEGIN PRIVATE KEY-----\nMII": "[secret]",
		"nothing to hide": "nothing to hide", "task-of-mine": "task-of-mine", "x ": "x ", "": "",
	} {
		s := r.Stream()
		first, last := s.Write([]byte(text)), s.Cut()
		if got := string(first.Data) + string(last.Data); got != want || first.RawLen+last.RawLen != len(text) {
			t.Errorf("before a gap %q is %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"nt-key-0123456789 x": "[secret] x", "456789 x": "[secret] x", "56789 x": "56789 x", apiKey + " x": "[secret] x", inBase64[16:]: "[secret]k=",
		"6789" + apiKey: "6789[secret]", "nothing to hide": "nothing to hide", "nt-key-01": "nt-key-01", "456789AKIAIOSFODNN7EXAMPLE": "[secret][secret]", "": "",
	} {
		s := r.AfterGap(5)
		first, last := s.Write([]byte(text)), s.Close()
		if got := string(first.Data) + string(last.Data); got != want || first.RawLen+last.RawLen != len(text) {
			t.Errorf("after a gap %q is %q, want %q", text, got, want)
		}
	}
}
