package token_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	app     = "tenant-a"
	machine = "d890"
	scope   = "s/one"
)

func root(t testing.TB, fleet string) token.Root {
	t.Helper()
	r, err := token.NewRoot(fleet)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func delegate(t testing.TB, r token.Root, name string, apps ...string) token.SigningKey {
	t.Helper()
	k, err := r.Delegate(name, apps, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func trust(t testing.TB, roots ...token.Root) token.Trust {
	t.Helper()
	var entries []string
	for _, r := range roots {
		entries = append(entries, r.Trust())
	}
	tr, err := token.ParseTrust(strings.Join(entries, ","))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func sign(t testing.TB, k token.SigningKey, app, machine, scope string, at time.Time) string {
	t.Helper()
	text, err := k.Sign(app, machine, "session-1", scope, token.MaxSession, at)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestGoodTokenSaysWhoAndWhere(t *testing.T) {
	r := root(t, "acme")
	got, err := trust(t, root(t, "acme"), r).Verify(sign(t, delegate(t, r, "rt-main", "tenant-*"), app, machine, scope, now), app, machine, now)
	if err != nil {
		t.Fatal(err)
	}
	if got.Key != "rt-main" || got.Operator != "" || got.Fleet != "acme" || got.Subject != "session-1" || got.Scope != scope || !got.Expires.Equal(now.Add(15*time.Minute)) {
		t.Fatalf("got %+v", got)
	}
}

// resign makes a token or delegation with claims of the test's choice.
func resign(t testing.TB, method jwt.SigningMethod, typ string, claims map[string]any, key any, header map[string]any) string {
	t.Helper()
	j := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	j.Header["typ"] = typ
	for k, v := range header {
		j.Header[k] = v
	}
	text, err := j.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// seedOf opens a key's text form: the tests play its holder.
func seedOf(t testing.TB, text string, part int) ed25519.PrivateKey {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[part])
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(b)
}

func delegationOf(k token.SigningKey) string { return strings.SplitN(k.String(), ".", 3)[2] }

func issuerOf(t testing.TB, k token.SigningKey) string {
	t.Helper()
	var c jwt.MapClaims
	if _, _, err := jwt.NewParser().ParseUnverified(delegationOf(k), &c); err != nil {
		t.Fatal(err)
	}
	return c["iss"].(string)
}

func TestEveryForgeryHasItsOwnReason(t *testing.T) {
	r := root(t, "acme")
	k := delegate(t, r, "rt-main", "tenant-*")
	tr := trust(t, r)
	good := sign(t, k, app, machine, scope, now)
	parts := strings.Split(good, ".")
	rootKey, signKey := seedOf(t, r.String(), 2), seedOf(t, k.String(), 1)
	public := base64.RawURLEncoding.EncodeToString(signKey.Public().(ed25519.PublicKey))
	session := func(change map[string]any) map[string]any {
		c := map[string]any{"aud": app + "/" + machine, "sub": "s", "scope": scope, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
		for key, v := range change {
			if v == nil {
				delete(c, key)
			} else {
				c[key] = v
			}
		}
		return c
	}
	under := func(delegation string, change map[string]any) string {
		return resign(t, jwt.SigningMethodEdDSA, "flyfleet-session+jwt", session(change), signKey, map[string]any{"dlg": delegation})
	}
	delegation := func(key ed25519.PrivateKey, change map[string]any) string {
		c := map[string]any{"iss": issuerOf(t, k), "sub": "rt-main", "fleet": "acme", "apps": []string{"*"}, "key": public, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
		for name, v := range change {
			c[name] = v
		}
		return resign(t, jwt.SigningMethodEdDSA, "flyfleet-delegation+jwt", c, key, nil)
	}
	_, alien, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		text string
		want error
	}{
		"nothing":                  {"", token.ErrMissing},
		"garbage":                  {"a.b.c", token.ErrMalformed},
		"too long":                 {strings.Repeat("a", token.MaxBytes+1), token.ErrMalformed},
		"zero signature":           {parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)), token.ErrSignature},
		"other key's signature":    {resign(t, jwt.SigningMethodEdDSA, "flyfleet-session+jwt", session(nil), alien, map[string]any{"dlg": delegationOf(k)}), token.ErrSignature},
		"alg none":                 {resign(t, jwt.SigningMethodNone, "flyfleet-session+jwt", session(nil), jwt.UnsafeAllowNoneSignatureType, map[string]any{"dlg": delegationOf(k)}), token.ErrAlgorithm},
		"alg HS256 by public key":  {resign(t, jwt.SigningMethodHS256, "flyfleet-session+jwt", session(nil), []byte(signKey.Public().(ed25519.PublicKey)), map[string]any{"dlg": delegationOf(k)}), token.ErrAlgorithm},
		"delegation alg HS256":     {under(resign(t, jwt.SigningMethodHS256, "flyfleet-delegation+jwt", map[string]any{"iss": issuerOf(t, k)}, []byte(rootKey.Public().(ed25519.PublicKey)), nil), nil), token.ErrAlgorithm},
		"delegation as a token":    {delegationOf(k), token.ErrMalformed},
		"token as a delegation":    {under(good, nil), token.ErrUnknownKey},
		"no delegation":            {resign(t, jwt.SigningMethodEdDSA, "flyfleet-session+jwt", session(nil), signKey, nil), token.ErrMalformed},
		"wrong type":               {resign(t, jwt.SigningMethodEdDSA, "JWT", session(nil), signKey, map[string]any{"dlg": delegationOf(k)}), token.ErrMalformed},
		"expired":                  {sign(t, k, app, machine, scope, now.Add(-21*time.Minute)), token.ErrExpired},
		"from the future":          {under(delegationOf(k), map[string]any{"iat": now.Add(6 * time.Minute).Unix(), "exp": now.Add(7 * time.Minute).Unix()}), token.ErrNotYet},
		"lives too long":           {under(delegationOf(k), map[string]any{"exp": now.Add(16 * time.Minute).Unix()}), token.ErrLifetime},
		"never expires":            {under(delegationOf(k), map[string]any{"exp": nil}), token.ErrMalformed},
		"has no beginning":         {under(delegationOf(k), map[string]any{"iat": nil}), token.ErrMalformed},
		"other machine":            {sign(t, k, app, "d891", scope, now), token.ErrAudience},
		"other app":                {sign(t, k, "tenant-b", machine, scope, now), token.ErrAudience},
		"two audiences":            {under(delegationOf(k), map[string]any{"aud": []string{app + "/" + machine, "x/y"}}), token.ErrAudience},
		"no audience":              {under(delegationOf(k), map[string]any{"aud": nil}), token.ErrAudience},
		"bad scope":                {under(delegationOf(k), map[string]any{"scope": "a//b"}), token.ErrMalformed},
		"unknown root":             {sign(t, delegate(t, root(t, "acme"), "rt-main", "*"), app, machine, scope, now), token.ErrUnknownKey},
		"forged delegation":        {under(delegation(alien, nil), nil), token.ErrDelegation},
		"delegation of key itself": {under(delegation(signKey, nil), nil), token.ErrDelegation},
		"stale delegation":         {under(delegation(rootKey, map[string]any{"iat": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(-time.Hour).Unix()}), nil), token.ErrStale},
		"delegation for ever":      {under(delegation(rootKey, map[string]any{"exp": now.Add(91 * 24 * time.Hour).Unix()}), nil), token.ErrLifetime},
		"other fleet":              {under(delegation(rootKey, map[string]any{"fleet": "rival"}), nil), token.ErrFleet},
		"app not delegated":        {under(delegation(rootKey, map[string]any{"apps": []string{"tenant-b", "other-*"}}), nil), token.ErrApp},
		"operator elsewhere":       {under(delegation(rootKey, map[string]any{"sub": "op-alice"}), map[string]any{"scope": "op/bob"}), token.ErrScope},
		"operator in a session":    {under(delegation(rootKey, map[string]any{"sub": "op-alice"}), nil), token.ErrScope},
		"delegated garbage":        {under(delegation(rootKey, map[string]any{"key": "AAAA"}), nil), token.ErrMalformed},
		"nameless key":             {under(delegation(rootKey, map[string]any{"sub": "x"}), nil), token.ErrMalformed},
	} {
		got, err := tr.Verify(x.text, app, machine, now)
		if err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
			continue
		}
		if !errors.Is(err, x.want) {
			t.Errorf("%s: want %q, got %q", name, x.want, err)
		}
		if x.text != "" && strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: the error quotes the token", name)
		}
	}
}

func TestClocksMayDifferByFiveMinutes(t *testing.T) {
	r := root(t, "acme")
	text := sign(t, delegate(t, r, "rt-main", "*"), app, machine, scope, now)
	tr := trust(t, r)
	for _, off := range []time.Duration{-299 * time.Second, 0, 15*time.Minute + 299*time.Second} {
		if _, err := tr.Verify(text, app, machine, now.Add(off)); err != nil {
			t.Errorf("off by %s: %v", off, err)
		}
	}
	for _, off := range []time.Duration{-301 * time.Second, 15*time.Minute + 301*time.Second} {
		if _, err := tr.Verify(text, app, machine, now.Add(off)); err == nil {
			t.Errorf("off by %s: accepted", off)
		}
	}
}

func TestRememberedTokenEndsWhenAFreshOneWould(t *testing.T) {
	r := root(t, "acme")
	k, err := r.Delegate("rt-main", []string{"*"}, 10*time.Minute, now)
	if err != nil {
		t.Fatal(err)
	}
	tr := trust(t, r)
	for name, text := range map[string]string{
		"token": sign(t, delegate(t, r, "rt-main", "*"), app, machine, scope, now), "delegation": sign(t, k, app, machine, scope, now.Add(5*time.Minute)),
	} {
		v := token.NewVerifier(tr, app, machine)
		for minute := -7; minute < 30; minute++ {
			at := now.Add(time.Duration(minute) * time.Minute)
			for range 2 {
				_, want := tr.Verify(text, app, machine, at)
				_, got := v.Verify(text, at)
				if (want == nil) != (got == nil) || want != nil && want.Error() != got.Error() {
					t.Fatalf("%s at minute %d: got %v, want %v", name, minute, got, want)
				}
			}
		}
		if _, err := v.Verify(text+"x", now); err == nil {
			t.Fatal("another token was taken for a remembered one")
		}
	}
}

func TestVerifierForgetsBeforeItGrows(t *testing.T) {
	r := root(t, "acme")
	k := delegate(t, r, "rt-main", "*")
	v := token.NewVerifier(trust(t, r), app, machine)
	for i := range 600 {
		text := sign(t, k, app, machine, fmt.Sprintf("s/%d", i), now)
		if c, err := v.Verify(text, now); err != nil || c.Scope != fmt.Sprintf("s/%d", i) {
			t.Fatalf("token %d: %+v, %v", i, c, err)
		}
	}
}

func TestOperatorsUseTheirOwnScopesOnly(t *testing.T) {
	r := root(t, "acme")
	k := delegate(t, r, "op-alice", "*")
	tr := trust(t, r)
	for _, s := range []string{"op/alice", "op/alice/shell"} {
		got, err := tr.Verify(sign(t, k, app, machine, s, now), app, machine, now)
		if err != nil || got.Operator != "alice" {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"op/alice2", "op/bob", "s/one"} {
		if _, err := k.Sign(app, machine, "x", s, time.Minute, now); !errors.Is(err, token.ErrScope) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestSignRefusesWhatMachinesWould(t *testing.T) {
	k := delegate(t, root(t, "acme"), "rt-main", "tenant-*")
	for name, err := range map[string]error{
		"app":      second(k.Sign("other", machine, "s", scope, time.Minute, now)),
		"scope":    second(k.Sign(app, machine, "s", "a b", time.Minute, now)),
		"lifetime": second(k.Sign(app, machine, "s", scope, 16*time.Minute, now)),
		"stale":    second(k.Sign(app, machine, "s", scope, time.Minute, now.Add(2*time.Hour))),
		"slash":    second(k.Sign("a/b", machine, "s", scope, time.Minute, now)),
		"no key":   second(token.SigningKey{}.Sign(app, machine, "s", scope, time.Minute, now)),
	} {
		if err == nil {
			t.Errorf("%s: signed", name)
		}
	}
	text, err := k.Sign(app, machine, "s", scope, token.MaxSession, now.Add(59*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var c jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(text, &c); err != nil || !c.ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Fatalf("a token outlives its delegation: %v, %v", c.ExpiresAt, err)
	}
}

func second(_ string, err error) error { return err }

func TestDelegationsHaveBounds(t *testing.T) {
	r := root(t, "acme")
	for name, x := range map[string]struct {
		key  string
		apps []string
		ttl  time.Duration
	}{
		"too long":   {"rt-a", []string{"*"}, 91 * 24 * time.Hour},
		"no time":    {"rt-a", []string{"*"}, 0},
		"no apps":    {"rt-a", nil, time.Hour},
		"inner star": {"rt-a", []string{"a*b"}, time.Hour},
		"bare name":  {"alice", []string{"*"}, time.Hour},
		"upper case": {"op-Alice", []string{"*"}, time.Hour},
	} {
		if _, err := r.Delegate(x.key, x.apps, x.ttl, now); err == nil {
			t.Errorf("%s: delegated", name)
		}
	}
}

func TestTextFormsComeBack(t *testing.T) {
	r := root(t, "acme")
	back, err := token.ParseRoot(r.String() + "\n")
	if err != nil || back.String() != r.String() || back.Trust() != r.Trust() {
		t.Fatalf("root: %v", err)
	}
	k := delegate(t, r, "op-alice", "tenant-*", "x")
	kept, err := token.ParseSigningKey(k.String())
	if err != nil || kept.String() != k.String() || kept.Name() != "op-alice" || kept.Person() != "alice" || kept.Fleet() != "acme" || fmt.Sprint(kept.Apps()) != "[tenant-* x]" {
		t.Fatalf("signing key: %v", err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(k.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if loaded, err := token.LoadSigningKey(path); err != nil || loaded.String() != k.String() {
		t.Fatalf("key file: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := token.LoadSigningKey(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatalf("a key file that others may read: %v", err)
	}
}

func TestKeysAreNeverQuotedInErrors(t *testing.T) {
	r := root(t, "acme")
	k := delegate(t, r, "rt-main", "*")
	seed := strings.Split(r.String(), ".")[2]
	signSeed := strings.Split(k.String(), ".")[1]
	for name, err := range map[string]error{
		"cut root":        parseRoot(r.String()[:40]),
		"root as signing": parseSigning(r.String()),
		"signing as root": parseRoot(k.String()),
		"cut signing":     parseSigning(k.String()[:len(k.String())-40]),
		"secret as trust": parseTrust(r.String()),
		"key as trust":    parseTrust(k.String()),
		"swapped seed":    parseSigning("ffsign1." + seed + "." + delegationOf(k)),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if strings.Contains(err.Error(), seed[:12]) || strings.Contains(err.Error(), signSeed[:12]) {
			t.Errorf("%s: the error quotes the key: %v", name, err)
		}
	}
}

func parseRoot(s string) error    { _, err := token.ParseRoot(s); return err }
func parseSigning(s string) error { _, err := token.ParseSigningKey(s); return err }
func parseTrust(s string) error   { _, err := token.ParseTrust(s); return err }

// fuzzKeys are fixed, so that kept inputs stay meaningful.
func fuzzKeys(t testing.TB) (token.Root, token.SigningKey) {
	t.Helper()
	r, err := token.ParseRoot("ffroot1.acme." + base64.RawURLEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	claims := map[string]any{
		"iss": issuerOf(t, delegate(t, r, "rt-main", "*")), "sub": "rt-main", "fleet": "acme", "apps": []string{"*"},
		"key": base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey)), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	delegation := resign(t, jwt.SigningMethodEdDSA, "flyfleet-delegation+jwt", claims, seedOf(t, r.String(), 2), nil)
	k, err := token.ParseSigningKey("ffsign1." + base64.RawURLEncoding.EncodeToString(key.Seed()) + "." + delegation)
	if err != nil {
		t.Fatal(err)
	}
	return r, k
}

// Whatever comes: no panic, and nothing is believed but what the holder of a delegated key signed.
func FuzzVerify(f *testing.F) {
	r, k := fuzzKeys(f)
	good := sign(f, k, app, machine, scope, now)
	f.Add(good)
	f.Add("")
	f.Add("..")
	f.Add(delegationOf(k))
	f.Add(good[:len(good)-1])
	f.Add(strings.Replace(good, ".", "..", 1))
	tr := trust(f, r)
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := tr.Verify(text, app, machine, now)
		if err != nil {
			return
		}
		if text != good {
			t.Fatalf("believed %q: %+v", text, claims)
		}
	})
}

// Parsers of the text forms: no panic, and what is accepted comes back as it was written.
func FuzzTextForms(f *testing.F) {
	r, k := fuzzKeys(f)
	for _, s := range []string{r.String(), r.Trust(), k.String(), "ffroot1..", "fftrust1.a.b,fftrust1.c.d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := token.ParseRoot(text); err == nil && r.String() != strings.TrimSpace(text) {
			t.Fatalf("root %q comes back as %q", text, r.String())
		}
		if k, err := token.ParseSigningKey(text); err == nil && k.String() != strings.TrimSpace(text) {
			t.Fatalf("signing key %q comes back as %q", text, k.String())
		}
		_, _ = token.ParseTrust(text)
	})
}
