package secrets_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
)

const (
	password = "p4ss/w\"rd+<&>é=="
	apiKey   = "tenant-key-0123456789"
)

// paperclipai/paperclip#8047, anthropics/claude-code#86707: a tool prints its environment.
func TestEnvironmentIsMasked(t *testing.T) {
	r := secrets.NewRedactor(password, apiKey)
	env := "HOME=/root\nDB_PASSWORD=" + password + "\nKEY=" + apiKey + "\nGITHUB_TOKEN=ghp_" + strings.Repeat("a1B2", 9) + "\nPATH=/bin\n"
	got, masks := r.Redact([]byte(env))
	want := "HOME=/root\nDB_PASSWORD=[secret]\nKEY=[secret]\nGITHUB_TOKEN=[secret]\nPATH=/bin\n"
	if string(got) != want || masks != 3 {
		t.Errorf("%d masks: %q", masks, got)
	}
}

func TestKnownValueIsMaskedInEveryForm(t *testing.T) {
	r := secrets.NewRedactor(password, apiKey)
	escaped, _ := json.Marshal(password)
	forms := map[string]string{
		"plain":                  password,
		"in JSON":                string(escaped),
		"in JSON, not for HTML":  `"p4ss/w\"rd+<&>é=="`,
		"in a query":             url.QueryEscape(password),
		"in a path":              url.PathEscape(password),
		"in hex":                 hex.EncodeToString([]byte(password)),
		"in base64":              base64.StdEncoding.EncodeToString([]byte(password)),
		"in base64 for URLs":     base64.RawURLEncoding.EncodeToString([]byte(password)),
		"in basic auth":          base64.StdEncoding.EncodeToString([]byte("u:" + apiKey)),
		"in basic auth, shifted": base64.StdEncoding.EncodeToString([]byte("us:" + apiKey)),
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			got, masks := r.Redact([]byte("before " + form + " after"))
			if masks != 1 || !strings.HasPrefix(string(got), "before ") || !strings.HasSuffix(string(got), " after") || len(got) > len("before  after")+len(secrets.Mask)+8 {
				t.Errorf("%d masks: %q", masks, got)
			}
		})
	}
}

func TestKeysAreKnownByTheirShape(t *testing.T) {
	long := strings.Repeat("Ab3", 20)
	const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nowIB\n-----END RSA PRIVATE KEY-----"
	for _, key := range []string{
		"sk-ant-api03-" + long, "sk-proj-" + long, "sk_live_" + long, "ghp_" + long, "github_pat_" + long, "glpat-" + long, "xoxb-1234567890-" + long,
		"AKIAIOSFODNN7EXAMPLE", "AIza" + long, "npm_" + long, "hf_" + long, "fo1_" + long, "fm2_" + long + "+/=", "FlyV1 fm2_" + long + "," + long,
		"ffsign1." + long + ".eyJ", "Bearer " + long, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl-_", pem, strings.ReplaceAll(pem, "\n", `\n`),
	} {
		text := `{"a": "` + key + `"} rest`
		got, masks := secrets.NewRedactor().Redact([]byte(text))
		if string(got) != `{"a": "[secret]"} rest` || masks != 1 {
			t.Errorf("%.20s…: %d masks: %q", key, masks, got)
		}
	}
	got, _ := secrets.NewRedactor().Redact([]byte("postgres://app:hunter2x@db:5432/app"))
	if string(got) != "postgres://app:[secret]@db:5432/app" {
		t.Errorf("a URL's password: %q", got)
	}
}

func TestOrdinaryTextIsLeftAlone(t *testing.T) {
	for _, text := range []string{
		"task-management-system-overview-2024.md", "sk-", "AKIA", "the eyJ prefix", "https://host:8080/path@x", "risk-assessment-of-the-year",
		"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----", "sk-learn-and-other-libraries", "eyJhbGciOiJIUzI1NiJ9.version.two", "short", "\x00\xff",
		"Bearer of news", "",
	} {
		got, masks := secrets.NewRedactor("dev", "short").Redact([]byte(text))
		if string(got) != text || masks != 0 {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestSecretsThatLieOverEachOtherLeaveNothing(t *testing.T) {
	r := secrets.NewRedactor("abcdefgh", "efghijkl", "ijklmnopq")
	got, masks := r.Redact([]byte("x abcdefghijklmnopq y"))
	if string(got) != "x [secret] y" || masks != 1 {
		t.Errorf("%d masks: %q", masks, got)
	}
}

// A key right after another is one too, and a stream that goes on after the first says the same.
func TestSecretBehindASecretIsMasked(t *testing.T) {
	r := secrets.NewRedactor(apiKey)
	got, masks := r.Redact([]byte(apiKey + "AKIAIOSFODNN7EXAMPLE."))
	if string(got) != "[secret][secret]." || masks != 2 {
		t.Errorf("%d masks: %q", masks, got)
	}
}

func TestShortValuesAreNotMasked(t *testing.T) {
	if secrets.Masks("12345") || !secrets.Masks("123456") {
		t.Error("the shortest value that is masked has 6 bytes")
	}
}

// The stream holds back what may be a secret, and no more.
func TestStreamHoldsBackOnlyWhatMayBeASecret(t *testing.T) {
	s := secrets.NewRedactor(apiKey).Stream()
	first := s.Write([]byte("one two tenant-key-"))
	if string(first.Data) != "one two " || first.RawLen != 8 || s.Held() != 11 {
		t.Errorf("first chunk %q for %d bytes, %d held", first.Data, first.RawLen, s.Held())
	}
	second := s.Write([]byte("0123456789 three"))
	if string(second.Data) != "[secret] three" || second.Offset != 8 || second.RawLen != len(apiKey)+6 || second.Masks != 1 {
		t.Errorf("second chunk %+v", second)
	}
	if last := s.Close(); last.RawLen != 0 || last.Offset != 8+int64(second.RawLen) {
		t.Errorf("last chunk %+v", last)
	}
}

func TestUnfinishedSecretOfAStreamComesOutAtItsEnd(t *testing.T) {
	s := secrets.NewRedactor(apiKey).Stream()
	s.Write([]byte("tenant-key-"))
	if last := s.Close(); string(last.Data) != "tenant-key-" {
		t.Errorf("last chunk %q", last.Data)
	}
}

func TestHeldBytesAreBounded(t *testing.T) {
	s := secrets.NewRedactor().Stream()
	most := 0
	piece := []byte("sk-a1" + strings.Repeat("a", 2043))
	for range 200 {
		s.Write(piece)
		most = max(most, s.Held())
	}
	if most > 3*secrets.MaxSecret {
		t.Errorf("%d bytes were held back", most)
	}
}

// FuzzEveryCutGivesTheSame cuts a text in two places and at single bytes, and resumes after every chunk.
func FuzzEveryCutGivesTheSame(f *testing.F) {
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"
	for _, text := range []string{
		"x " + apiKey + " y", "postgres://a:" + password + "@h", jwt + ". " + jwt, "sk-ant-0" + strings.Repeat("a", 30) + "!", "task-" + apiKey + "sk-1",
		"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY----- ghp_" + strings.Repeat("Z9", 20), "abcdefghijklmnop", "FlyV1 fm2_" + strings.Repeat("q", 30),
		apiKey + "AKIAIOSFODNN7EXAMPLE", "xAKIAIOSFODNN7EXAMPLE",
	} {
		f.Add([]byte(text), 3, 9)
	}
	r := secrets.NewRedactor(apiKey, password, "abcdefgh", "efghijklm")
	f.Fuzz(func(t *testing.T, text []byte, a, b int) {
		want, masks := r.Redact(text)
		a, b = within(a, len(text)), within(b, len(text))
		a, b = min(a, b), max(a, b)
		for _, pieces := range [][][]byte{{text[:a], text[a:b], text[b:]}, bytes.SplitAfter(text, nil)} {
			got, count := masked(t, r, pieces, text)
			if !bytes.Equal(got, want) || count != masks {
				t.Fatalf("cut in %d pieces: %q with %d masks, whole: %q with %d", len(pieces), got, count, want, masks)
			}
		}
		for _, value := range []string{apiKey, "abcdefgh", "efghijklm"} {
			if bytes.Contains(want, []byte(value)) {
				t.Fatalf("%q is left in %q", value, want)
			}
		}
	})
}

func within(n, most int) int {
	if most == 0 {
		return 0
	}
	return ((n % most) + most) % most
}

// masked streams the pieces, and after each chunk lets a new stream go on from there.
func masked(t *testing.T, r *secrets.Redactor, pieces [][]byte, text []byte) (out []byte, masks int) {
	t.Helper()
	s := r.Stream()
	var raw int64
	take := func(chunk secrets.Chunk) {
		if chunk.Offset != raw {
			t.Fatalf("a chunk begins at %d, not %d", chunk.Offset, raw)
		}
		raw += int64(chunk.RawLen)
		out = append(out, chunk.Data...)
		masks += chunk.Masks
		if chunk.RawLen > 0 {
			rest := r.Resume(raw, chunk.Data).Write(text[raw:])
			again := r.Resume(raw, out).Write(text[raw:])
			if !bytes.Equal(rest.Data, again.Data) {
				t.Fatalf("resumed at %d: %q and %q", raw, rest.Data, again.Data)
			}
			s = r.Resume(raw, chunk.Data)
		}
	}
	fed := int64(0)
	for _, piece := range pieces {
		fed += int64(len(piece))
		// A stream that was resumed has not seen what the old one held.
		take(s.Write(text[raw+int64(s.Held()) : fed]))
	}
	take(s.Write(text[raw+int64(s.Held()):]))
	take(s.Close())
	if raw != int64(len(text)) {
		t.Fatalf("%d of %d bytes came out", raw, len(text))
	}
	return out, masks
}

func BenchmarkRedact(b *testing.B) {
	text := bytes.Repeat([]byte("ok  	example.org/some/package	0.1s in the usual way\n"), 20_000)
	r := secrets.NewRedactor(apiKey, password)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Redact(text)
	}
}
