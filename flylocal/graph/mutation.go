package graph

import (
	"errors"
	"net/http"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/engine"
)

func (a *API) mutation() object {
	return object{
		"__typename":               "Mutations",
		"createApp":                input(a.createApp),
		"deleteApp":                resolver(a.deleteApp),
		"allocateIpAddress":        input(a.allocateIP),
		"releaseIpAddress":         input(a.releaseIP),
		"createLimitedAccessToken": input(a.limitedToken),
		"validateWireGuardPeers":   input(a.validatePeers),
		"addWireGuardPeer":         input(noWireGuard),
		"removeWireGuardPeer":      input(noWireGuard),
	}
}

// input passes the fields of the argument "input".
func input(do func(map[string]any) (any, error)) resolver {
	return func(args map[string]any) (any, error) {
		in, ok := args["input"].(map[string]any)
		if !ok {
			return nil, &codedError{code: "INVALID", message: "Argument 'input' is required"}
		}
		return do(in)
	}
}

// refused gives a refusal of the engine in GraphQL's form.
func refused(err error) error {
	var r *engine.Refusal
	if !errors.As(err, &r) {
		return err
	}
	code := "UNPROCESSABLE"
	switch r.Status {
	case http.StatusNotFound:
		code = "NOT_FOUND"
		if r.Text == "app not found" {
			return &codedError{code: code, message: "Could not find App"}
		}
	case http.StatusForbidden:
		code = "UNAUTHORIZED"
	case http.StatusBadRequest:
		code = "INVALID"
	}
	return &codedError{code: code, message: r.Text}
}

// payload adds the field that every payload has.
func payload(in map[string]any, fields object) object {
	fields["clientMutationId"] = in["clientMutationId"]
	return fields
}

func (a *API) createApp(in map[string]any) (any, error) {
	if org := text(in, "organizationId"); org != "" && org != a.orgID() {
		return nil, &codedError{code: "NOT_FOUND", message: "Could not find Organization"}
	}
	app, err := a.World.CreateApp(engine.AppInput{Name: text(in, "name"), Network: text(in, "network"), Role: text(in, "appRoleId")})
	if err != nil {
		return nil, refused(err)
	}
	return payload(in, object{"__typename": "CreateAppPayload", "app": a.appObject(app)}), nil
}

// deleteApp takes the app beside the input, as Fly's old clients do.
func (a *API) deleteApp(args map[string]any) (any, error) {
	name := text(args, "appId")
	in, _ := args["input"].(map[string]any)
	if name == "" {
		name = text(in, "appId")
	}
	if err := a.World.DeleteApp(a.World.AppName(name)); err != nil {
		return nil, refused(err)
	}
	return payload(in, object{"__typename": "DeleteAppPayload", "organization": a.organization()}), nil
}

func (a *API) allocateIP(in map[string]any) (any, error) {
	name := a.World.AppName(text(in, "appId"))
	if org := text(in, "organizationId"); org != "" && org != a.orgID() && !a.World.OwnOrg(org) {
		return nil, &codedError{code: "NOT_FOUND", message: "Could not find Organization"}
	}
	ip, err := a.World.AllocateIP(name, engine.IPInput{
		Type: text(in, "type"), Region: text(in, "region"), Network: text(in, "network"), Service: text(in, "serviceName"),
	})
	if err != nil {
		return nil, refused(err)
	}
	app, err := a.app(name)
	if err != nil {
		return nil, err
	}
	return payload(in, object{"__typename": "AllocateIPAddressPayload", "ipAddress": a.ipObject(ip), "app": app}), nil
}

func (a *API) releaseIP(in map[string]any) (any, error) {
	address := text(in, "ip")
	if address == "" {
		address = text(in, "ipAddressId")
	}
	name := text(in, "appId")
	if name == "" {
		name = a.holder(address)
	}
	if err := a.World.ReleaseIP(a.World.AppName(name), address); err != nil {
		return nil, refused(err)
	}
	app, err := a.app(name)
	if err != nil {
		return nil, err
	}
	return payload(in, object{"__typename": "ReleaseIPAddressPayload", "app": app}), nil
}

// holder finds the app of an address that is given by its id alone.
func (a *API) holder(address string) string {
	for _, app := range a.World.Apps("") {
		for _, ip := range app.IPs {
			if ip.ID == address || ip.Address.String() == address {
				return app.Name
			}
		}
	}
	return ""
}

func (a *API) limitedToken(in map[string]any) (any, error) {
	token := object{"__typename": "LimitedAccessToken", "id": "token_local", "name": text(in, "name"), "tokenHeader": a.World.Token(), "token": a.World.Token()}
	return payload(in, object{"__typename": "CreateLimitedAccessTokenPayload", "limitedAccessToken": token}), nil
}

func (a *API) validatePeers(in map[string]any) (any, error) {
	invalid := list{}
	peers, _ := in["peerIps"].([]any)
	invalid = append(invalid, peers...)
	return payload(in, object{"__typename": "ValidateWireGuardPeersPayload", "invalidPeerIps": invalid, "validPeerIps": list{}}), nil
}

func noWireGuard(map[string]any) (any, error) {
	return nil, &codedError{
		code:    "UNPROCESSABLE",
		message: "This platform has no WireGuard gateway. Its private networks are reached through its SOCKS5 door: see FLYFLEET_TRANSPORT in `flyfleet local env`",
	}
}
