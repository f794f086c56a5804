package flyapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The types of an address.
const (
	AddressV4        = "v4"
	AddressSharedV4  = "shared_v4"
	AddressV6        = "v6"
	AddressPrivateV6 = "private_v6" // flycast
)

// Address is one address of an app.
type Address struct {
	App string
	IP  string
	// Type is one of the constants above; from the REST list, which does not tell, it is derived from the address.
	Type   string
	Region string
	// Network is the private network a flycast address is reached from; "" when Fly did not say.
	Network   string
	Shared    bool
	CreatedAt time.Time
}

type restAddress struct {
	IP        string `json:"ip"`
	Region    string `json:"region"`
	Shared    bool   `json:"shared"`
	Network   string `json:"network"`
	CreatedAt string `json:"created_at"`
}

func (a restAddress) address(app string) Address {
	out := Address{App: app, IP: a.IP, Region: a.Region, Network: a.Network, Shared: a.Shared, CreatedAt: parseTime(a.CreatedAt)}
	switch {
	case strings.HasPrefix(a.IP, "fdaa:"):
		out.Type = AddressPrivateV6
	case strings.Contains(a.IP, ":"):
		out.Type = AddressV6
	case a.Shared:
		out.Type = AddressSharedV4
	default:
		out.Type = AddressV4
	}
	return out
}

// AssignRequest is a new address.
type AssignRequest struct {
	Type string
	// Network is the private network a private_v6 address is reached from, "" for the app's own. An address on another
	// network is not reachable from the app's own one.
	Network string
	Region  string
}

// AssignAddress allocates an address; the one in the answer is it (two calls at once get two addresses, where picking the
// newest of a list gave both the same).
//
// After a gateway error a private_v6 one is looked up by its network, of which an app has at most one; any other may or
// may not exist, which the error says, since nothing tells it from another's.
func (c *Client) AssignAddress(ctx context.Context, app string, in AssignRequest) (Address, error) {
	body, err := json.Marshal(struct {
		Type    string `json:"type"`
		Region  string `json:"region,omitempty"`
		Org     string `json:"org_slug,omitempty"`
		Network string `json:"network,omitempty"`
	}{in.Type, in.Region, c.orgFor(in), in.Network})
	if err != nil {
		return Address{}, fmt.Errorf("assign an address to app %s: %w", app, err)
	}
	r := request{op: "assign a " + in.Type + " address", app: app, method: http.MethodPost, path: appPath(app, "ip_assignments"), body: body}
	for try := 1; ; try++ {
		resp, err := c.call(ctx, r)
		c.wrote(Write{Kind: WroteAddress, App: app})
		if err == nil {
			return assigned(r, resp, app, in)
		}
		if !unsure(err) || ctx.Err() != nil {
			return Address{}, err
		}
		if in.Type != AddressPrivateV6 || try == 2 {
			return Address{}, fmt.Errorf("a %s address may have been allocated to app %s; compare its list before trying again: %w", in.Type, app, err)
		}
		if serr := sleep(ctx, backoff(try)); serr != nil {
			return Address{}, err
		}
		all, lerr := c.ListAddresses(ctx, app)
		if lerr != nil {
			return Address{}, fmt.Errorf("a %s address may have been allocated to app %s, and listing them failed too: %w", in.Type, app, lerr)
		}
		for _, a := range all {
			if a.Type == AddressPrivateV6 && a.Network == in.Network {
				return a, nil
			}
		}
	}
}

// orgFor: Fly takes a network together with the organization it belongs to.
func (c *Client) orgFor(in AssignRequest) string {
	if in.Network == "" {
		return ""
	}
	return c.org
}

func assigned(r request, resp response, app string, in AssignRequest) (Address, error) {
	var got restAddress
	if err := decode(r, resp, &got); err != nil {
		return Address{}, err
	}
	if got.IP == "" {
		return Address{}, &Error{Op: r.op, App: app, Text: "the answer has no address", RequestID: resp.header.Get(headerRequestID)}
	}
	a := got.address(app)
	a.Type, a.Network = in.Type, orElse(got.Network, in.Network)
	return a, nil
}

// ListAddresses reads the addresses of one app. fly-go's type drops the network, so this is the raw layer's.
func (c *Client) ListAddresses(ctx context.Context, app string) ([]Address, error) {
	r := request{op: "list addresses", app: app, method: http.MethodGet, path: appPath(app, "ip_assignments"), idempotent: true}
	resp, err := c.call(ctx, r)
	if err != nil {
		return nil, err
	}
	var list struct {
		IPs []restAddress `json:"ips"`
	}
	if err := decode(r, resp, &list); err != nil {
		return nil, err
	}
	out := make([]Address, 0, len(list.IPs))
	for _, a := range list.IPs {
		out = append(out, a.address(app))
	}
	return out, nil
}

// ReleaseAddress gives an address back. One that is gone already is no error.
func (c *Client) ReleaseAddress(ctx context.Context, app, ip string) error {
	_, err := c.call(ctx, request{
		op: "release address " + ip, app: app, method: http.MethodDelete, path: appPath(app, "ip_assignments", ip), idempotent: true,
	})
	c.wrote(Write{Kind: WroteAddress, App: app})
	if IsNotFound(err) {
		return nil
	}
	return err
}
