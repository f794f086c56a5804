package secrets_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/secrets"
)

var (
	oldKey = "k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))
	newKey = "k2:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, 32))
	one    = uuid.MustParse("00000000-0000-7000-8000-000000000001")
	two    = uuid.MustParse("00000000-0000-7000-8000-000000000002")
)

func keyring(t *testing.T, text string) *secrets.Keyring {
	t.Helper()
	ring, err := secrets.ParseKeyring(text)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestSealedOpensForItsSubmissionOnly(t *testing.T) {
	ctx := context.Background()
	ring := keyring(t, newKey)
	sealed, err := ring.Seal(ctx, one, []byte("token"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed.Data, []byte("token")) {
		t.Error("it is not encrypted")
	}
	if plain, err := ring.Open(ctx, one, sealed); err != nil || string(plain) != "token" {
		t.Errorf("Open: %q, %v", plain, err)
	}
	if again, _ := ring.Seal(ctx, one, []byte("token")); bytes.Equal(again.Data, sealed.Data) {
		t.Error("the same text was sealed to the same bytes")
	}
	if _, err := ring.Open(ctx, two, sealed); !errors.Is(err, secrets.ErrSealed) {
		t.Errorf("for another submission: %v", err)
	}
	for i := range sealed.Data {
		changed := secrets.Sealed{KeyID: sealed.KeyID, Data: bytes.Clone(sealed.Data)}
		changed.Data[i] ^= 1
		if _, err := ring.Open(ctx, one, changed); !errors.Is(err, secrets.ErrSealed) {
			t.Fatalf("with byte %d changed: %v", i, err)
		}
	}
	if _, err := ring.Open(ctx, one, secrets.Sealed{KeyID: "k2"}); !errors.Is(err, secrets.ErrSealed) {
		t.Errorf("empty: %v", err)
	}
}

func TestOldKeyOpensAndNewKeySeals(t *testing.T) {
	ctx := context.Background()
	sealed, err := keyring(t, oldKey).Seal(ctx, one, []byte("token"))
	if err != nil {
		t.Fatal(err)
	}
	both := keyring(t, newKey+","+oldKey)
	if plain, err := both.Open(ctx, one, sealed); err != nil || string(plain) != "token" {
		t.Errorf("Open with the old key: %q, %v", plain, err)
	}
	if fresh, _ := both.Seal(ctx, one, nil); fresh.KeyID != "k2" {
		t.Errorf("sealed under %q", fresh.KeyID)
	}
	if _, err := keyring(t, newKey).Open(ctx, one, sealed); !errors.Is(err, secrets.ErrKey) {
		t.Errorf("without the old key: %v", err)
	}
	// The key's id is bound too, also where two ids have one key.
	same := keyring(t, oldKey+",k3"+strings.TrimPrefix(oldKey, "k1"))
	if _, err := same.Open(ctx, one, secrets.Sealed{KeyID: "k3", Data: sealed.Data}); !errors.Is(err, secrets.ErrSealed) {
		t.Errorf("under another key's id: %v", err)
	}
}

func TestKeysComeFromAPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(newKey+"\n"+oldKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.ParseKeyring(path); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.ParseKeyring(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that all may read: %v", err)
	}
}

func TestWrongKeysAreRefusedWithoutQuotingThem(t *testing.T) {
	for _, text := range []string{"", "c2VjcmV0", "k1:c2VjcmV0", "k1:!!!secret", oldKey + "," + oldKey, "/nowhere/secret-file"} {
		_, err := secrets.ParseKeyring(text)
		if err == nil {
			t.Errorf("%q is taken", text)
		} else if strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "!!!secret") {
			t.Errorf("the error quotes the key: %v", err)
		}
	}
}
