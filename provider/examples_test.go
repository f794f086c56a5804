package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The examples of the reference are one configuration, cut into the pages of its resources.
func TestTheExamplesOfTheReferenceAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../examples/*/flyfleet_*/*.tf")
	if err != nil || len(files) < 6 {
		t.Fatalf("found %v, %v", files, err)
	}
	var config strings.Builder
	config.WriteString("variable \"flyfleet_trust\" { type = string }\n")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		config.Write(text)
	}
	w := startPlatform(t).workspace(t)
	w.write(t, config.String())
	w.must(t, "validate")
}
