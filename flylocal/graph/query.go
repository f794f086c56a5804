package graph

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

func (a *API) query() object {
	return object{
		"__typename": "Queries",
		"viewer": object{
			"__typename": "User", "id": "user_local", "email": "local@flylocal.invalid", "name": "local", "enablePaidHobby": false,
		},
		"organizations": resolver(func(map[string]any) (any, error) {
			return object{"__typename": "OrganizationConnection", "nodes": list{a.organization()}}, nil
		}),
		"organization": resolver(func(args map[string]any) (any, error) {
			slug, id := text(args, "slug"), text(args, "id")
			if slug != "" && a.World.OwnOrg(slug) || id != "" && id == a.orgID() {
				return a.organization(), nil
			}
			return nil, &codedError{code: "NOT_FOUND", message: "Could not find Organization"}
		}),
		"apps": resolver(a.apps),
		"app": resolver(func(args map[string]any) (any, error) {
			name := text(args, "name")
			if name == "" {
				name = text(args, "id")
			}
			return a.app(name)
		}),
		"machine":            resolver(a.machine),
		"volume":             resolver(a.volume),
		"platform":           a.platform(),
		"nearestRegion":      resolver(func(map[string]any) (any, error) { return a.nearest(), nil }),
		"latestImageDetails": resolver(a.latestImageDetails),
		"appNameAvailable": resolver(func(args map[string]any) (any, error) {
			return a.World.AppNameAvailable(text(args, "name")), nil
		}),
	}
}

// orgID is opaque to clients.
func (a *API) orgID() string { return "org_" + a.World.Org() }

func (a *API) organization() object {
	slug := a.World.Org()
	empty := object{"__typename": "Connection", "nodes": list{}, "edges": list{}}
	return object{
		"__typename": "Organization", "id": a.orgID(), "internalNumericId": "1", "slug": slug, "rawSlug": slug, "name": slug,
		"type": "PERSONAL", "paidPlan": false, "billable": true, "viewerRole": "admin", "remoteBuilderImage": "", "remoteBuilderApp": nil,
		"settings": nil, "wireGuardPeers": empty, "wireGuardPeer": resolver(func(map[string]any) (any, error) { return nil, nil }),
		"addOns":                   resolver(func(map[string]any) (any, error) { return empty, nil }),
		"limitedAccessTokens":      empty,
		"delegatedWireGuardTokens": empty,
		"members":                  empty,
		"loggedCertificates":       empty,
		"apps":                     resolver(a.apps),
	}
}

// Limits of a page of apps.
const (
	defaultPage = 200
	maxPage     = 1000
)

func (a *API) apps(args map[string]any) (any, error) {
	if org := text(args, "organizationId"); org != "" && org != a.orgID() {
		return nil, &codedError{code: "NOT_FOUND", message: "Could not find Organization"}
	}
	apps := a.World.Apps(text(args, "role"))
	after, err := readCursor(text(args, "after"))
	if err != nil {
		return nil, err
	}
	rest := apps
	for len(rest) > 0 && rest[0].Name <= after {
		rest = rest[1:]
	}
	page := rest[:min(len(rest), pageSize(args["first"]))]
	nodes := make(list, len(page))
	for i, app := range page {
		nodes[i] = a.appObject(app)
	}
	end := ""
	if n := len(page); n > 0 {
		end = base64.RawURLEncoding.EncodeToString([]byte(page[n-1].Name))
	}
	return object{
		"__typename": "AppConnection", "nodes": nodes, "totalCount": len(apps),
		"pageInfo": object{"__typename": "PageInfo", "hasNextPage": len(page) < len(rest), "hasPreviousPage": after != "", "endCursor": end},
	}, nil
}

func pageSize(first any) int {
	n := defaultPage
	switch v := first.(type) {
	case int64:
		n = int(v)
	case float64:
		n = int(v)
	}
	return min(max(n, 1), maxPage)
}

func readCursor(cursor string) (string, error) {
	name, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", &codedError{code: "INVALID", message: "Invalid cursor " + strconv.Quote(cursor)}
	}
	return string(name), nil
}

// app finds an app; flyctl knows a missing one by this text.
func (a *API) app(name string) (any, error) {
	app, err := a.World.App(a.World.AppName(name))
	var refusal *engine.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Status == http.StatusForbidden:
		return nil, &codedError{code: "UNAUTHORIZED", message: "Not authorized to access this app"}
	case err != nil:
		return nil, &codedError{code: "NOT_FOUND", message: "Could not find App"}
	}
	return a.appObject(app), nil
}

func (a *API) appObject(app engine.AppView) object {
	deployed := app.Status != "pending"
	empty := object{"__typename": "Connection", "nodes": list{}}
	o := object{
		"__typename": "App", "id": app.ID, "internalNumericId": app.NumericID, "name": app.Name, "hostname": app.Name + ".fly.dev",
		"cnameTarget": app.ID + "." + app.Name + ".fly.dev", "deployed": deployed, "network": app.Network, "status": app.Status,
		"state": "DEPLOYED", "appUrl": "https://" + app.Name + ".fly.dev", "platformVersion": "machines", "version": len(app.Releases),
		"createdAt": app.CreatedAt.Format(time.RFC3339), "role": nil,
		"organization":                resolver(func(map[string]any) (any, error) { return a.organization(), nil }),
		"ipAddresses":                 object{"__typename": "IPAddressConnection", "nodes": a.ipNodes(app)},
		"sharedIpAddress":             sharedIP(app),
		"egressIpAddresses":           empty,
		"hostIssues":                  empty,
		"limitedAccessTokens":         empty,
		"currentRelease":              release(app.Releases),
		"currentReleaseUnprocessed":   release(app.Releases),
		"config":                      object{"__typename": "AppConfig", "definition": object{}},
		"services":                    list{},
		"imageDetails":                nil,
		"latestImageDetails":          nil,
		"imageUpgradeAvailable":       false,
		"imageVersionTrackingEnabled": false,
		"secrets":                     list{},
		"image":                       resolver(a.image),
		"machines": resolver(func(map[string]any) (any, error) {
			return a.machinesOf(app.Name)
		}),
	}
	if app.Role != "" {
		o["role"] = object{"__typename": "AppRole", "name": app.Role}
	}
	return o
}

func release(releases []state.Release) any {
	if len(releases) == 0 {
		return nil
	}
	r := releases[len(releases)-1]
	return object{
		"__typename": "Release", "id": r.ID, "version": r.Version, "status": r.Status, "inProgress": r.Status == "running",
		"stable": r.Status == "complete", "imageRef": r.ImageRef, "createdAt": r.CreatedAt.Format(time.RFC3339), "evaluationId": "",
		"configDefinition": object{}, "description": "", "reason": "", "user": object{"__typename": "User", "email": "local@flylocal.invalid"},
	}
}

// ipNodes are the app's addresses but the shared one, which has a field of its own.
func (a *API) ipNodes(app engine.AppView) list {
	nodes := list{}
	for _, ip := range app.IPs {
		if ip.Type != state.IPSharedV4 {
			nodes = append(nodes, a.ipObject(ip))
		}
	}
	return nodes
}

func sharedIP(app engine.AppView) any {
	for _, ip := range app.IPs {
		if ip.Type == state.IPSharedV4 {
			return ip.Address.String()
		}
	}
	return nil
}

func (a *API) ipObject(ip state.IP) object {
	region := ip.Region
	if region == "" {
		region = "global"
	}
	o := object{
		"__typename": "IPAddress", "id": ip.ID, "address": ip.Address.String(), "type": ip.Type, "region": region,
		"createdAt": ip.CreatedAt.Format(time.RFC3339Nano), "serviceName": ip.Service, "network": nil,
	}
	if ip.Network != "" {
		org := object{"__typename": "Organization", "slug": a.World.Org()}
		o["network"] = object{"__typename": "Network", "name": ip.Network, "organization": org}
	}
	return o
}

func (a *API) machinesOf(app string) (any, error) {
	machines, err := a.World.Machines(app, engine.MachineFilter{})
	if err != nil {
		return nil, err
	}
	nodes := make(list, len(machines))
	for i, m := range machines {
		nodes[i] = a.machineObject(m)
	}
	return object{"__typename": "MachineConnection", "nodes": nodes}, nil
}

func (a *API) machineObject(m engine.MachineView) object {
	conf, err := machineconf.Parse(m.Config)
	metadata := map[string]string{}
	if err == nil && conf.Metadata != nil {
		metadata = conf.Metadata
	}
	ips := object{"__typename": "Connection", "nodes": list{object{
		"__typename": "MachineIP", "family": "v6", "kind": "privatenet", "ip": m.PrivateIP.String(), "maskSize": 112,
	}}}
	return object{
		"__typename": "Machine", "id": m.ID, "name": m.Name, "state": m.State, "region": m.Region, "instanceId": m.InstanceID,
		"createdAt": m.CreatedAt.Format(time.RFC3339), "updatedAt": m.UpdatedAt.Format(time.RFC3339), "ips": ips,
		"config": map[string]any{"image": m.Image.String(), "metadata": metadata}, "host": object{"__typename": "Host", "id": "local"},
		"egressIpAddresses": object{"__typename": "Connection", "nodes": list{}},
		"app":               resolver(func(map[string]any) (any, error) { return a.app(m.App) }),
	}
}

func (a *API) machine(args map[string]any) (any, error) {
	m, ok := a.World.FindMachine(text(args, "machineId"))
	if !ok {
		return nil, &codedError{code: "NOT_FOUND", message: "Could not find Machine"}
	}
	return a.machineObject(m), nil
}

func (a *API) volume(args map[string]any) (any, error) {
	v, ok := a.World.FindVolume(text(args, "id"))
	if !ok {
		return nil, &codedError{code: "NOT_FOUND", message: "Could not find Volume"}
	}
	return object{
		"__typename": "Volume", "id": v.ID, "internalId": v.ID, "name": v.Name, "state": v.State, "region": v.Region, "sizeGb": v.SizeGB,
		"encrypted": v.Encrypted, "createdAt": v.CreatedAt.Format(time.RFC3339),
		"app": resolver(func(map[string]any) (any, error) { return a.app(v.App) }),
	}, nil
}

func (a *API) platform() object {
	regions := make(list, len(engine.Regions))
	for i, r := range engine.Regions {
		regions[i] = regionObject(r)
	}
	return object{"__typename": "PlatformInfo", "requestRegion": a.World.Nearest(), "regions": regions}
}

func regionObject(r engine.Region) object {
	return object{
		"__typename": "Region", "name": r.Name, "code": r.Code, "latitude": r.Latitude, "longitude": r.Longitude,
		"gatewayAvailable": true, "requiresPaidPlan": false, "deprecated": false,
	}
}

func (a *API) nearest() any {
	for _, r := range engine.Regions {
		if r.Code == a.World.Nearest() {
			return regionObject(r)
		}
	}
	return nil
}

// image answers what a reference resolves to in the platform's registry.
func (a *API) image(args map[string]any) (any, error) {
	ref, err := a.Images.Resolve(text(args, "ref"))
	if err != nil || ref.Digest == "" {
		return nil, &codedError{code: "NOT_FOUND", message: fmt.Sprintf("Could not find image %q", text(args, "ref"))}
	}
	size, manifest := a.Images.Describe(ref)
	return object{
		"__typename": "Image", "id": "img_" + strings.TrimPrefix(ref.Digest, "sha256:")[:16], "digest": ref.Digest, "ref": ref.String(),
		"tag": ref.Tag, "registry": ref.Registry, "repository": ref.Repository, "label": "", "version": ref.Labels["fly.version"],
		"compressedSize": size, "compressedSizeFull": strconv.FormatInt(size, 10), "manifest": manifest, "createdAt": time.Time{}.Format(time.RFC3339),
	}, nil
}

// latestImageDetails answers for images of the platform's registry; flyctl takes the error's text as "skip this one".
func (a *API) latestImageDetails(args map[string]any) (any, error) {
	ref, err := a.Images.Resolve(text(args, "image"))
	if err != nil || ref.Digest == "" || ref.Labels["fly.version"] == "" {
		return nil, &codedError{code: "INVALID", message: "Unknown repository"}
	}
	return object{
		"__typename": "ImageVersion", "registry": ref.Registry, "repository": ref.Repository, "tag": ref.Tag, "digest": ref.Digest,
		"version": ref.Labels["fly.version"],
	}, nil
}
