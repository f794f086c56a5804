package ociimage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Scratch is the base of an image that holds only what its Spec names.
const Scratch = "scratch"

// The formats of the layers that Build adds.
const (
	// LayerTar stores layers as plain tar, so that no compressor has a say in the digest.
	//
	// Assumption: Fly's puller takes application/vnd.oci.image.layer.v1.tar, which the OCI image specification
	// requires of every implementation. LayerGzipStored is the way out.
	LayerTar = "tar"
	// LayerGzipStored wraps the same tar in gzip with stored (uncompressed) blocks of a fixed size: as
	// reproducible as LayerTar, and acceptable to a puller that wants gzip.
	LayerGzipStored = "gzip-stored"
)

// Spec says what is in an image. The zero value is an empty image for linux/amd64.
type Spec struct {
	// Base is Scratch (also when empty) or an image by digest, such as "debian@sha256:…" (a tag before
	// the digest is allowed and ignored).
	Base string
	// BaseToken is the bearer of the base's registry, used as the password of user "x". Empty means the
	// credentials of the local container tools, if any. It is no input of the digest.
	BaseToken string

	Dirs  []Dir
	Files []File
	Links []Link

	// Entrypoint and Cmd replace those of the base when set. An Entrypoint without Cmd clears the base's Cmd.
	Entrypoint []string
	Cmd        []string
	// Env and Labels are added to those of the base; equal names replace.
	Env    map[string]string
	Labels map[string]string
	// User and WorkDir replace those of the base when set.
	User    string
	WorkDir string
	// ExposedPorts are "port/protocol", such as "8080/tcp".
	ExposedPorts []string
	// Platform is "os/architecture[/variant]"; empty means linux/amd64. It also chooses among the images
	// of a multi-platform base.
	Platform string
	// LayerFormat is LayerTar (also when empty) or LayerGzipStored.
	LayerFormat string
}

// Dir is a directory of the image. Mode is the permission bits as in chmod, 01777 included; 0 means 0755.
type Dir struct {
	Path     string
	Mode     uint32
	UID, GID int
}

// File is a regular file of the image. Mode is the permission bits as in chmod; 0 means 0644.
type File struct {
	Path     string
	Source   Source
	Mode     uint32
	UID, GID int
}

// Link is a symbolic link of the image. Target is kept as it is and need not exist.
type Link struct {
	Path, Target string
	UID, GID     int
}

// Source is where the bytes of a file come from: FromFile or FromBytes.
type Source struct {
	path    string
	content []byte
}

// FromFile takes the bytes from a file on this computer, at build and again at push.
func FromFile(path string) Source { return Source{path: path} }

// FromBytes takes the bytes from memory. The slice must not change afterwards.
func FromBytes(content []byte) Source { return Source{content: content} }

func (s Source) open() (io.ReadCloser, error) {
	if s.path == "" {
		return io.NopCloser(bytes.NewReader(s.content)), nil
	}
	f, err := os.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("source file: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("source %s is not a regular file but %s", s.path, st.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// name is how errors call the source.
func (s Source) name() string {
	if s.path == "" {
		return "content"
	}
	return s.path
}

var (
	portPattern     = regexp.MustCompile(`^[1-9][0-9]{0,4}/(tcp|udp|sctp)$`)
	platformPattern = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9.]+)?$`)
)

// Check reports every mistake of the Spec that can be seen without reading files or calling a registry.
func (s Spec) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.base() != Scratch {
		if _, err := s.baseDigest(); err != nil {
			errs = append(errs, err)
		}
	}
	if !platformPattern.MatchString(s.platform()) {
		bad("platform %q: want os/architecture such as linux/amd64", s.Platform)
	}
	if f := s.layerFormat(); f != LayerTar && f != LayerGzipStored {
		bad("layer format %q: want %q or %q", s.LayerFormat, LayerTar, LayerGzipStored)
	}
	for _, p := range s.ExposedPorts {
		if !portPattern.MatchString(p) {
			bad("exposed port %q: want port/protocol such as 8080/tcp", p)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(s.Env[k], 0) {
			bad("environment variable %q: a name must not be empty or hold '=', and neither name nor value a NUL", k)
		}
	}
	return errors.Join(append(errs, s.checkPaths()...)...)
}

// checkPaths wants absolute clean paths, each named once, none below a file or link.
func (s Spec) checkPaths() []error {
	var errs []error
	kinds := map[string]string{}
	add := func(kind, p string, mode uint32) {
		switch {
		case !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/" || strings.ContainsRune(p, 0):
			errs = append(errs, fmt.Errorf("%s %q: want an absolute path without //, . or .. in it", kind, p))
		case mode&^0o7777 != 0:
			errs = append(errs, fmt.Errorf("%s %s: mode %#o has bits beyond 07777", kind, p, mode))
		case kinds[p] != "":
			errs = append(errs, fmt.Errorf("%s %s: the path is already a %s of this image", kind, p, kinds[p]))
		default:
			kinds[p] = kind
		}
	}
	for _, d := range s.Dirs {
		add("directory", d.Path, d.Mode)
	}
	for _, f := range s.Files {
		add("file", f.Path, f.Mode)
	}
	for _, l := range s.Links {
		add("link", l.Path, 0)
		if l.Target == "" {
			errs = append(errs, fmt.Errorf("link %s: its target is empty", l.Path))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(kinds)) {
		for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
			if k := kinds[dir]; k != "" && k != "directory" {
				errs = append(errs, fmt.Errorf("%s %s: its parent %s is a %s of this image", kinds[p], p, dir, k))
			}
		}
	}
	return errs
}

func (s Spec) base() string {
	if s.Base == "" {
		return Scratch
	}
	return s.Base
}

func (s Spec) platform() string {
	if s.Platform == "" {
		return "linux/amd64"
	}
	return s.Platform
}

func (s Spec) layerFormat() string {
	if s.LayerFormat == "" {
		return LayerTar
	}
	return s.LayerFormat
}

func (s Spec) baseDigest() (name.Digest, error) {
	var opts []name.Option
	host, _, _ := strings.Cut(s.base(), "/")
	if loopback(host) {
		opts = append(opts, name.Insecure)
	}
	d, err := name.NewDigest(s.base(), opts...)
	if err != nil {
		return name.Digest{}, fmt.Errorf("base %q: want %q or an image by digest, such as repository@sha256:…, so that the same inputs give the same image: %w", s.Base, Scratch, err)
	}
	return d, nil
}
