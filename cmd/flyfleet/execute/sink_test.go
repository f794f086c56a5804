package execute

import (
	"strings"
	"testing"
)

func TestOutputThatIsNoTextIsEncoded(t *testing.T) {
	if plain, encoded := text([]byte("é\n")); plain != "é\n" || encoded != "" {
		t.Errorf("%q %q", plain, encoded)
	}
	if plain, encoded := text([]byte{0xff, 'a'}); plain != "" || encoded != "/2E=" {
		t.Errorf("%q %q", plain, encoded)
	}
}

func TestJSONOutputHasABound(t *testing.T) {
	var b bounded
	if _, err := b.Write(make([]byte, mostJSON)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte{0}); err == nil || !strings.Contains(err.Error(), "--json") {
		t.Errorf("error %v", err)
	}
}
