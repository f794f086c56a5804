package apikey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// table is a source in memory that counts.
type table struct {
	mu    sync.Mutex
	keys  map[string]Key
	err   error
	asked int
	hold  chan struct{}
}

func (s *table) APIKey(_ context.Context, id string) (Key, error) {
	s.mu.Lock()
	s.asked++
	k, ok := s.keys[id]
	err := s.err
	s.mu.Unlock()
	if s.hold != nil {
		<-s.hold
	}
	if err == nil && !ok {
		err = ErrUnknown
	}
	return k, err
}

func mint(t *testing.T) (string, *table) {
	t.Helper()
	text, key, err := Mint("acme")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(fmt.Sprintf("%x", key.Hash), text) || !strings.HasPrefix(text, Prefix+"."+key.ID+".") {
		t.Errorf("key %q", text)
	}
	return text, &table{keys: map[string]Key{key.ID: key}}
}

func TestKeyProvesItsTenant(t *testing.T) {
	text, s := mint(t)
	key, err := NewVerifier(s, Options{}).Verify(t.Context(), text)
	if err != nil || key.Tenant != "acme" {
		t.Fatalf("%+v, %v", key, err)
	}
	if _, _, err := Mint(""); err == nil {
		t.Error("a key of nobody")
	}
}

// Whatever is wrong with a key, the answer is the same, and holds nothing of it. What has not even the form costs no look-up.
func TestEveryOtherKeyIsRefused(t *testing.T) {
	text, s := mint(t)
	v := NewVerifier(s, Options{})
	other, _, err := Mint("acme")
	if err != nil {
		t.Fatal(err)
	}
	head, secret := text[:strings.LastIndex(text, ".")+1], text[strings.LastIndex(text, ".")+1:]
	wrong := []string{other, head + other[len(head):]}
	for i := range secret {
		flipped := []byte(secret)
		if flipped[i] = 'A'; secret[i] == 'A' {
			flipped[i] = 'B'
		}
		wrong = append(wrong, head+string(flipped))
	}
	malformed := []string{
		"", ".", "ffkey1", text + "A", text[:len(text)-1], text + "=", " " + text, "ffkey2" + text[6:], strings.ToUpper(text),
		strings.Replace(text, ".", "..", 1), text + "." + secret, "ffkey1.a.b", "ffkey1.'; DROP TAB." + secret,
	}
	for _, bad := range append(wrong, malformed...) {
		_, err := v.Verify(t.Context(), bad)
		if !errors.Is(err, ErrRefused) || err.Error() != ErrRefused.Error() {
			t.Errorf("%q: %v", bad, err)
		}
	}
	s.asked = 0
	for _, bad := range malformed {
		_, _ = NewVerifier(s, Options{}).Verify(t.Context(), bad)
	}
	if s.asked != 0 {
		t.Errorf("the source was asked %d times for what is no key", s.asked)
	}
}

func TestRevokedKeyEndsWhenItIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, s := mint(t)
		v := NewVerifier(s, Options{Remember: 10 * time.Second})
		for range 100 {
			if _, err := v.Verify(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		if s.asked != 1 {
			t.Errorf("the source was asked %d times", s.asked)
		}
		clear(s.keys)
		time.Sleep(9 * time.Second)
		if _, err := v.Verify(t.Context(), text); err != nil {
			t.Errorf("forgotten too early: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := v.Verify(t.Context(), text); !errors.Is(err, ErrRefused) {
			t.Errorf("a revoked key: %v", err)
		}
	})
}

// An outage is not a refusal: the client must not throw its key away.
func TestOutageIsNoRefusal(t *testing.T) {
	text, s := mint(t)
	s.err = errors.New("connection refused")
	if _, err := NewVerifier(s, Options{}).Verify(t.Context(), text); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

func TestMemoryAndLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &table{keys: map[string]Key{}, hold: make(chan struct{})}
		v := NewVerifier(s, Options{Most: 5, Lookups: 3})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 20 {
			text, key, err := Mint("acme")
			if err != nil {
				t.Fatal(err)
			}
			s.keys[key.ID] = key
			all.Go(func() { _, _ = v.Verify(ctx, text) })
		}
		synctest.Wait()
		if s.asked != 3 {
			t.Errorf("%d look-ups at the same time", s.asked)
		}
		for range 10 {
			s.hold <- struct{}{}
		}
		synctest.Wait()
		cancel()
		close(s.hold)
		all.Wait()
		if n := len(v.known); n == 0 || n > 5 {
			t.Errorf("%d keys are remembered", n)
		}
	})
}
