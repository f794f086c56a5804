package flylocal_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

func push(t *testing.T, p *flylocal.Platform, ref string) v1.Image {
	t.Helper()
	img, err := random.Image(2048, 3)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.Config(img, v1.Config{Entrypoint: []string{"/bin/true"}, Labels: map[string]string{"fly.version": "7"}})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(p.RegistryHost() + "/" + ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img, login(t, p)...); err != nil {
		t.Fatal(err)
	}
	return img
}

func login(t *testing.T, p *flylocal.Platform) []remote.Option {
	t.Helper()
	return []remote.Option{remote.WithContext(t.Context()), remote.WithAuth(&authn.Basic{Username: "x", Password: p.Token()})}
}

func digestOf(t *testing.T, img v1.Image) string {
	t.Helper()
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

func TestPushedImagesArePulledByTagAndDigestAlsoAfterARestart(t *testing.T) {
	dir := t.TempDir()
	p := start(t, func(o *flylocal.Options) { o.Dir = dir })
	img := push(t, p, "app/nested:v1")
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p = start(t, func(o *flylocal.Options) { o.Dir = dir })
	for _, suffix := range []string{":v1", "@" + digestOf(t, img)} {
		ref, err := name.ParseReference(p.RegistryHost() + "/app/nested" + suffix)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Image(ref, login(t, p)...)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := got.Layers()
		if err != nil || len(layers) != 3 {
			t.Fatalf("%d layers, %v", len(layers), err)
		}
		for _, layer := range layers {
			r, err := layer.Compressed()
			if err != nil {
				t.Fatal(err)
			}
			// The client checks the digest as it reads.
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Error(err)
			}
			r.Close()
		}
		if digestOf(t, got) != digestOf(t, img) {
			t.Errorf("%s has another digest", suffix)
		}
	}
	tags, err := remote.List(mustRepo(t, p, "app/nested"), login(t, p)...)
	if err != nil || len(tags) != 1 || tags[0] != "v1" {
		t.Errorf("tags %v, %v", tags, err)
	}
}

func mustRepo(t *testing.T, p *flylocal.Platform, repo string) name.Repository {
	t.Helper()
	r, err := name.NewRepository(p.RegistryHost() + "/" + repo)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheRegistryTakesNoContentUnderAnotherDigest(t *testing.T) {
	p := start(t)
	wrong := "sha256:" + strings.Repeat("a", 64)
	got := must(t, p, "POST", "/v2/app/blobs/uploads/", nil)
	location := got.header.Get("Location")
	if got := call(t, p, "PUT", location+"?digest="+wrong, "hello"); got.status != 400 || !strings.Contains(string(got.body), "DIGEST_INVALID") {
		t.Errorf("blob: %d %s", got.status, got.body)
	}
	if got := call(t, p, "HEAD", "/v2/app/blobs/"+wrong, nil); got.status != 404 {
		t.Errorf("the blob is there: %d", got.status)
	}
	if got := call(t, p, "PUT", "/v2/app/manifests/"+wrong, `{"schemaVersion":2}`); got.status != 400 || !strings.Contains(string(got.body), "DIGEST_INVALID") {
		t.Errorf("manifest: %d %s", got.status, got.body)
	}
	missing := `{"schemaVersion":2,"config":{"digest":"` + wrong + `"},"layers":[]}`
	if got := call(t, p, "PUT", "/v2/app/manifests/v1", missing); got.status != 400 || !strings.Contains(string(got.body), "MANIFEST_INVALID") {
		t.Errorf("a manifest without its blobs: %d %s", got.status, got.body)
	}
	for _, path := range []string{"/v2/../../etc/manifests/v1", "/v2/app/manifests/..%2f..%2fx"} {
		if got := call(t, p, "PUT", path, `{}`); got.status < 300 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

func TestTheRegistryWantsTheToken(t *testing.T) {
	p := start(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+"/v2/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("Www-Authenticate"), "Basic ") {
		t.Errorf("%s %s", resp.Status, resp.Header.Get("Www-Authenticate"))
	}
}

func TestMachinesRunWhatTheRegistryHolds(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	img := push(t, p, "app:v1")
	ref := p.RegistryHost() + "/app"
	m := newMachine(t, p, "app", `{"name":"tag","config":{"image":"`+ref+`:v1"}}`)
	if m.State != "started" || m.ImageRef.Digest != digestOf(t, img) || m.ImageRef.Tag != "v1" || m.ImageRef.Repository != "app" {
		t.Errorf("%s %+v", m.State, m.ImageRef)
	}
	byFly := newMachine(t, p, "app", `{"name":"fly","config":{"image":"registry.fly.io/app@`+digestOf(t, img)+`"}}`)
	if byFly.State != "started" || byFly.ImageRef.Tag != "" || byFly.ImageRef.Registry != "registry.fly.io" {
		t.Errorf("%s %+v", byFly.State, byFly.ImageRef)
	}
	missing := newMachine(t, p, "app", `{"name":"none","config":{"image":"`+ref+`:none"}}`)
	if missing.State != "failed" {
		t.Errorf("an image that was never pushed runs: %s", missing.State)
	}
	hub := newMachine(t, p, "app", `{"name":"hub","config":{"image":"nginx"}}`)
	if r := hub.ImageRef; r.Registry != "registry-1.docker.io" || r.Repository != "library/nginx" || r.Tag != "latest" || r.Digest == "" {
		t.Errorf("%+v", r)
	}
	pinned := "registry.fly.io/app:v9@" + digestOf(t, img)
	both := newMachine(t, p, "app", `{"name":"both","config":{"image":"`+pinned+`"}}`)
	if both.ImageRef.Tag != "v9" || both.ImageRef.Digest != digestOf(t, img) {
		t.Errorf("%+v", both.ImageRef)
	}
}

func TestADamagedBlobIsNotServedAsItsDigest(t *testing.T) {
	p := start(t)
	img := push(t, p, "app:v1")
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Dir, "registry", "blobs", digest.Hex), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(p.RegistryHost() + "/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Image(ref, login(t, p)...)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := got.LayerByDigest(digest)
	if err != nil {
		t.Fatal(err)
	}
	r, err := layer.Compressed()
	if err != nil {
		return
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err == nil {
		t.Error("a damaged layer was read without an error")
	}
}
