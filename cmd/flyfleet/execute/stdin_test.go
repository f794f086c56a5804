package execute_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/command"
)

// piped sends bytes of every value through a command that gives them back.
func piped(t *testing.T) {
	content := make([]byte, 5<<20+3)
	source := rand.NewChaCha8([32]byte{7})
	_, _ = source.Read(content)
	var out, errOut bytes.Buffer
	code := command.Main(t.Context(), []string{"exec", "tenant", "-i", "--", "cat"}, bytes.NewReader(content), &out, &errOut)
	if code != 0 || errOut.Len() > 0 || !bytes.Equal(out.Bytes(), content) {
		t.Errorf("code %d, %q, %d bytes of %d, equal %v", code, errOut.String(), out.Len(), len(content), bytes.Equal(out.Bytes(), content))
	}
	out.Reset()
	code = command.Main(t.Context(), []string{"exec", "tenant", "-i", "--", "sh", "-c", "sha256sum; exit 3"}, bytes.NewReader(content), &out, &errOut)
	if want := fmt.Sprintf("%x", sha256.Sum256(content)); code != 3 || !strings.HasPrefix(out.String(), want) {
		t.Errorf("code %d, %q", code, out.String())
	}
	// Without -i a command finds nothing to read, whatever there is here.
	out.Reset()
	if code := command.Main(t.Context(), []string{"exec", "tenant", "--", "cat"}, strings.NewReader("mine"), &out, &errOut); code != 0 || out.Len() > 0 {
		t.Errorf("code %d, %q", code, out.String())
	}
}

// unread ends a command that took a part of its stdin: its code counts, and nobody waits for the rest.
func unread(t *testing.T) {
	var out, errOut bytes.Buffer
	code := command.Main(t.Context(), []string{"exec", "tenant", "-i", "--", "sh", "-c", "head -c 3; exit 9"}, &endless{}, &out, &errOut)
	if code != 9 || out.String() != "yyy" || errOut.Len() > 0 {
		t.Errorf("code %d, %q, %q", code, out.String(), errOut.String())
	}
}

type endless struct{}

func (*endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'y'
	}
	return len(p), nil
}
