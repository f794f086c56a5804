package machine

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/account"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/naming"
)

// NewDataSource makes the data source.
func NewDataSource() datasource.DataSource { return &machineData{} }

type machineData struct {
	account *account.Account
}

type dataModel struct {
	App        types.String      `tfsdk:"app"`
	ID         types.String      `tfsdk:"id"`
	Name       types.String      `tfsdk:"name"`
	Region     types.String      `tfsdk:"region"`
	State      types.String      `tfsdk:"state"`
	InstanceID types.String      `tfsdk:"instance_id"`
	Image      types.String      `tfsdk:"image"`
	Digest     types.String      `tfsdk:"digest"`
	PrivateIP  types.String      `tfsdk:"private_ip"`
	HostStatus types.String      `tfsdk:"host_status"`
	Cordoned   types.Bool        `tfsdk:"cordoned"`
	Metadata   map[string]string `tfsdk:"metadata"`
	Checks     map[string]string `tfsdk:"checks"`
}

// Metadata implements datasource.DataSource.
func (d *machineData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_machine"
}

// Schema implements datasource.DataSource.
func (d *machineData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	said := func(text string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: text}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "What changes of a machine by itself, and is therefore no attribute of the resource: reading it there would show a changed line in each plan.",
		Attributes: map[string]schema.Attribute{
			"app": schema.StringAttribute{Required: true, MarkdownDescription: "Name of the app.", Validators: []validator.String{naming.Valid("app name", naming.App)}},
			"id":  schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: "Fly's id of the machine. Default: the machine with the name."},
			"name": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Name of the machine; `main` when neither name nor id is given.",
				Validators: []validator.String{stringvalidator.ConflictsWith(path.MatchRoot("id"))},
			},
			"region":      said("Region."),
			"state":       said("State: `started`, `stopped`, `suspended`, …"),
			"instance_id": said("Version of the machine; each update gives another."),
			"image":       said("The image as it was asked for."),
			"digest":      said("Digest of the image that runs."),
			"private_ip":  said("Address on the app's private network. It can change when Fly moves the machine to another host."),
			"host_status": said("`ok`, or what is wrong with the machine's host."),
			"cordoned":    schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the machine is taken out of routing."},
			"metadata":    schema.MapAttribute{ElementType: types.StringType, Computed: true, MarkdownDescription: "All metadata."},
			"checks":      schema.MapAttribute{ElementType: types.StringType, Computed: true, MarkdownDescription: "Status of each check: `passing`, `warning` or `critical`."},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (d *machineData) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	a, ok, diags := account.Of(req.ProviderData)
	resp.Diagnostics.Append(diags...)
	if ok {
		d.account = a
	}
}

// Read implements datasource.DataSource.
func (d *machineData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	resp.Diagnostics.Append(d.account.Ready()...)
	var app, id, name types.String
	for at, to := range map[string]*types.String{"app": &app, "id": &id, "name": &name} {
		resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root(at), to)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	got, err := d.find(ctx, app.ValueString(), id.ValueString(), name.ValueString())
	if err != nil {
		resp.Diagnostics.AddError("Machine not read", err.Error()+".")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, describe(app, got))...)
}

func (d *machineData) find(ctx context.Context, app, id, name string) (*flyapi.Machine, error) {
	if id != "" {
		m, err := d.account.Fly.GetMachine(ctx, app, id)
		if err == nil && m.Gone() {
			return nil, fmt.Errorf("machine %s of app %s is %s", id, app, m.State)
		}
		return m, err
	}
	if name == "" {
		name = "main"
	}
	all, err := d.account.Fly.ListMachines(ctx, app)
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if m.Name == name && !m.Gone() {
			return m, nil
		}
	}
	return nil, fmt.Errorf("app %s has no machine named %q among its %d", app, name, len(all))
}

func describe(app types.String, m *flyapi.Machine) dataModel {
	digest := m.ImageRef.Digest
	if digest == "" {
		digest = flyapi.DigestOf(m.Image())
	}
	checks := map[string]string{}
	for _, c := range m.Checks {
		checks[c.Name] = c.Status
	}
	return dataModel{
		App: app, ID: types.StringValue(m.ID), Name: types.StringValue(m.Name), Region: types.StringValue(m.Region), State: types.StringValue(m.State),
		InstanceID: types.StringValue(m.InstanceID), Image: types.StringValue(m.Image()), Digest: types.StringValue(digest), PrivateIP: types.StringValue(m.PrivateIP),
		HostStatus: types.StringValue(m.HostStatus), Cordoned: types.BoolValue(m.Cordoned), Metadata: m.Metadata(), Checks: checks,
	}
}
