package flyapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/superfly/fly-go/flaps"
)

// App is an app as the platform describes it.
type App struct {
	ID, Name string
	// Org is the owner's slug.
	Org string
	// Network is the app's private network; "" and "default" both mean the organization's shared one.
	Network                string
	Status                 string
	MachineCount, VolCount int64
}

// SameNetwork reports that two names mean one network: GraphQL and REST spell the default differently.
func SameNetwork(a, b string) bool { return orElse(a, "default") == orElse(b, "default") }

func appOf(a *flaps.App) App {
	return App{
		ID: a.ID, Name: a.Name, Org: a.Organization.Slug, Network: a.Network, Status: a.Status,
		MachineCount: a.MachineCount, VolCount: a.VolumeCount,
	}
}

// CreateApp makes an app on a private network, which is made on first use ("" means the organization's default).
//
// App names are global: IsNameTaken holds when the name is gone. After a gateway error the app is looked up before a second
// create; one of the same organization and network counts as made.
func (c *Client) CreateApp(ctx context.Context, name, org, network string) (App, error) {
	body, err := json.Marshal(struct {
		Name    string `json:"name"`
		AppName string `json:"app_name"` // the documented spelling of the same
		Org     string `json:"org_slug"`
		Network string `json:"network,omitempty"`
	}{name, name, org, network})
	if err != nil {
		return App{}, fmt.Errorf("create app %s: %w", name, err)
	}
	r := request{op: "create app", app: name, method: http.MethodPost, path: "/v1/apps", body: body, waitsFor: callTimeout}
	for try := 1; ; try++ {
		_, err := c.call(ctx, r)
		c.wrote(Write{Kind: WroteApp, App: name})
		if err == nil {
			// The answer of a create is thin (its id may be all there is): what stands is read back.
			return c.GetApp(ctx, name)
		}
		if !unsure(err) || ctx.Err() != nil || try == 2 {
			return App{}, err
		}
		if serr := sleep(ctx, backoff(try)); serr != nil {
			return App{}, err
		}
		found, gerr := c.GetApp(ctx, name)
		switch {
		case gerr == nil && (org == "" || found.Org == "" || found.Org == org) && SameNetwork(found.Network, network):
			return found, nil
		case gerr == nil:
			return App{}, &Error{
				Op: r.op, App: name, Status: http.StatusUnprocessableEntity, Code: "name_taken",
				Text: fmt.Sprintf("Validation failed: Name has already been taken, by an app of organization %s on network %s", found.Org, orElse(found.Network, "default")),
			}
		case !IsNotFound(gerr):
			return App{}, fmt.Errorf("app %s may have been created, and looking for it failed too: %w", name, errors.Join(err, gerr))
		}
	}
}

// GetApp reads one app; IsNotFound holds when there is none of that name.
func (c *Client) GetApp(ctx context.Context, name string) (App, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a, err := c.typed.GetApp(ctx, name)
	if err != nil {
		return App{}, c.fromTyped(ctx, request{op: "read app", app: name}, err)
	}
	return appOf(a), nil
}

// ListApps reads all apps of an organization in one call.
func (c *Client) ListApps(ctx context.Context, org string) ([]App, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.typed.ListApps(ctx, flaps.ListAppsRequest{OrgSlug: org})
	if err != nil {
		return nil, c.fromTyped(ctx, request{op: "list the apps of organization " + org}, err)
	}
	out := make([]App, 0, len(list))
	for i := range list {
		out = append(out, appOf(&list[i]))
	}
	return out, nil
}

// DeleteApp removes an app with its machines, volumes and addresses. An app that is gone already is no error.
func (c *Client) DeleteApp(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	err := c.fromTyped(ctx, request{op: "delete app", app: name}, c.typed.DeleteApp(ctx, name))
	c.wrote(Write{Kind: WroteApp, App: name})
	if IsNotFound(err) {
		return nil
	}
	return err
}
