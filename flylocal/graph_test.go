package flylocal_test

import (
	"fmt"
	"strings"
	"testing"

	fly "github.com/superfly/fly-go"
	"github.com/superfly/fly-go/tokens"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal"
)

func graphClient(t *testing.T, p *flylocal.Platform) *fly.Client {
	t.Helper()
	return fly.NewClientFromOptions(fly.ClientOptions{BaseURL: p.URL(), Name: "test", Version: "0", Tokens: tokens.Parse(p.Token())})
}

func TestFlyGoReadsAndWritesOverGraphQL(t *testing.T) {
	p := start(t)
	c, ctx := graphClient(t, p), t.Context()
	orgs, err := c.GetOrganizations(ctx)
	if err != nil || len(orgs) != 1 || orgs[0].Slug != p.Org() || orgs[0].Type != "PERSONAL" {
		t.Fatalf("%+v, %v", orgs, err)
	}
	org, err := c.GetOrganizationBySlug(ctx, "personal")
	if err != nil || org.ID != orgs[0].ID {
		t.Fatalf("%+v, %v", org, err)
	}
	newApp(t, p, "tenant")
	app, err := c.GetApp(ctx, "tenant")
	if err != nil || app.Name != "tenant" || app.Organization.Slug != p.Org() || app.Deployed {
		t.Fatalf("%+v, %v", app, err)
	}
	compact, err := c.GetAppCompact(ctx, "tenant")
	if err != nil || compact.Network != "tenant" || compact.PlatformVersion != "machines" {
		t.Fatalf("%+v, %v", compact, err)
	}
	ip, err := c.AllocateIPAddress(ctx, "tenant", "private_v6", "", org.ID, "runtime")
	if err != nil || !strings.HasPrefix(ip.Address, "fdaa:") || ip.Type != "private_v6" {
		t.Fatalf("%+v, %v", ip, err)
	}
	if shared, err := c.AllocateSharedIPAddress(ctx, "tenant"); err != nil || shared == nil {
		t.Fatalf("%v, %v", shared, err)
	}
	ips, err := c.GetIPAddresses(ctx, "tenant")
	if err != nil || len(ips) != 2 || ips[0].Network == nil || ips[0].Network.Name != "runtime" || ips[1].Type != "shared_v4" {
		t.Fatalf("%+v, %v", ips, err)
	}
	var rest struct{ IPs []struct{ IP string } }
	must(t, p, "GET", "/v1/apps/tenant/ip_assignments", nil).decode(t, &rest)
	if len(rest.IPs) != 2 || rest.IPs[0].IP != ip.Address {
		t.Errorf("REST shows %+v", rest)
	}
	if err := c.ReleaseIPAddress(ctx, "tenant", ip.Address); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, p, "tenant", plain("main"))
	found, err := c.GetMachine(ctx, m.ID)
	if err != nil || found.App.Name != "tenant" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, nearest, err := c.PlatformRegions(ctx); err != nil || nearest == nil || nearest.Code != "ams" {
		t.Errorf("%+v, %v", nearest, err)
	}
	if user, err := c.GetCurrentUser(ctx); err != nil || user.Email == "" {
		t.Errorf("%+v, %v", user, err)
	}
	if _, err := c.GetApp(ctx, "nope"); err == nil || !strings.Contains(err.Error(), "Could not find App") {
		t.Errorf("%v", err)
	}
	if _, err := c.CreateWireGuardPeer(ctx, org.ID, "", "p", "key", ""); err == nil || !strings.Contains(err.Error(), "SOCKS5") {
		t.Errorf("%v", err)
	}
	if _, err := c.GetLatestImageDetails(ctx, "registry.fly.io/other:v1", ""); err == nil || !strings.Contains(err.Error(), "Unknown repository") {
		t.Errorf("%v", err)
	}
	push(t, p, "tenant:v1")
	details, err := c.GetLatestImageDetails(ctx, p.RegistryHost()+"/tenant:v1", "")
	if err != nil || details.Version != "7" || details.Digest == "" {
		t.Errorf("%+v, %v", details, err)
	}
}

func TestAppsWithAddressesComeInPages(t *testing.T) {
	p := start(t)
	const apps, perPage = 7, 3
	for i := range apps {
		app := fmt.Sprintf("app-%d", i)
		newApp(t, p, app)
		must(t, p, "POST", "/v1/apps/"+app+"/ip_assignments", `{"type":"private_v6","network":"runtime"}`)
	}
	query := `query Fleet($org: ID!, $first: Int, $after: String) { list: apps(organizationId: $org, first: $first, after: $after) {
		pageInfo { hasNextPage endCursor } nodes { ...row } } }
		fragment row on App { name network sharedIpAddress ipAddresses { nodes { address type network { name } } } }`
	seen, after := map[string]bool{}, ""
	for pages := 1; ; pages++ {
		var got struct {
			Data struct {
				List struct {
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
					Nodes []struct {
						Name, Network string
						IPAddresses   struct {
							Nodes []struct {
								Address string
								Network struct{ Name string }
							}
						}
					}
				}
			}
			Errors []struct{ Message string }
		}
		must(t, p, "POST", "/graphql", map[string]any{"query": query, "variables": map[string]any{"org": "org_" + p.Org(), "first": perPage, "after": after}}).decode(t, &got)
		if len(got.Errors) > 0 {
			t.Fatal(got.Errors)
		}
		for _, app := range got.Data.List.Nodes {
			if seen[app.Name] || len(app.IPAddresses.Nodes) != 1 || app.IPAddresses.Nodes[0].Network.Name != "runtime" {
				t.Errorf("%+v", app)
			}
			seen[app.Name] = true
		}
		after = got.Data.List.PageInfo.EndCursor
		if !got.Data.List.PageInfo.HasNextPage {
			if pages != 3 {
				t.Errorf("%d pages", pages)
			}
			break
		}
	}
	if len(seen) != apps {
		t.Errorf("%d apps of %d", len(seen), apps)
	}
}

func TestGraphQLErrorsComeWithStatus200(t *testing.T) {
	p := start(t)
	for _, c := range []struct{ query, want string }{
		{`{ nonsense }`, `Field 'nonsense' doesn't exist on type 'Queries'`},
		{`{ broken`, `Expected Name, found \u003cEOF\u003e`},
		{`{ app(name: "x") { id } }`, `Could not find App`},
		{`query ($n: String!) { app(name: $n) { id } }`, `provided invalid value`},
		{`subscription { x }`, `not offered`},
		{`mutation { allocateIpAddress(input: {appId: "x", type: v4}) { ipAddress { id } } }`, `Could not find App`},
	} {
		got := call(t, p, "POST", "/graphql", map[string]string{"query": c.query})
		if got.status != 200 || !strings.Contains(string(got.body), c.want) {
			t.Errorf("%s: %d %s", c.query, got.status, got.body)
		}
	}
	got := call(t, p, "POST", "/graphql", `{"query":"{viewer{... on User{email}}}"}`, "Authorization", "Bearer wrong")
	if got.status != 200 || !strings.Contains(string(got.body), `"code":"UNAUTHORIZED"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestWebPathsServeOrganizationAndReleases(t *testing.T) {
	p := start(t)
	newApp(t, p, "app")
	var org struct{ Organization struct{ Slug string } }
	must(t, p, "GET", "/api/v1/organizations/personal", nil).decode(t, &org)
	if org.Organization.Slug != p.Org() {
		t.Errorf("%+v", org)
	}
	var made struct {
		Release struct {
			ID      string
			Version int
			Status  string
		}
	}
	must(t, p, "POST", "/api/v1/releases", `{"app_name":"app","image":"x"}`).decode(t, &made)
	must(t, p, "PATCH", "/api/v1/releases/"+made.Release.ID, `{"status":"complete"}`)
	var current struct {
		ID     string
		Stable bool
	}
	must(t, p, "GET", "/api/v1/apps/app/releases/current", nil).decode(t, &current)
	if current.ID != made.Release.ID || !current.Stable || made.Release.Version != 1 {
		t.Errorf("%+v %+v", made, current)
	}
}
