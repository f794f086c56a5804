package ociimage

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkImageBuild prints image_build: the digest of a tenant image around a control server of 16 MiB, as a plan
// computes it. The floor is one pass of SHA-256 over the same file, which no digest can do without.
func BenchmarkImageBuild(b *testing.B) {
	path := filepath.Join(b.TempDir(), "controlserver")
	content := make([]byte, 16<<20)
	if _, err := rand.Read(content); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		b.Fatal(err)
	}
	const rounds = 9
	var build, floor []float64
	for range rounds {
		floor = append(floor, milliseconds(func() { hashOnce(b, path) }))
		build = append(build, milliseconds(func() {
			if _, err := Build(b.Context(), Tenant(FromFile(path))); err != nil {
				b.Fatal(err)
			}
		}))
	}
	slices.Sort(build)
	slices.Sort(floor)
	value, least := build[rounds/2], floor[rounds/2]
	fmt.Fprintf(os.Stdout, "\nBENCH image_build %.1f ms floor=%.1f ratio=%.2f\n", value, least, value/least)
}

func hashOnce(b *testing.B, path string) {
	file, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(sha256.New(), file); err != nil {
		b.Fatal(err)
	}
}

func milliseconds(work func()) float64 {
	start := time.Now()
	work()
	return float64(time.Since(start).Microseconds()) / 1000
}
