package ociimage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// recorder is a registry that logs requests and lets a test answer some of them itself.
type recorder struct {
	http.Handler
	mu     sync.Mutex
	calls  []string
	before func(w http.ResponseWriter, r *http.Request) bool
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.calls = append(r.calls, req.Method+" "+req.URL.Path)
	taken := r.before != nil && r.before(w, req)
	r.mu.Unlock()
	if !taken {
		r.Handler.ServeHTTP(w, req)
	}
}

func (r *recorder) count(method, part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.calls {
		if strings.HasPrefix(c, method+" ") && strings.Contains(c, part) {
			n++
		}
	}
	return n
}

func startRegistry(t *testing.T) (*recorder, string) {
	t.Helper()
	rec := &recorder{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	srv := httptest.NewServer(rec)
	t.Cleanup(srv.Close)
	return rec, strings.TrimPrefix(srv.URL, "http://")
}

func TestPushedImageIsPulledByItsDigest(t *testing.T) {
	for _, format := range []string{LayerTar, LayerGzipStored} {
		t.Run(format, func(t *testing.T) {
			rec, host := startRegistry(t)
			s := fixedSpec(FromBytes(standIn()))
			s.LayerFormat = format
			img := build(t, s)
			d := Destination{Registry: host, Repository: "tenant-a", Tag: "v1", Token: "secret"}
			if err := Push(t.Context(), img, d); err != nil {
				t.Fatal(err)
			}
			ref, err := name.ParseReference(img.Ref(d.Ref()))
			if err != nil {
				t.Fatal(err)
			}
			got, err := remote.Image(ref)
			if err != nil {
				t.Fatal(err)
			}
			layers, err := got.Layers()
			if err != nil {
				t.Fatal(err)
			}
			for i, l := range layers {
				if !bytes.Equal(readAll(t, l.Compressed), readAll(t, img.layers[i].Compressed)) {
					t.Errorf("layer %d came back changed", i)
				}
			}
			if byTag, err := remote.Head(ref.Context().Tag("v1")); err != nil || byTag.Digest.String() != img.Digest() {
				t.Errorf("tag v1: %v %v", byTag, err)
			}
			for tag, want := range map[string]string{"v1": img.Digest(), "v2": ""} {
				d := Destination{Registry: host, Repository: "tenant-a", Tag: tag}
				if digest, found, err := Resolve(t.Context(), d); err != nil || digest != want || found != (want != "") {
					t.Errorf("tag %s resolves to %q %v %v", tag, digest, found, err)
				}
			}
			posts := rec.count("POST", "/blobs/uploads/")
			if err := Push(t.Context(), img, d); err != nil {
				t.Fatal(err)
			}
			if rec.count("POST", "/blobs/uploads/") != posts {
				t.Error("a second push uploaded again")
			}
		})
	}
}

func TestPushWaitsUntilTheDigestIsVisible(t *testing.T) {
	rec, host := startRegistry(t)
	hidden, broken, pushed := 2, 1, false
	rec.before = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") && broken > 0:
			broken--
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		case r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/"):
			pushed = true
		case r.Method == http.MethodHead && strings.Contains(r.URL.Path, "/manifests/sha256:") && pushed && hidden > 0:
			hidden--
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	}
	img := build(t, Spec{Files: []File{{Path: "/a", Source: FromBytes([]byte("a"))}}})
	if err := Push(t.Context(), img, Destination{Registry: host, Repository: "a"}); err != nil {
		t.Fatal(err)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if hidden != 0 || broken != 0 {
		t.Errorf("the test's faults were not met: %d hidden, %d broken left in %v", hidden, broken, rec.calls)
	}
}

func TestPushErrorsSayWhereAndWhat(t *testing.T) {
	rec, host := startRegistry(t)
	rec.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"errors":[{"code":"DENIED","message":"no such app"}]}`)
		return true
	}
	img := build(t, Spec{Files: []File{{Path: "/a", Source: FromBytes([]byte("a"))}}})
	err := Push(t.Context(), img, Destination{Registry: host, Repository: "a", Token: "tok-very-secret"})
	if err == nil || !strings.Contains(err.Error(), "no such app") || !strings.Contains(err.Error(), host+"/a") {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(err.Error(), "tok-very-secret") {
		t.Fatalf("the token is in the error: %v", err)
	}
	if rec.count("POST", "") > 2 { // one for the config, one for the layer
		t.Errorf("a refusal was asked again: %v", rec.calls)
	}
}

func TestPlainHTTPStaysOnLoopback(t *testing.T) {
	tr := &plainOnlyToLoopback{http.DefaultTransport}
	req := httptest.NewRequest(http.MethodGet, "http://192.168.1.1:5000/v2/", nil)
	if _, err := tr.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("error %v", err)
	}
	for host, want := range map[string]bool{
		"127.0.0.1:80": true, "localhost": true, "[::1]:5": true, "::1": true,
		"10.0.0.1:5000": false, "registry.fly.io": false, "localhost.example.com": false,
	} {
		if loopback(host) != want {
			t.Errorf("loopback(%s) = %v", host, !want)
		}
	}
}

func TestCancelledBuildAndPushEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := fixedSpec(FromBytes(standIn()))
	if _, err := Build(ctx, s); err == nil {
		t.Error("build went on")
	}
	_, host := startRegistry(t)
	if err := Push(ctx, build(t, s), Destination{Registry: host, Repository: "a"}); err == nil {
		t.Error("push went on")
	}
}

func TestBaseIsKeptUnderOurLayers(t *testing.T) {
	_, host := startRegistry(t)
	ref := pushBase(t, host)
	s := Tenant(FromBytes([]byte("server")))
	s.Base = ref
	s.Env = map[string]string{"A": "2", "C": "3"}
	s.Platform = "linux/arm64"
	img := build(t, s)
	if err := Push(t.Context(), img, Destination{Registry: host, Repository: "tenant"}); err != nil {
		t.Fatal(err)
	}
	got, err := img.core.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"A=2", "B=1", "C=3"}; strings.Join(got.Config.Env, " ") != strings.Join(want, " ") {
		t.Errorf("env %v, want %v", got.Config.Env, want)
	}
	if got.Config.Cmd != nil || got.Config.StopSignal != "SIGQUIT" || got.Architecture != "arm64" || len(got.RootFS.DiffIDs) != 2 {
		t.Errorf("config %+v", got)
	}
	m, err := img.core.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if m.Layers[0].MediaType != types.OCIUncompressedLayer {
		t.Errorf("base layer has media type %s", m.Layers[0].MediaType)
	}
	for _, e := range img.layers[0].archive.pieces {
		if bytes.HasPrefix(e.bytes, []byte("etc/\x00")) {
			t.Error("the base's /etc is overridden")
		}
	}
	s.Platform = "linux/riscv64"
	if _, err := Build(t.Context(), s); err == nil || !strings.Contains(err.Error(), "it offers no linux/riscv64, only linux/amd64, linux/arm64") {
		t.Errorf("error %v", err)
	}
	s.Base = host + "/none@" + goldenDigest
	if _, err := Build(t.Context(), s); err == nil || !strings.Contains(err.Error(), "base image "+s.Base) {
		t.Errorf("error %v", err)
	}
}

// pushBase stores an index of two images, of which the arm64 one has a config to be kept.
func pushBase(t *testing.T, host string) string {
	t.Helper()
	index := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(arch), types.DockerUncompressedLayer))
		if err != nil {
			t.Fatal(err)
		}
		cf, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		cf = cf.DeepCopy()
		cf.OS, cf.Architecture, cf.Created = "linux", arch, v1.Time{Time: time.Unix(1, 0)}
		cf.Config = v1.Config{Env: []string{"A=1", "B=1"}, Cmd: []string{"old"}, StopSignal: "SIGQUIT"}
		if img, err = mutate.ConfigFile(img, cf); err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	tag, err := name.NewTag(host + "/base:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	h, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return tag.Context().Digest(h.String()).String()
}
