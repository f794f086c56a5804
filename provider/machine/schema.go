package machine

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/provider/guest"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/naming"
)

func resourceSchema(ctx context.Context) schema.Schema {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	s := schema.Schema{
		MarkdownDescription: "A Fly Machine. A change of `image` alone is a swap: it sets the image in the machine's configuration as it is at that moment " +
			"and nothing else, so that everything set outside Terraform stays. Other changes are merged path by path: only what is declared here is " +
			"managed, sent, shown or removed. What changes by itself (state, instance id, addresses) is in the data source of the same name.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed: true, MarkdownDescription: "Fly's id of the machine.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"app": schema.StringAttribute{
				Required: true, MarkdownDescription: "Name of the app. Another app means another machine.",
				Validators: []validator.String{naming.Valid("app name", naming.App)}, PlanModifiers: replace,
			},
			"region": schema.StringAttribute{
				Required: true, MarkdownDescription: "Region code, such as `fra`. A machine cannot move: another region means another machine.",
				Validators: []validator.String{naming.ValidRegion()}, PlanModifiers: replace,
			},
			"name": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("main"),
				MarkdownDescription: "Name of the machine, unique in its app; `main` when left out. It is the key by which an interrupted create is found again.",
				Validators:          []validator.String{naming.Valid("machine name", naming.Machine)}, PlanModifiers: replace,
			},
			"image": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "Image to run, pinned by digest (`registry.fly.io/app@sha256:…`, for instance `flyfleet_image.this.ref`). A tag without a digest warns: " +
					"new content under the same tag is no change for Terraform. Another spelling of the digest that runs already is no change.",
				Validators:    []validator.String{imageValidator{}},
				PlanModifiers: []planmodifier.String{keepSpelling{}},
			},
			"env": schema.MapAttribute{
				ElementType: types.StringType, Optional: true, Computed: true,
				MarkdownDescription: "Environment variables. Additive: only the keys declared here are managed; other keys on the machine are left as they are. Not for secrets: values are in the state and in Fly's API.",
				Validators:          []validator.Map{mapvalidator.NoNullValues()},
				PlanModifiers:       []planmodifier.Map{additive{}},
			},
			"metadata": schema.MapAttribute{
				ElementType: types.StringType, Optional: true, Computed: true,
				MarkdownDescription: "Metadata. Additive, like `env`. A change of metadata alone does not restart the machine. `flyfleet_image_owner` says who swaps the image: " +
					"`terraform` (written at creation when not declared) or `rollout`; each side refuses to undo the other.",
				Validators:    []validator.Map{mapvalidator.NoNullValues(), ownerValidator{}},
				PlanModifiers: []planmodifier.Map{additive{}},
			},
			"guest":       guestAttribute(),
			"mounts":      mountsAttribute(),
			"services":    servicesAttribute(),
			"checks":      checksAttribute(),
			"stop_config": stopConfigAttribute(),
		},
	}
	maps.Copy(s.Attributes, behaviour(ctx))
	return s
}

// behaviour are the attributes that say how Terraform goes about a machine. Fly never sees them.
func behaviour(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"busy": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "What an update does while commands run on the machine: `wait` for them, up to `drain_timeout`, then fail without writing; or `interrupt` them. Default: the provider's `busy`.",
			Validators:          []validator.String{stringvalidator.OneOf("wait", "interrupt")},
		},
		"drain_timeout": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "How long `busy = \"wait\"` waits, such as `10m`. Default: the provider's `drain_timeout`.",
			Validators:          []validator.String{durationValidator{}},
		},
		"conflict": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "What an update does when a value it is about to change was changed on the machine after Terraform read it: `fail` (default) without writing, " +
				"or `overwrite`.",
			Validators: []validator.String{stringvalidator.OneOf("fail", "overwrite")},
		},
		"timeouts": timeouts.Attributes(ctx, timeouts.Opts{
			Create: true, Update: true, Delete: true,
			CreateDescription: "How long a create waits for the machine to run and its checks to pass; default `5m`. After it the machine stays and a warning names it.",
			UpdateDescription: "How long an update waits, `drain_timeout` not counted; default `5m`.",
			DeleteDescription: "How long a delete waits for the machine to be gone; default `2m`.",
		}),
	}
}

func guestAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "Size of the machine. Left out: what the machine has, Fly's smallest at creation.",
		Validators:          []validator.Object{guestValidator{}},
		PlanModifiers:       []planmodifier.Object{kept{}},
		Attributes: map[string]schema.Attribute{
			"cpu_kind":  schema.StringAttribute{Required: true, MarkdownDescription: "`shared` or `performance`.", Validators: []validator.String{stringvalidator.OneOf(guest.Kinds...)}},
			"cpus":      schema.Int64Attribute{Required: true, MarkdownDescription: "Number of CPUs; Fly offers 1, 2, 4, 6 or 8 shared ones."},
			"memory_mb": schema.Int64Attribute{Required: true, MarkdownDescription: "Memory in MB; the range depends on kind and number of the CPUs."},
		},
	}
}

func mountsAttribute() schema.Attribute {
	extend := func(text string, low, high int64) schema.Attribute {
		return schema.Int64Attribute{
			Optional: true, Computed: true, MarkdownDescription: text,
			Validators: []validator.Int64{int64validator.Between(low, high)}, PlanModifiers: []planmodifier.Int64{released{}},
		}
	}
	return schema.MapNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "Volumes, by the path where they are mounted. Fly mounts one volume per machine.",
		Validators:          []validator.Map{mapvalidator.KeysAre(pathValidator{}), mapvalidator.SizeAtMost(1)},
		PlanModifiers:       []planmodifier.Map{released{}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"volume_id": schema.StringAttribute{Required: true, MarkdownDescription: "Id of the volume. Fly cannot change it on a machine: see `replace_with_volume`."},
			"replace_with_volume": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Another volume here means another machine; `true` allows the plan to replace the machine. `false` (default) fails the plan instead, " +
					"because Terraform would destroy the machine before the volume's own protection is asked.",
			},
			"extend_threshold_percent": extend("Extend the volume when it is this full (50 to 99).", 50, 99),
			"add_size_gb":              extend("By how much to extend it, in GB (1 to 100).", 1, 100),
			"size_gb_limit":            extend("Never extend it beyond this, in GB (at most 500).", 1, 500),
		}},
	}
}

func servicesAttribute() schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "What Fly's proxy forwards to the machine.",
		PlanModifiers:       []planmodifier.List{released{}},
		NestedObject: schema.NestedAttributeObject{
			Validators: []validator.Object{serviceValidator{}},
			Attributes: map[string]schema.Attribute{
				"internal_port": schema.Int64Attribute{Required: true, MarkdownDescription: "Port on which the machine listens.", Validators: []validator.Int64{int64validator.Between(1, 65535)}},
				"protocol": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString("tcp"), MarkdownDescription: "`tcp` (default) or `udp`.",
					Validators: []validator.String{stringvalidator.OneOf("tcp", "udp")},
				},
				"autostart": schema.BoolAttribute{
					Optional: true, Computed: true, Default: booldefault.StaticBool(true),
					MarkdownDescription: "Whether a connection starts a stopped machine; default `true`.",
				},
				"autostop": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString("off"),
					MarkdownDescription: "Whether Fly's proxy makes the machine cold when it sees no connections: `off` (default), `stop` or `suspend`. " +
						"The proxy does not see commands that run without a connection.",
					Validators: []validator.String{stringvalidator.OneOf("off", "stop", "suspend")},
				},
				"min_machines_running": schema.Int64Attribute{
					Optional: true, Computed: true, Default: int64default.StaticInt64(0), MarkdownDescription: "How many machines the proxy keeps running in the primary region; default 0.",
					Validators: []validator.Int64{int64validator.AtLeast(0)},
				},
				"ports":       portsAttribute(),
				"concurrency": concurrencyAttribute(),
			},
		},
	}
}

func portsAttribute() schema.Attribute {
	number := func(text string) schema.Attribute {
		return schema.Int64Attribute{Optional: true, MarkdownDescription: text, Validators: []validator.Int64{int64validator.Between(1, 65535)}}
	}
	return schema.ListNestedAttribute{
		Optional:            true, // required, but the check of the service says what would be right
		MarkdownDescription: "Ports on which the service is reached; at least one.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"port":       number("The port, or `start_port` and `end_port`."),
			"start_port": number("First port of a range."),
			"end_port":   number("Last port of a range."),
			"handlers": schema.ListAttribute{
				ElementType: types.StringType, Optional: true,
				MarkdownDescription: "What the proxy does with a connection (`http`, `tls`, `pg_tls`, `proxy_proto`); left out, bytes pass through.",
				Validators:          []validator.List{listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(stringvalidator.OneOf("http", "tls", "pg_tls", "proxy_proto", "edge_http"))},
			},
			"force_https": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false), MarkdownDescription: "Redirect HTTP to HTTPS; default `false`.",
			},
		}},
	}
}

func concurrencyAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "Load limits of the proxy.",
		Attributes: map[string]schema.Attribute{
			"type":       schema.StringAttribute{Required: true, MarkdownDescription: "`connections` or `requests`.", Validators: []validator.String{stringvalidator.OneOf("connections", "requests")}},
			"soft_limit": schema.Int64Attribute{Required: true, MarkdownDescription: "Load above which other machines are preferred."},
			"hard_limit": schema.Int64Attribute{Optional: true, MarkdownDescription: "Load above which the machine gets nothing more."},
		},
	}
}

func checksAttribute() schema.Attribute {
	text := func(text string, v ...validator.String) schema.Attribute {
		return schema.StringAttribute{
			Optional: true, Computed: true, MarkdownDescription: text,
			Validators: v, PlanModifiers: []planmodifier.String{released{}},
		}
	}
	return schema.MapNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "Health checks of the machine, by name. A failing check only takes the machine out of routing; Fly never restarts it for that. A swap waits for them.",
		PlanModifiers:       []planmodifier.Map{released{}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"type":         schema.StringAttribute{Required: true, MarkdownDescription: "`tcp` or `http`.", Validators: []validator.String{stringvalidator.OneOf("tcp", "http")}},
			"port":         schema.Int64Attribute{Required: true, MarkdownDescription: "Port to ask.", Validators: []validator.Int64{int64validator.Between(1, 65535)}},
			"interval":     text("How often, such as `15s`.", durationValidator{}),
			"timeout":      text("How long one try may take.", durationValidator{}),
			"grace_period": text("How long after a start a failure does not count.", durationValidator{}),
			"method":       text("HTTP method; Fly's default is `get`."),
			"path":         text("HTTP path, such as `/healthz`.", pathValidator{}),
			"protocol":     text("`http` or `https`.", stringvalidator.OneOf("http", "https")),
		}},
	}
}

func stopConfigAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "How the machine is stopped. Left out: what the machine has (Fly's default is SIGINT and 5 s).",
		PlanModifiers:       []planmodifier.Object{released{}},
		Attributes: map[string]schema.Attribute{
			"signal": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Signal to send first, such as `SIGTERM`.",
				Validators:    []validator.String{stringvalidator.OneOf("SIGABRT", "SIGALRM", "SIGHUP", "SIGINT", "SIGKILL", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")},
				PlanModifiers: []planmodifier.String{released{}},
			},
			"timeout": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "How long to wait before SIGKILL, such as `30s`.",
				Validators: []validator.String{durationValidator{}}, PlanModifiers: []planmodifier.String{released{}},
			},
		},
	}
}
