package provider

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/account"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/app"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/image"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/ip"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/machine"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/volume"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// Address is where Terraform looks for this provider.
const Address = "registry.terraform.io/flyfleet/flyfleet"

const (
	defaultDrain = 10 * time.Minute
	// A token is one line; a file that is much longer is not one.
	maxTokenFile = 64 << 10
)

// New makes a provider server's factory. version is the build's; getenv is os.Getenv in a main.
func New(version string, getenv func(string) string) func() provider.Provider {
	return func() provider.Provider { return &flyfleet{version: version, getenv: getenv} }
}

type flyfleet struct {
	version string
	getenv  func(string) string
}

type config struct {
	Org              types.String `tfsdk:"org"`
	Token            types.String `tfsdk:"token"`
	TokenFile        types.String `tfsdk:"token_file"`
	FlapsURL         types.String `tfsdk:"flaps_url"`
	APIURL           types.String `tfsdk:"api_url"`
	Registry         types.String `tfsdk:"registry"`
	IncompleteCreate types.String `tfsdk:"incomplete_create"`
	Busy             types.String `tfsdk:"busy"`
	DrainTimeout     types.String `tfsdk:"drain_timeout"`
}

// Metadata implements provider.Provider.
func (p *flyfleet) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "flyfleet", p.version
}

// Schema implements provider.Provider.
func (p *flyfleet) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	text := func(text string, v ...validator.String) schema.Attribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: text, Validators: v}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Fleets of tenant sandboxes on Fly.io: one app with one machine and one volume per tenant. An image swap plans one changed line per machine " +
			"and changes nothing but the image. Everything here may come from the environment; configuring makes no call. Where `FLYFLEET_TRANSPORT` and " +
			"`FLYFLEET_SIGNING_KEY` are set, each swapped machine must also answer over the wire.",
		Attributes: map[string]schema.Attribute{
			"org": text("Slug of the Fly organization. Default: `FLY_ORG`."),
			"token": schema.StringAttribute{
				Optional: true, Sensitive: true, MarkdownDescription: "Fly token. Default: the file `token_file`, then `FLY_API_TOKEN`.",
				Validators: []validator.String{stringvalidator.ConflictsWith(path.MatchRoot("token_file"))},
			},
			"token_file":        text("Path of a file that holds the token."),
			"flaps_url":         text("URL of the Machines API. Default: `FLY_FLAPS_BASE_URL`, then `" + flyapi.DefaultFlapsURL + "`."),
			"api_url":           text("URL of the GraphQL API. Default: `FLY_API_BASE_URL`, then `" + flyapi.DefaultGraphQLURL + "`."),
			"registry":          text("Host, with port where needed, of the image registry. Default: `FLY_REGISTRY_HOST`, then `" + flyapi.DefaultRegistryHost + "`."),
			"incomplete_create": text("What a create says that made its object but could not see it through: `warn` (default), and the next plan finishes it in place; or `fail`, which ends the apply with an error and lets Terraform replace the object. Volumes never fail: theirs is the data.", stringvalidator.OneOf("warn", "fail")),
			"busy":              text("Default of the machines' `busy`: `wait` (default) or `interrupt`.", stringvalidator.OneOf("wait", "interrupt")),
			"drain_timeout":     text("Default of the machines' `drain_timeout`: how long `wait` waits; `10m` when left out."),
		},
	}
}

// Configure implements provider.Provider. It makes no call: a plan of new resources works while Fly cannot be reached.
func (p *flyfleet) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var c config
	resp.Diagnostics.Append(req.Config.Get(ctx, &c)...)
	if resp.Diagnostics.HasError() {
		return
	}
	defaults, err := defaultsOf(c)
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("drain_timeout"), "Invalid duration", err.Error())
		return
	}
	a, err := p.account(c, defaults) //nolint:contextcheck // it makes no call; each list takes the context of its reader
	if err != nil {
		resp.Diagnostics.AddError("Provider configuration", err.Error()+".")
		return
	}
	resp.ResourceData, resp.DataSourceData = a, a
}

func (p *flyfleet) account(c config, defaults account.Defaults) (*account.Account, error) {
	for name, v := range map[string]types.String{
		"org": c.Org, "token": c.Token, "token_file": c.TokenFile, "flaps_url": c.FlapsURL, "api_url": c.APIURL, "registry": c.Registry,
	} {
		if v.IsUnknown() {
			return account.Unknown(name, defaults), nil
		}
	}
	cfg := flyapi.ConfigFromEnv(p.getenv)
	cfg.UserAgent = "terraform-provider-flyfleet/" + p.version
	if file := c.TokenFile.ValueString(); file != "" {
		token, err := readToken(file)
		if err != nil {
			return nil, err
		}
		cfg.Token = token
	}
	for _, o := range []struct {
		to   *string
		from types.String
	}{{&cfg.Org, c.Org}, {&cfg.Token, c.Token}, {&cfg.FlapsURL, c.FlapsURL}, {&cfg.GraphQLURL, c.APIURL}, {&cfg.RegistryHost, c.Registry}} {
		if v := o.from.ValueString(); v != "" {
			*o.to = v
		}
	}
	if cfg.Org == "" {
		return nil, fmt.Errorf("no organization: set `org` in the provider block or FLY_ORG (`fly orgs list` shows the slugs; for the local platform: eval \"$(flyfleet local env)\")")
	}
	client, err := flyapi.New(cfg)
	if err != nil {
		return nil, err
	}
	hello, err := p.hello()
	if err != nil {
		return nil, err
	}
	return account.New(client, defaults, hello), nil
}

// hello is the wire gate of swaps, where FLYFLEET_TRANSPORT and FLYFLEET_SIGNING_KEY say how and as whom machines are
// reached; nil where they do not.
func (p *flyfleet) hello() (func(ctx context.Context, app, machine string) error, error) {
	road, value := p.getenv("FLYFLEET_TRANSPORT"), p.getenv("FLYFLEET_SIGNING_KEY")
	if road == "" || value == "" {
		return nil, nil
	}
	dial, err := transport.Parse(road)
	if err != nil {
		return nil, fmt.Errorf("FLYFLEET_TRANSPORT: %w", err)
	}
	key, err := token.LoadSigningKey(value)
	if err != nil {
		return nil, fmt.Errorf("FLYFLEET_SIGNING_KEY: %w", err)
	}
	return swap.HelloOver(dial, key, "op/"+cmp.Or(key.Person(), "terraform")), nil
}

func defaultsOf(c config) (account.Defaults, error) {
	d := account.Defaults{FailIncomplete: c.IncompleteCreate.ValueString() == "fail", Busy: "wait", Drain: defaultDrain}
	if b := c.Busy.ValueString(); b != "" {
		d.Busy = b
	}
	if t := c.DrainTimeout.ValueString(); t != "" {
		drain, err := time.ParseDuration(t)
		if err != nil || drain < 0 {
			return d, fmt.Errorf("drain_timeout: %q is no duration; write a number with a unit, such as 10m", t)
		}
		d.Drain = drain
	}
	return d, nil
}

func readToken(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	if info.Size() > maxTokenFile {
		return "", fmt.Errorf("token_file: %s has %d bytes, which is no token", file, info.Size())
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("token_file: %s is empty", file)
	}
	return token, nil
}

// Resources implements provider.Provider.
func (p *flyfleet) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{app.NewResource, image.NewResource, ip.NewResource, machine.NewResource, volume.NewResource}
}

// DataSources implements provider.Provider.
func (p *flyfleet) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{machine.NewDataSource}
}
