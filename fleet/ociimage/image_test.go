package ociimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The digest of fixedSpec's image. It changes only when the form of images changes on purpose, and then every fleet
// plans an image swap: think twice.
const goldenDigest = "sha256:cede0bd0e7386f26e757a4deab63d1b48585c2c4c94fd9147fde5ae5b4e2ffaa"

// The stand-in control server is big enough for a layer of its own.
func standIn() []byte { return bytes.Repeat([]byte("control server\n"), 100_000) }

func fixedSpec(controlServer Source) Spec {
	s := Tenant(controlServer)
	s.Labels[LabelVersion] = "1.2.3"
	s.Env = map[string]string{"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
	s.Files = append(
		s.Files,
		File{Path: "/etc/motd", Source: FromBytes([]byte("hello\n")), Mode: 0o640, UID: 1, GID: 2},
		File{Path: "/opt/empty", Source: FromBytes(nil)},
		File{Path: "/opt/" + strings.Repeat("long/", 60) + "näme", Source: FromBytes([]byte("x"))},
	)
	return s
}

func TestSameInputsGiveTheGoldenDigest(t *testing.T) {
	img := build(t, fixedSpec(FromBytes(standIn())))
	if img.Digest() != goldenDigest {
		t.Fatalf("digest %s, want %s", img.Digest(), goldenDigest)
	}
}

// Each case builds in a child process of its own, because a umask and a user belong to a process.
func TestDigestIgnoresTheSurroundings(t *testing.T) {
	cases := map[string]struct {
		umask string
		uid   int
		env   []string
	}{
		"umask 000":         {umask: "0"},
		"umask 077":         {umask: "077"},
		"SOURCE_DATE_EPOCH": {umask: "022", env: []string{"SOURCE_DATE_EPOCH=1700000000", "TZ=Asia/Kathmandu"}},
		"another user":      {umask: "027", uid: 12345},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			// A temporary directory of the test is closed to other users; this one is not.
			dir, err := os.MkdirTemp("", "ociimage")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			bin := filepath.Join(dir, "child")
			copyFile(t, os.Args[0], bin)
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(bin, "-test.run=^TestChildBuilds$", "-test.v")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "OCIIMAGE_CHILD="+c.umask, "HOME="+dir)
			cmd.Env = append(cmd.Env, c.env...)
			if c.uid != 0 && os.Geteuid() == 0 { // an ordinary user cannot become another
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}}
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("child: %v\n%s", err, out)
			}
			if !strings.Contains(string(out), "digest="+goldenDigest) {
				t.Fatalf("child built another image:\n%s", out)
			}
		})
	}
}

func TestChildBuilds(t *testing.T) {
	umask, err := strconv.ParseUint(os.Getenv("OCIIMAGE_CHILD"), 8, 12)
	if err != nil {
		return // not a child
	}
	syscall.Umask(int(umask))
	dir := filepath.Join(".", fmt.Sprintf("some where %d", os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	src := filepath.Join(dir, "any name")
	if err := os.WriteFile(src, standIn(), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(src, time.Unix(1, 0), time.Unix(2_000_000_000, 5)); err != nil {
		t.Fatal(err)
	}
	fmt.Println("digest=" + build(t, fixedSpec(FromFile(src))).Digest()) //nolint:forbidigo // the parent reads it
}

func TestLayerDigestEqualsDiffID(t *testing.T) {
	img := build(t, fixedSpec(FromBytes(standIn())))
	if len(img.layers) != 2 {
		t.Fatalf("%d layers, want the small files and the control server apart", len(img.layers))
	}
	config, err := img.core.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.core.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range m.Layers {
		if d.Digest != config.RootFS.DiffIDs[i] {
			t.Errorf("layer %d: digest %s, diff id %s", i, d.Digest, config.RootFS.DiffIDs[i])
		}
		if d.MediaType != "application/vnd.oci.image.layer.v1.tar" {
			t.Errorf("layer %d: media type %s", i, d.MediaType)
		}
	}
}

func TestStoredGzipHoldsTheSameTar(t *testing.T) {
	plain := build(t, fixedSpec(FromBytes(standIn())))
	s := fixedSpec(FromBytes(standIn()))
	s.LayerFormat = LayerGzipStored
	zipped := build(t, s)
	for i, l := range zipped.layers {
		stored := readAll(t, l.Compressed)
		if int64(len(stored)) != l.size || l.size != storedGzipSize(l.archive.size) {
			t.Errorf("layer %d: %d bytes stored, %d announced", i, len(stored), l.size)
		}
		z, err := gzip.NewReader(bytes.NewReader(stored))
		if err != nil {
			t.Fatal(err)
		}
		tarBytes, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(tarBytes, readAll(t, plain.layers[i].Uncompressed)) {
			t.Errorf("layer %d: another tar inside", i)
		}
		if l.diffID != plain.layers[i].diffID || l.digest == l.diffID {
			t.Errorf("layer %d: digest %s, diff id %s, plain %s", i, l.digest, l.diffID, plain.layers[i].diffID)
		}
	}
}

func TestLayersHoldWhatTheSpecSays(t *testing.T) {
	img := build(t, fixedSpec(FromBytes(standIn())))
	got := map[string]string{}
	var order []string
	for _, l := range img.layers {
		tr := tar.NewReader(bytes.NewReader(readAll(t, l.Uncompressed)))
		for {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.ModTime.Unix() != 0 || h.Uname != "" || h.Gname != "" || len(h.PAXRecords) != 0 {
				t.Errorf("%s: time %v, user %q, PAX %v", h.Name, h.ModTime, h.Uname, h.PAXRecords)
			}
			got[h.Name] = fmt.Sprintf("%c %04o %d:%d %d %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.Size, h.Linkname)
			order = append(order, h.Name)
		}
	}
	for name, want := range map[string]string{
		"opt/flyfleet/bin/flyfleet-controlserver": "0 0755 0:0 1500000 ",
		"opt/flyfleet/bin/":                       "5 0755 0:0 0 ",
		"workspace":                               "2 0777 0:0 0 /data/workspace",
		"tmp/":                                    "5 1777 0:0 0 ",
		"etc/motd":                                "0 0640 1:2 6 ",
		"opt/empty":                               "0 0644 0:0 0 ",
		"opt/" + strings.Repeat("long/", 60) + "näme": "0 0644 0:0 1 ",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	seen := map[string]bool{"": true}
	for _, name := range order {
		parent := strings.TrimSuffix(filepath.Dir(strings.TrimSuffix(name, "/"))+"/", "./")
		if !seen[parent] {
			t.Errorf("%s comes before its parent %q", name, parent)
		}
		seen[name] = true
	}
}

func TestConfigSaysHowToRun(t *testing.T) {
	img := build(t, fixedSpec(FromBytes(standIn())))
	raw, err := img.core.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Created, OS, Architecture string
		Config                    map[string]any
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"Entrypoint":   []any{"/opt/flyfleet/bin/flyfleet-controlserver", "serve"},
		"Env":          []any{"LANG=C.UTF-8", "PATH=/usr/bin:/bin"},
		"Labels":       map[string]any{"flyfleet.wire": "1", "org.opencontainers.image.version": "1.2.3"},
		"ExposedPorts": map[string]any{"8080/tcp": map[string]any{}},
		"WorkingDir":   "/",
	}
	if !reflect.DeepEqual(got.Config, want) || got.Created != epoch || got.OS != "linux" || got.Architecture != "amd64" {
		t.Errorf("config %s", raw)
	}
}

func TestInputsHashFollowsEveryInput(t *testing.T) {
	src := filepath.Join(t.TempDir(), "server")
	writeFile(t, src, standIn())
	base := func() Spec { return fixedSpec(FromFile(src)) }
	hash := func(s Spec) string {
		h, err := InputsHash(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash(base())
	if first != build(t, base()).InputsHash() || first != hash(fixedSpec(FromBytes(standIn()))) {
		t.Error("the same inputs have several hashes")
	}
	seen := map[string]string{first: "unchanged"}
	for name, change := range map[string]func(*Spec){
		"label":       func(s *Spec) { s.Labels["a"] = "b" },
		"env":         func(s *Spec) { s.Env["A"] = "b" },
		"mode":        func(s *Spec) { s.Files[1].Mode = 0o600 },
		"owner":       func(s *Spec) { s.Files[1].UID = 7 },
		"content":     func(s *Spec) { s.Files[1].Source = FromBytes([]byte("other")) },
		"path":        func(s *Spec) { s.Files[1].Path = "/etc/other" },
		"link target": func(s *Spec) { s.Links[0].Target = "/other" },
		"format":      func(s *Spec) { s.LayerFormat = LayerGzipStored },
		"platform":    func(s *Spec) { s.Platform = "linux/arm64" },
		"user":        func(s *Spec) { s.User = "tenant" },
		"cmd":         func(s *Spec) { s.Cmd = []string{"x"} },
		"base":        func(s *Spec) { s.Base = "a/b@" + goldenDigest },
	} {
		s := base()
		change(&s)
		h := hash(s)
		if other, dup := seen[h]; dup {
			t.Errorf("changing the %s gives the hash of %q", name, other)
		}
		seen[h] = name
	}
}

func TestMistakesNameThePath(t *testing.T) {
	file := func(p string) File { return File{Path: p, Source: FromBytes(nil)} }
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"relative":    {Spec{Files: []File{file("etc/a")}}, `file "etc/a"`},
		"dots":        {Spec{Files: []File{file("/etc/../a")}}, `file "/etc/../a"`},
		"twice":       {Spec{Files: []File{file("/a")}, Dirs: []Dir{{Path: "/a"}}}, "file /a: the path is already a directory"},
		"below file":  {Spec{Files: []File{file("/a"), file("/a/b/c")}}, "file /a/b/c: its parent /a is a file"},
		"below link":  {Spec{Files: []File{file("/a/b")}, Links: []Link{{Path: "/a", Target: "/c"}}}, "its parent /a is a link"},
		"mode":        {Spec{Files: []File{{Path: "/a", Mode: 0o100644}}}, "file /a: mode 0100644"},
		"missing":     {Spec{Files: []File{{Path: "/a", Source: FromFile("/no/such")}}}, "/no/such"},
		"directory":   {Spec{Files: []File{{Path: "/a", Source: FromFile("/")}}}, "file /a of the image: source / is not a regular file"},
		"base tag":    {Spec{Base: "debian:12"}, "by digest"},
		"port":        {Spec{ExposedPorts: []string{"8080"}}, `exposed port "8080"`},
		"format":      {Spec{LayerFormat: "zstd"}, `layer format "zstd"`},
		"environment": {Spec{Env: map[string]string{"A=B": ""}}, `environment variable "A=B"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(t.Context(), c.spec)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestFileChangedAfterBuildIsAnError(t *testing.T) {
	for name, content := range map[string]string{"shorter": "ab", "longer": "abcdef", "same size": "abcx"} {
		t.Run(name, func(t *testing.T) {
			src := filepath.Join(t.TempDir(), "f")
			writeFile(t, src, []byte("abcd"))
			img := build(t, Spec{Files: []File{{Path: "/f", Source: FromFile(src)}}})
			writeFile(t, src, []byte(content))
			r, err := img.layers[0].Compressed()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.Copy(io.Discard, r); err == nil || !strings.Contains(err.Error(), src+" changed after the image was built") {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func build(t *testing.T, s Spec) *Image {
	t.Helper()
	img, err := Build(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func readAll(t *testing.T, open func() (io.ReadCloser, error)) []byte {
	t.Helper()
	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}
