package flyapi

import (
	"context"
)

// Secret is the name of an app's secret and Fly's digest of it; values never come back.
type Secret struct {
	Name, Digest string
}

// ListSecrets reads the names and digests of an app's secrets.
func (c *Client) ListSecrets(ctx context.Context, app string) ([]Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.typed.ListAppSecrets(ctx, app, nil, false)
	if err != nil {
		return nil, c.fromTyped(ctx, request{op: "list secrets", app: app}, err)
	}
	out := make([]Secret, 0, len(list))
	for _, s := range list {
		out = append(out, Secret{Name: s.Name, Digest: s.Digest})
	}
	return out, nil
}

// UpdateSecrets stages values, and removes the names whose value is nil, in one call. It returns the version of the
// app's secrets that holds them; machines see it at their next create or update.
func (c *Client) UpdateSecrets(ctx context.Context, app string, values map[string]*string) (version uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.typed.UpdateAppSecrets(ctx, app, values)
	c.wrote(Write{Kind: WroteApp, App: app})
	if err != nil {
		return 0, c.fromTyped(ctx, request{op: "update secrets", app: app}, err)
	}
	return resp.Version, nil
}
