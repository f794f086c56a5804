package image

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
	"github.com/flyfleet/terraform-provider-flyfleet/provider/imageref"
)

// model is one flyfleet_image as Terraform holds it.
type model struct {
	Repository    string            `tfsdk:"repository"`
	Base          string            `tfsdk:"base"`
	ControlServer *string           `tfsdk:"control_server"`
	Files         map[string]file   `tfsdk:"files"`
	Links         map[string]string `tfsdk:"links"`
	Entrypoint    []string          `tfsdk:"entrypoint"`
	Cmd           []string          `tfsdk:"cmd"`
	Env           map[string]string `tfsdk:"env"`
	User          *string           `tfsdk:"user"`
	Workdir       *string           `tfsdk:"workdir"`
	Labels        map[string]string `tfsdk:"labels"`
	Tag           *string           `tfsdk:"tag"`
	LayerFormat   *string           `tfsdk:"layer_format"`
	Digest        types.String      `tfsdk:"digest"`
	Ref           types.String      `tfsdk:"ref"`
}

type file struct {
	Source  *string `tfsdk:"source"`
	Content *string `tfsdk:"content"`
	Mode    *string `tfsdk:"mode"`
	UID     *int64  `tfsdk:"uid"`
	GID     *int64  `tfsdk:"gid"`
}

// inputs are the attributes that decide the digest.
var inputs = []string{"base", "control_server", "files", "links", "entrypoint", "cmd", "env", "user", "workdir", "labels", "layer_format"}

const (
	maxID       = 1<<31 - 1
	octalDigits = `^0?[0-7]{3,4}$`
)

func resourceSchema() schema.Schema {
	text := func(text string, v ...validator.String) schema.Attribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: text, Validators: v}
	}
	words := func(text string) schema.Attribute {
		return schema.ListAttribute{ElementType: types.StringType, Optional: true, MarkdownDescription: text}
	}
	pairs := func(text string, v ...validator.Map) schema.Attribute {
		return schema.MapAttribute{ElementType: types.StringType, Optional: true, MarkdownDescription: text, Validators: append(v, mapvalidator.NoNullValues())}
	}
	return schema.Schema{
		MarkdownDescription: "A container image, built by the provider itself without a container engine. It is a pure function of its inputs, so the plan computes the final digest, and every machine that uses `ref` shows its swap as one changed line. " +
			"The apply pushes it, and refuses when an input has changed since the plan. Older digests stay in the registry, also when the resource is destroyed, because machines may still run them.",
		Attributes: map[string]schema.Attribute{
			"repository": schema.StringAttribute{
				Required: true, MarkdownDescription: "Name in the registry: on Fly, the name of an app.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"base": schema.StringAttribute{
				Required: true, MarkdownDescription: "`scratch`, or the image to build on, by digest (`debian:12@sha256:…`): under a tag alone the same inputs would not be the same image.",
				Validators: []validator.String{baseValidator{}},
			},
			"control_server": text("Path of the control server's binary on this computer. It lays the image out as a tenant's: binary, users, `/workspace`, entrypoint and label; other attributes add to that or replace parts of it."),
			"files": schema.MapNestedAttribute{
				Optional: true, MarkdownDescription: "Files, by their path in the image.",
				Validators: []validator.Map{mapvalidator.KeysAre(absolute{})},
				NestedObject: schema.NestedAttributeObject{
					Validators: []validator.Object{oneSource{}},
					Attributes: map[string]schema.Attribute{
						"source":  text("Path of a file on this computer."),
						"content": text("The content itself. Instead of `source`."),
						"mode":    text("Permissions as in chmod, such as `0755`; default `0644`.", stringvalidator.RegexMatches(regexp.MustCompile(octalDigits), "must be three or four octal digits, such as 0755")),
						"uid":     schema.Int64Attribute{Optional: true, MarkdownDescription: "Owner; default 0.", Validators: []validator.Int64{int64validator.Between(0, maxID)}},
						"gid":     schema.Int64Attribute{Optional: true, MarkdownDescription: "Group; default 0.", Validators: []validator.Int64{int64validator.Between(0, maxID)}},
					},
				},
			},
			"links":        pairs("Symbolic links: path in the image → target.", mapvalidator.KeysAre(absolute{})),
			"entrypoint":   words("Entrypoint; replaces the base's."),
			"cmd":          words("Arguments of the entrypoint; replaces the base's."),
			"env":          pairs("Environment, added to the base's."),
			"user":         text("User that the entrypoint runs as; replaces the base's."),
			"workdir":      text("Working directory; replaces the base's.", absolute{}),
			"labels":       pairs("Labels, added to the base's."),
			"tag":          text("Tag to set on the image as well. Machines pin the digest."),
			"layer_format": text("`tar` (default) or `gzip-stored`, for a puller that wants gzip. Neither compresses, so that no compressor has a say in the digest.", stringvalidator.OneOf(ociimage.LayerTar, ociimage.LayerGzipStored)),
			"digest":       schema.StringAttribute{Computed: true, MarkdownDescription: "Digest of the image, known in the plan."},
			"ref":          schema.StringAttribute{Computed: true, MarkdownDescription: "The image by digest, `registry/repository@sha256:…`: what a machine's `image` takes."},
		},
	}
}

type described string

// Description implements the Describer interfaces.
func (d described) Description(context.Context) string { return string(d) }

// MarkdownDescription implements the Describer interfaces.
func (d described) MarkdownDescription(context.Context) string { return string(d) }

// baseValidator takes scratch or a reference with a digest.
type baseValidator struct{ described }

// ValidateString implements validator.String.
func (baseValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	base := req.ConfigValue.ValueString()
	if base == ociimage.Scratch {
		return
	}
	if err := imageref.Valid(base); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid base", fmt.Sprintf("base: %v. Write scratch, or repository@sha256:….", err))
	} else if imageref.Digest(base) == "" {
		resp.Diagnostics.AddAttributeError(req.Path, "Base without a digest", fmt.Sprintf("base: %q can be other content tomorrow, and the same inputs would be another image. Write %s@sha256:….", base, base))
	}
}

// absolute takes absolute paths.
type absolute struct{ described }

// ValidateString implements validator.String.
func (absolute) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if p := req.ConfigValue.ValueString(); !strings.HasPrefix(p, "/") {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid path", fmt.Sprintf("%s: a path in an image begins with a slash, such as %q; got %q.", req.Path, "/"+p, p))
	}
}

// oneSource wants exactly one of source and content.
type oneSource struct{ described }

// ValidateObject implements validator.Object.
func (oneSource) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	source, ok1 := req.ConfigValue.Attributes()["source"].(types.String)
	content, ok2 := req.ConfigValue.Attributes()["content"].(types.String)
	if !ok1 || !ok2 || source.IsUnknown() || content.IsUnknown() {
		return
	}
	if source.IsNull() == content.IsNull() {
		resp.Diagnostics.AddAttributeError(req.Path, "Source or content", fmt.Sprintf("%s: write either source (a file on this computer) or content.", req.Path))
	}
}
