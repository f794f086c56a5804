package registry

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Handler serves the distribution protocol at /v2/.
func (s *Store) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		path := strings.TrimPrefix(r.URL.Path, "/v2")
		path = strings.TrimPrefix(path, "/")
		switch path {
		case "":
			w.WriteHeader(http.StatusOK)
		case "_catalog":
			s.catalog(w)
		default:
			s.route(w, r, path)
		}
	})
}

// route finds the verb behind the repository's name, which may hold slashes itself.
func (s *Store) route(w http.ResponseWriter, r *http.Request, path string) {
	for _, mark := range []string{"/blobs/uploads/", "/blobs/", "/manifests/", "/tags/"} {
		i := strings.LastIndex(path, mark)
		if i < 0 && mark == "/blobs/uploads/" && strings.HasSuffix(path, "/blobs/uploads") {
			i, path = len(path)-len("/blobs/uploads"), path+"/"
		}
		if i < 0 {
			continue
		}
		repo, rest := path[:i], path[i+len(mark):]
		if !repoPattern.MatchString(repo) {
			fail(w, http.StatusBadRequest, "NAME_INVALID", "invalid repository name")
			return
		}
		switch mark {
		case "/blobs/uploads/":
			s.serveUpload(w, r, repo, rest)
		case "/blobs/":
			s.serveBlob(w, r, rest)
		case "/manifests/":
			s.serveManifest(w, r, repo, rest)
		case "/tags/":
			s.serveTags(w, repo)
		}
		return
	}
	fail(w, http.StatusNotFound, "UNSUPPORTED", "no such path")
}

func (s *Store) serveBlob(w http.ResponseWriter, r *http.Request, digest string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "blobs are read and uploaded only")
		return
	}
	f, err := s.openBlob(digest)
	if err != nil {
		failFor(w, err, "BLOB_UNKNOWN")
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		failFor(w, err, "BLOB_UNKNOWN")
		return
	}
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", info.ModTime(), f)
}

func (s *Store) serveUpload(w http.ResponseWriter, r *http.Request, repo, id string) {
	digest := r.URL.Query().Get("digest")
	if id == "" {
		s.startUpload(w, r, repo, digest)
		return
	}
	u, ok := s.upload(id)
	if !ok {
		fail(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "upload unknown to this registry")
		return
	}
	switch r.Method {
	case http.MethodGet:
		u.mu.Lock()
		size := u.size
		u.mu.Unlock()
		progress(w, repo, id, size, http.StatusNoContent)
	case http.MethodPatch:
		size, err := u.append(r.Body)
		if err != nil {
			fail(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", err.Error())
			return
		}
		progress(w, repo, id, size, http.StatusAccepted)
	case http.MethodPut:
		s.endUpload(w, r, repo, id, digest)
	case http.MethodDelete:
		s.cancel(id)
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "uploads know POST, PATCH, PUT, GET and DELETE")
	}
}

func (s *Store) startUpload(w http.ResponseWriter, r *http.Request, repo, digest string) {
	if r.Method != http.MethodPost {
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "an upload starts with POST")
		return
	}
	if mount := r.URL.Query().Get("mount"); mount != "" && s.hasBlob(mount) {
		created(w, repo, mount)
		return
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // crypto/rand never fails.
	id := hex.EncodeToString(random[:])
	if err := s.begin(id); err != nil {
		failFor(w, err, "BLOB_UPLOAD_INVALID")
		return
	}
	if digest != "" {
		s.endUpload(w, r, repo, id, digest)
		return
	}
	progress(w, repo, id, 0, http.StatusAccepted)
}

func (s *Store) endUpload(w http.ResponseWriter, r *http.Request, repo, id, digest string) {
	if u, ok := s.upload(id); ok {
		if _, err := u.append(r.Body); err != nil {
			s.cancel(id)
			fail(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", err.Error())
			return
		}
	}
	if err := s.finish(id, digest); err != nil {
		failFor(w, err, "BLOB_UPLOAD_UNKNOWN")
		return
	}
	created(w, repo, digest)
}

func created(w http.ResponseWriter, repo, digest string) {
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/%s", repo, digest))
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}

func progress(w http.ResponseWriter, repo, id string, size int64, status int) {
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/blobs/uploads/%s", repo, id))
	w.Header().Set("Range", "0-"+strconv.FormatInt(max(size-1, 0), 10))
	w.Header().Set("Docker-Upload-Uuid", id)
	w.WriteHeader(status)
}

func (s *Store) serveManifest(w http.ResponseWriter, r *http.Request, repo, reference string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		raw, digest, mediaType, err := s.manifest(repo, reference)
		if err != nil {
			failFor(w, err, "MANIFEST_UNKNOWN")
			return
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(raw)
		}
	case http.MethodPut:
		s.acceptManifest(w, r, repo, reference)
	case http.MethodDelete:
		if err := s.deleteManifest(repo, reference); err != nil {
			failFor(w, err, "MANIFEST_UNKNOWN")
			return
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "manifests know GET, HEAD, PUT and DELETE")
	}
}

func (s *Store) acceptManifest(w http.ResponseWriter, r *http.Request, repo, reference string) {
	if !digestPattern.MatchString(reference) && !tagPattern.MatchString(reference) {
		fail(w, http.StatusBadRequest, "TAG_INVALID", "neither a tag nor a digest")
		return
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxManifest+1))
	if err != nil || len(raw) > maxManifest {
		fail(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", "manifest is too large or was cut off")
		return
	}
	digest, err := s.putManifest(repo, reference, r.Header.Get("Content-Type"), raw)
	if err != nil {
		failFor(w, err, "MANIFEST_INVALID")
		return
	}
	w.Header().Set("Location", fmt.Sprintf("/v2/%s/manifests/%s", repo, digest))
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}

func (s *Store) serveTags(w http.ResponseWriter, repo string) {
	tags, err := s.tags(repo)
	if err != nil {
		failFor(w, err, "NAME_UNKNOWN")
		return
	}
	answer(w, map[string]any{"name": repo, "tags": tags})
}

func (s *Store) catalog(w http.ResponseWriter) {
	repos, err := s.repositories()
	if err != nil {
		failFor(w, err, "UNKNOWN")
		return
	}
	answer(w, map[string]any{"repositories": append([]string{}, repos...)})
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // The client has gone; nobody is left to tell.
}

func failFor(w http.ResponseWriter, err error, unknown string) {
	switch {
	case errors.Is(err, ErrUnknown):
		fail(w, http.StatusNotFound, unknown, err.Error())
	case errors.Is(err, errDigest):
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", err.Error())
	case errors.Is(err, errManifest):
		fail(w, http.StatusBadRequest, "MANIFEST_INVALID", err.Error())
	default:
		fail(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
	}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}
