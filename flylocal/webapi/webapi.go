// Package webapi answers the REST paths of Fly's web side (/api/v1) that flyctl needs: the organization, builds and
// releases.
package webapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

const maxBody = 1 << 20

type api struct{ world *engine.World }

// Handler serves /api/v1. The caller has checked the token.
func Handler(world *engine.World) http.Handler {
	a := api{world}
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(*http.Request) (int, any, error){
		"GET /api/v1/organizations/{slug}":        a.organization,
		"POST /api/v1/builds":                     build,
		"POST /api/v1/builds/finish":              build,
		"GET /api/v1/apps/{app}/releases":         a.releases,
		"GET /api/v1/apps/{app}/releases/current": a.currentRelease,
		"POST /api/v1/releases":                   a.createRelease,
		"PATCH /api/v1/releases/{id}":             a.updateRelease,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			status, body, err := h(r)
			var refusal *engine.Refusal
			switch {
			case errors.As(err, &refusal):
				status, body = refusal.Status, map[string]string{"error": refusal.Text}
			case err != nil:
				status, body = http.StatusBadRequest, map[string]string{"error": err.Error()}
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(body) // The client has gone; nobody is left to tell.
		})
	}
	return mux
}

func decode(r *http.Request, into any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil || len(raw) == 0 {
		return err
	}
	return json.Unmarshal(raw, into)
}

func (a api) organization(r *http.Request) (int, any, error) {
	slug := r.PathValue("slug")
	if !a.world.OwnOrg(slug) {
		return 0, nil, &engine.Refusal{Status: http.StatusNotFound, Text: "organization not found"}
	}
	slug = a.world.Org()
	return http.StatusOK, map[string]any{"organization": map[string]any{
		"id": "org_" + slug, "internal_numeric_id": 1, "slug": slug, "raw_slug": slug, "name": slug, "paid_plan": false,
		"personal": true, "billing_status": "CURRENT", "billable": true, "remote_builder_image": "",
	}}, nil
}

// build answers for builds, which happen on the client's side.
func build(*http.Request) (int, any, error) {
	return http.StatusOK, map[string]any{"id": 1, "status": "completed", "wallclock_time_ms": 0}, nil
}

func releaseJSON(r state.Release) map[string]any {
	return map[string]any{
		"id": r.ID, "version": r.Version, "stable": r.Status == "complete", "in_progress": r.Status == "running", "status": r.Status,
		"strategy": r.Strategy, "image_ref": r.ImageRef, "created_at": r.CreatedAt.Format(time.RFC3339),
		"user": map[string]string{"id": "user_local", "email": "local@flylocal.invalid", "name": "local"},
	}
}

func (a api) releases(r *http.Request) (int, any, error) {
	app, err := a.world.App(r.PathValue("app"))
	if err != nil {
		return 0, nil, err
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 {
		limit = len(app.Releases)
	}
	rows := []map[string]any{}
	for i := len(app.Releases) - 1; i >= 0 && len(rows) < limit; i-- {
		rows = append(rows, releaseJSON(app.Releases[i]))
	}
	return http.StatusOK, map[string]any{"releases": rows}, nil
}

func (a api) currentRelease(r *http.Request) (int, any, error) {
	app, err := a.world.App(r.PathValue("app"))
	if err != nil {
		return 0, nil, err
	}
	if len(app.Releases) == 0 {
		return 0, nil, &engine.Refusal{Status: http.StatusNotFound, Text: "release not found"}
	}
	return http.StatusOK, releaseJSON(app.Releases[len(app.Releases)-1]), nil
}

type releaseInput struct {
	App      string  `json:"app_name"`
	AppID    string  `json:"app_id"`
	Status   string  `json:"status"`
	Strategy string  `json:"strategy"`
	Image    *string `json:"image"`
	ImageRef *string `json:"image_ref"`
}

func (in releaseInput) apply(r *state.Release) {
	if in.Status != "" {
		r.Status = in.Status
	}
	if in.Strategy != "" {
		r.Strategy = in.Strategy
	}
	for _, image := range []*string{in.Image, in.ImageRef} {
		if image != nil {
			r.ImageRef = *image
		}
	}
}

func (a api) createRelease(r *http.Request) (int, any, error) {
	var in releaseInput
	if err := decode(r, &in); err != nil {
		return 0, nil, err
	}
	name := in.App
	if name == "" {
		name = a.world.AppName(in.AppID)
	}
	release, err := a.world.AddRelease(name, in.apply, "")
	return http.StatusCreated, map[string]any{"release": releaseJSON(release)}, err
}

// updateRelease finds the release by its id alone, as the path has no app.
func (a api) updateRelease(r *http.Request) (int, any, error) {
	var in releaseInput
	if err := decode(r, &in); err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	for _, app := range a.world.Apps("") {
		for _, release := range app.Releases {
			if release.ID == id {
				changed, err := a.world.AddRelease(app.Name, in.apply, id)
				return http.StatusOK, map[string]any{"release": releaseJSON(changed)}, err
			}
		}
	}
	return 0, nil, &engine.Refusal{Status: http.StatusNotFound, Text: "release not found"}
}
