package flaps

import (
	"net/http"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

func (a *api) appRoutes() map[string]handler {
	return map[string]handler{
		"POST /v1/apps":                             a.createApp,
		"GET /v1/apps":                              a.listApps,
		"GET /v1/apps/{app}":                        a.getApp,
		"DELETE /v1/apps/{app}":                     a.deleteApp,
		"GET /v1/apps/{app}/ip_assignments":         a.listIPs,
		"POST /v1/apps/{app}/ip_assignments":        a.assignIP,
		"DELETE /v1/apps/{app}/ip_assignments/{ip}": a.releaseIP,
		"POST /v1/apps/{app}/deploy_token":          a.deployToken,
		"GET /v1/tokens/current":                    a.currentToken,
		"GET /v1/platform/regions":                  a.regions,
		"POST /v1/platform/placements":              a.placements,
		"GET /v1/apps/{app}/certificates":           a.noCertificates,
		"GET /v1/apps/{app}/network_policies":       a.noPolicies,
	}
}

func (a *api) createApp(r *http.Request) (answer, error) {
	var in struct {
		Name    string `json:"name"`
		AppName string `json:"app_name"`
		Org     string `json:"org_slug"`
		Network string `json:"network"`
		Role    string `json:"app_role_id"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	if in.Name == "" {
		in.Name = in.AppName
	}
	app, err := a.world.CreateApp(engine.AppInput{Name: in.Name, Org: in.Org, Network: in.Network, Role: in.Role})
	return answer{status: http.StatusCreated, body: appJSON(app)}, err
}

func (a *api) listApps(r *http.Request) (answer, error) {
	if org := r.URL.Query().Get("org_slug"); !a.world.OwnOrg(org) {
		if org == "" {
			return answer{}, badRequest("org_slug is required")
		}
		return answer{}, &engine.Refusal{Status: http.StatusNotFound, Text: "organization not found"}
	}
	apps := a.world.Apps(r.URL.Query().Get("app_role"))
	var o object
	o.val("total_apps", len(apps))
	o.raw("apps", array(apps, appJSON))
	return ok(o.bytes())
}

func (a *api) getApp(r *http.Request) (answer, error) {
	app, err := a.world.App(appOf(r))
	return answer{status: http.StatusOK, body: appJSON(app)}, err
}

func (a *api) deleteApp(r *http.Request) (answer, error) {
	return answer{status: http.StatusAccepted}, a.world.DeleteApp(appOf(r))
}

func (a *api) listIPs(r *http.Request) (answer, error) {
	app, err := a.world.App(appOf(r))
	var o object
	o.raw("ips", array(app.IPs, ipJSON))
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

func (a *api) assignIP(r *http.Request) (answer, error) {
	var in struct {
		Type    string `json:"type"`
		Region  string `json:"region"`
		Org     string `json:"org_slug"`
		Network string `json:"network"`
		Service string `json:"service_name"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	ip, err := a.world.AllocateIP(appOf(r), engine.IPInput{Type: in.Type, Region: in.Region, Org: in.Org, Network: in.Network, Service: in.Service})
	return answer{status: http.StatusOK, body: ipJSON(ip)}, err
}

func (a *api) releaseIP(r *http.Request) (answer, error) {
	return answer{status: http.StatusNoContent}, a.world.ReleaseIP(appOf(r), r.PathValue("ip"))
}

func (a *api) deployToken(r *http.Request) (answer, error) {
	_, err := a.world.App(appOf(r))
	var o object
	o.str("token", a.world.Token())
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

func (a *api) currentToken(*http.Request) (answer, error) {
	var token, o object
	token.str("org_slug", a.world.Org())
	token.str("organization", a.world.Org())
	token.raw("apps", []byte("null"))
	o.raw("tokens", array([]object{token}, func(t object) []byte { return t.bytes() }))
	return ok(o.bytes())
}

func regionJSON(r engine.Region) []byte {
	var o object
	o.str("code", r.Code)
	o.str("name", r.Name)
	o.val("latitude", r.Latitude)
	o.val("longitude", r.Longitude)
	o.val("gateway_available", true)
	o.val("requires_paid_plan", false)
	o.val("deprecated", false)
	o.val("capacity", 1000)
	o.str("geo_region", r.GeoRegion)
	return o.bytes()
}

func (a *api) regions(*http.Request) (answer, error) {
	var o object
	o.raw("Regions", array(engine.Regions, regionJSON))
	o.str("Nearest", a.world.Nearest())
	return ok(o.bytes())
}

func (a *api) placements(r *http.Request) (answer, error) {
	var in struct {
		Count int `json:"count"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	var place, o object
	place.str("Region", a.world.Nearest())
	place.val("Count", max(in.Count, 1))
	place.val("Concurrency", max(in.Count, 1))
	o.raw("Regions", array([]object{place}, func(p object) []byte { return p.bytes() }))
	return ok(o.bytes())
}

func (a *api) noCertificates(r *http.Request) (answer, error) {
	_, err := a.world.App(appOf(r))
	return answer{status: http.StatusOK, body: []byte(`{"certificates":[],"total_count":0}`)}, err
}

func (a *api) noPolicies(r *http.Request) (answer, error) {
	_, err := a.world.App(appOf(r))
	return answer{status: http.StatusOK, body: []byte(`[]`)}, err
}

func (a *api) orgRoutes() map[string]handler {
	return map[string]handler{
		"GET /v1/orgs/{org}/machines": a.orgMachines,
		"GET /v1/orgs/{org}/volumes":  a.orgVolumes,
	}
}

func (a *api) orgMachines(r *http.Request) (answer, error) {
	page, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	rows, next, err := a.world.OrgMachines(r.PathValue("org"), filterOf(r), page)
	if err != nil {
		return answer{}, err
	}
	var o object
	o.raw("machines", array(rows, func(m engine.MachineView) []byte { return machineJSON(m, shape{org: true}) }))
	o.nullable("next_cursor", next)
	if n := len(rows); n > 0 {
		o.str("last_machine_id", rows[n-1].ID)
		o.time("last_updated_at", rows[n-1].UpdatedAt)
	}
	return ok(o.bytes())
}

func (a *api) orgVolumes(r *http.Request) (answer, error) {
	page, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	q := r.URL.Query()
	rows, next, err := a.world.OrgVolumes(r.PathValue("org"), q.Get("region"), truth(q.Get("include_deleted")), page)
	if err != nil {
		return answer{}, err
	}
	var o object
	o.raw("volumes", array(rows, orgVolumeJSON))
	o.nullable("next_cursor", next)
	if n := len(rows); n > 0 {
		o.str("last_volume_id", rows[n-1].ID)
		o.time("last_updated_at", rows[n-1].UpdatedAt)
	}
	return ok(o.bytes())
}

func (a *api) secretRoutes() map[string]handler {
	return map[string]handler{
		"GET /v1/apps/{app}/secrets":           a.listSecrets,
		"POST /v1/apps/{app}/secrets":          a.updateSecrets,
		"GET /v1/apps/{app}/secrets/{name}":    a.getSecret,
		"POST /v1/apps/{app}/secrets/{name}":   a.setSecret,
		"DELETE /v1/apps/{app}/secrets/{name}": a.deleteSecret,
	}
}

func (a *api) readSecrets(r *http.Request) ([]state.Secret, bool, error) {
	q := r.URL.Query()
	version := q.Get("version")
	if version == "" {
		version = q.Get("min_version")
	}
	minVersion, err := number(version)
	if err != nil {
		return nil, false, err
	}
	secrets, _, err := a.world.Secrets(appOf(r), uint64(minVersion))
	return secrets, truth(q.Get("show_secrets")), err
}

func (a *api) listSecrets(r *http.Request) (answer, error) {
	secrets, show, err := a.readSecrets(r)
	var o object
	o.raw("secrets", array(secrets, secretJSON(show)))
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

func (a *api) getSecret(r *http.Request) (answer, error) {
	secrets, show, err := a.readSecrets(r)
	if err != nil {
		return answer{}, err
	}
	for _, s := range secrets {
		if s.Name == r.PathValue("name") {
			return ok(secretJSON(show)(s))
		}
	}
	return answer{}, &engine.Refusal{Status: http.StatusNotFound, Text: "secret not found"}
}

func (a *api) setSecret(r *http.Request) (answer, error) {
	var in struct {
		Value *string `json:"value"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	if in.Value == nil {
		return answer{}, badRequest("value is required")
	}
	name := r.PathValue("name")
	secrets, version, err := a.world.SetSecrets(appOf(r), map[string]*string{name: in.Value})
	if err != nil {
		return answer{}, err
	}
	var o object
	for _, s := range secrets {
		if s.Name == name {
			secretMembers(&o, s, false)
		}
	}
	o.val("version", version)
	return answer{status: http.StatusCreated, body: o.bytes()}, nil
}

func (a *api) deleteSecret(r *http.Request) (answer, error) {
	_, version, err := a.world.SetSecrets(appOf(r), map[string]*string{r.PathValue("name"): nil})
	var o object
	o.val("version", version)
	return answer{status: http.StatusOK, body: o.bytes()}, err
}

func (a *api) updateSecrets(r *http.Request) (answer, error) {
	var in struct {
		Values map[string]*string `json:"values"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	secrets, version, err := a.world.SetSecrets(appOf(r), in.Values)
	var o object
	o.raw("secrets", array(secrets, secretJSON(false)))
	o.val("version", version)
	o.val("Version", version)
	return answer{status: http.StatusOK, body: o.bytes()}, err
}
