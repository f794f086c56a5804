// Package registry is an OCI registry on disk: what registry.fly.io is to Fly. It serves /v2, checks every digest
// that a client claims, and hands images to the runners without going over the network.
package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Limits of what one client may push.
const (
	maxManifest = 4 << 20
	maxBlob     = 16 << 30
)

var (
	repoPattern   = regexp.MustCompile(`^[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*$`)
	tagPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// ErrUnknown is answered for a blob, manifest or tag that the registry does not hold.
var ErrUnknown = errors.New("unknown to this registry")

// errDigest is wrapped when content does not hash to the digest that was claimed for it.
var errDigest = errors.New("content does not match its digest")

// Store keeps blobs and manifests below one directory:
//
//	blobs/<hex>                     content, named by its SHA-256; layers, configs and manifests alike
//	repos/<repository>/_manifests/<hex>   the manifest's media type
//	repos/<repository>/_tags/<tag>        the digest behind the tag
//	uploads/<id>                    an upload in progress, gone after a restart
//
// Blobs are shared by all repositories; which manifests a repository has is its own. It is safe for concurrent use.
type Store struct {
	dir     string
	mu      sync.Mutex
	uploads map[string]*upload
}

type upload struct {
	mu   sync.Mutex
	file *os.File
	hash hash.Hash
	size int64
}

// Open opens or makes a registry below dir.
func Open(dir string) (*Store, error) {
	if err := os.RemoveAll(filepath.Join(dir, "uploads")); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	for _, sub := range []string{"blobs", "repos", "uploads"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("registry: %w", err)
		}
	}
	return &Store{dir: dir, uploads: map[string]*upload{}}, nil
}

// Close drops the uploads in progress.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.uploads {
		u.file.Close()
		delete(s.uploads, id)
	}
	return nil
}

func (s *Store) blobPath(digest string) string {
	return filepath.Join(s.dir, "blobs", strings.TrimPrefix(digest, "sha256:"))
}

func (s *Store) openBlob(digest string) (*os.File, error) {
	if !digestPattern.MatchString(digest) {
		return nil, ErrUnknown
	}
	f, err := os.Open(s.blobPath(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", digest, ErrUnknown)
	}
	return f, err
}

func (s *Store) hasBlob(digest string) bool {
	if !digestPattern.MatchString(digest) {
		return false
	}
	_, err := os.Stat(s.blobPath(digest))
	return err == nil
}

func (s *Store) begin(id string) error {
	f, err := os.OpenFile(filepath.Join(s.dir, "uploads", id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("registry upload: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uploads[id] = &upload{file: f, hash: sha256.New()}
	return nil
}

func (s *Store) upload(id string) (*upload, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, ok := s.uploads[id]
	return u, ok
}

// append adds a chunk and answers the size so far.
func (u *upload) append(r io.Reader) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := io.Copy(io.MultiWriter(u.file, u.hash), io.LimitReader(r, maxBlob-u.size))
	u.size += n
	if err != nil {
		return u.size, fmt.Errorf("registry upload: %w", err)
	}
	return u.size, nil
}

// finish moves an upload to its place when it hashes to digest; the upload is over either way.
func (s *Store) finish(id, digest string) error {
	s.mu.Lock()
	u, ok := s.uploads[id]
	delete(s.uploads, id)
	s.mu.Unlock()
	if !ok {
		return ErrUnknown
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	path := u.file.Name()
	closeErr := u.file.Close()
	got := "sha256:" + hex.EncodeToString(u.hash.Sum(nil))
	switch {
	case closeErr != nil:
		return errors.Join(closeErr, os.Remove(path))
	case got != digest:
		return errors.Join(fmt.Errorf("%w: got %s, claimed %s", errDigest, got, digest), os.Remove(path))
	}
	return os.Rename(path, s.blobPath(digest))
}

// cancel drops an upload.
func (s *Store) cancel(id string) {
	s.mu.Lock()
	u, ok := s.uploads[id]
	delete(s.uploads, id)
	s.mu.Unlock()
	if ok {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.file.Close()
		_ = os.Remove(u.file.Name()) // Open removes what is left here.
	}
}

func (s *Store) repoPath(repo string, more ...string) string {
	return filepath.Join(append([]string{s.dir, "repos", filepath.FromSlash(repo)}, more...)...)
}

// putManifest stores a manifest under its digest and, when reference is a tag, under that tag. Everything that the
// manifest points at must be there.
func (s *Store) putManifest(repo, reference, mediaType string, raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if digestPattern.MatchString(reference) && reference != digest {
		return "", fmt.Errorf("%w: got %s, claimed %s", errDigest, digest, reference)
	}
	if err := s.checkManifest(raw); err != nil {
		return "", err
	}
	// Two pushes of one manifest share their temporary files' names.
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := state.WriteFile(s.blobPath(digest), raw); err != nil {
		return "", err
	}
	for _, sub := range []string{"_manifests", "_tags"} {
		if err := os.MkdirAll(s.repoPath(repo, sub), 0o700); err != nil {
			return "", fmt.Errorf("registry: %w", err)
		}
	}
	if err := state.WriteFile(s.repoPath(repo, "_manifests", strings.TrimPrefix(digest, "sha256:")), []byte(mediaType)); err != nil {
		return "", err
	}
	if digestPattern.MatchString(reference) {
		return digest, nil
	}
	return digest, state.WriteFile(s.repoPath(repo, "_tags", reference), []byte(digest))
}

// errManifest is wrapped when a manifest is no manifest or points at what is not there.
var errManifest = errors.New("manifest invalid")

func (s *Store) checkManifest(raw []byte) error {
	type descriptor struct {
		Digest string `json:"digest"`
		URLs   []string
	}
	var m struct {
		Config    *descriptor  `json:"config"`
		Layers    []descriptor `json:"layers"`
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%w: %w", errManifest, err)
	}
	want := slices.Concat(m.Layers, m.Manifests)
	if m.Config != nil {
		want = append(want, *m.Config)
	}
	for _, d := range want {
		if len(d.URLs) == 0 && !s.hasBlob(d.Digest) {
			return fmt.Errorf("%w: %s has not been pushed", errManifest, d.Digest)
		}
	}
	return nil
}

// manifest answers a manifest by tag or digest.
func (s *Store) manifest(repo, reference string) (raw []byte, digest, mediaType string, err error) {
	if !repoPattern.MatchString(repo) {
		return nil, "", "", fmt.Errorf("repository %q: %w", repo, ErrUnknown)
	}
	digest = reference
	if !digestPattern.MatchString(reference) {
		if !tagPattern.MatchString(reference) {
			return nil, "", "", fmt.Errorf("reference %q: %w", reference, ErrUnknown)
		}
		text, err := os.ReadFile(s.repoPath(repo, "_tags", reference))
		if err != nil {
			return nil, "", "", fmt.Errorf("%s:%s: %w", repo, reference, ErrUnknown)
		}
		digest = string(text)
	}
	kind, err := os.ReadFile(s.repoPath(repo, "_manifests", strings.TrimPrefix(digest, "sha256:")))
	if err != nil {
		return nil, "", "", fmt.Errorf("%s@%s: %w", repo, digest, ErrUnknown)
	}
	raw, err = os.ReadFile(s.blobPath(digest))
	if err != nil {
		return nil, "", "", fmt.Errorf("%s@%s: %w", repo, digest, err)
	}
	return raw, digest, string(kind), nil
}

// deleteManifest forgets a tag, or a manifest with the tags that point at it. Blobs stay.
func (s *Store) deleteManifest(repo, reference string) error {
	_, digest, _, err := s.manifest(repo, reference)
	if err != nil {
		return err
	}
	if reference != digest {
		return os.Remove(s.repoPath(repo, "_tags", reference))
	}
	tags, err := s.tags(repo)
	if err != nil {
		return err
	}
	for _, tag := range tags {
		text, err := os.ReadFile(s.repoPath(repo, "_tags", tag))
		if err == nil && string(text) == digest {
			if err := os.Remove(s.repoPath(repo, "_tags", tag)); err != nil {
				return err
			}
		}
	}
	return os.Remove(s.repoPath(repo, "_manifests", strings.TrimPrefix(digest, "sha256:")))
}

func (s *Store) tags(repo string) ([]string, error) {
	entries, err := os.ReadDir(s.repoPath(repo, "_tags"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("repository %s: %w", repo, ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	tags := make([]string, 0, len(entries))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".tmp") {
			tags = append(tags, e.Name())
		}
	}
	return tags, nil
}

func (s *Store) repositories() ([]string, error) {
	var repos []string
	root := filepath.Join(s.dir, "repos")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "_manifests" {
			rel, err := filepath.Rel(root, filepath.Dir(path))
			repos = append(repos, filepath.ToSlash(rel))
			return errors.Join(err, fs.SkipDir)
		}
		return err
	})
	return repos, err
}
