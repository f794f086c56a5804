package flyapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// graphqlPage is how many apps one page of addresses asks for: 1,000 tenants are 10 calls.
const graphqlPage = 100

const addressQuery = `query ($org: ID!, $first: Int, $after: String) {
  apps(organizationId: $org, first: $first, after: $after) {
    pageInfo { hasNextPage endCursor }
    nodes { name network sharedIpAddress ipAddresses { nodes { id address type region createdAt network { name } } } }
  }
}`

const orgQuery = `query ($slug: String!) { organization(slug: $slug) { id } }`

// ListOrgAddresses reads the addresses of all apps of the organization by paged GraphQL: REST has a list per app only,
// which would be a call per tenant at each refresh.
func (c *Client) ListOrgAddresses(ctx context.Context) ([]Address, error) {
	if c.org == "" {
		return nil, fmt.Errorf("list the addresses of the organization: none is configured; set FLY_ORG or `org`")
	}
	op := "list the addresses of organization " + c.org
	id, err := c.orgID(ctx)
	if err != nil {
		return nil, err
	}
	var out []Address
	vars := map[string]any{"org": id, "first": graphqlPage}
	for page := 1; page <= maxPages; page++ {
		var data struct {
			Apps struct {
				PageInfo struct {
					HasNextPage bool   `json:"hasNextPage"`
					EndCursor   string `json:"endCursor"`
				} `json:"pageInfo"`
				Nodes []appAddresses `json:"nodes"`
			} `json:"apps"`
		}
		if err := c.query(ctx, op, addressQuery, vars, &data); err != nil {
			return nil, err
		}
		for _, app := range data.Apps.Nodes {
			out = append(out, app.addresses()...)
		}
		if !data.Apps.PageInfo.HasNextPage {
			return out, nil
		}
		if data.Apps.PageInfo.EndCursor == vars["after"] {
			return nil, &Error{Op: op, Text: "the list does not move on"}
		}
		vars["after"] = data.Apps.PageInfo.EndCursor
	}
	return nil, &Error{Op: op, Text: fmt.Sprintf("more than %d pages; the list does not end", maxPages)}
}

func (c *Client) orgID(ctx context.Context) (string, error) {
	op := "read organization " + c.org
	var data struct {
		Organization struct {
			ID string `json:"id"`
		} `json:"organization"`
	}
	if err := c.query(ctx, op, orgQuery, map[string]any{"slug": c.org}, &data); err != nil {
		return "", err
	}
	if data.Organization.ID == "" {
		return "", &Error{Op: op, Status: http.StatusNotFound, Text: "no such organization, or the token cannot see it; check FLY_ORG or `org`"}
	}
	return data.Organization.ID, nil
}

type appAddresses struct {
	Name        string `json:"name"`
	Network     string `json:"network"`
	SharedIP    string `json:"sharedIpAddress"`
	IPAddresses struct {
		Nodes []struct {
			Address   string `json:"address"`
			Type      string `json:"type"`
			Region    string `json:"region"`
			CreatedAt string `json:"createdAt"`
			Network   struct {
				Name string `json:"name"`
			} `json:"network"`
		} `json:"nodes"`
	} `json:"ipAddresses"`
}

func (a appAddresses) addresses() []Address {
	var out []Address
	for _, n := range a.IPAddresses.Nodes {
		out = append(out, Address{
			App: a.Name, IP: n.Address, Type: n.Type, Region: n.Region, Network: n.Network.Name,
			Shared: n.Type == AddressSharedV4, CreatedAt: parseTime(n.CreatedAt),
		})
	}
	if a.SharedIP != "" {
		out = append(out, Address{App: a.Name, IP: a.SharedIP, Type: AddressSharedV4, Shared: true})
	}
	return out
}

// query asks GraphQL. Errors come with status 200 and are looked for in the body.
func (c *Client) query(ctx context.Context, op, text string, vars map[string]any, out any) error {
	body, err := json.Marshal(map[string]any{"query": text, "variables": vars})
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	r := request{op: op, graphql: true, method: http.MethodPost, body: body, idempotent: true}
	resp, err := c.call(ctx, r)
	if err != nil {
		return err
	}
	var envelope struct {
		Data   json.RawMessage `json:"data"`
		Errors []struct {
			Message    string `json:"message"`
			Extensions struct {
				Code string `json:"code"`
			} `json:"extensions"`
		} `json:"errors"`
	}
	if err := decode(r, resp, &envelope); err != nil {
		return err
	}
	if len(envelope.Errors) > 0 {
		return &Error{Op: op, Status: resp.status, Text: clip(envelope.Errors[0].Message), Code: envelope.Errors[0].Extensions.Code, RequestID: resp.header.Get(headerRequestID)}
	}
	return decode(r, response{header: resp.header, body: envelope.Data}, out)
}
