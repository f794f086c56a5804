// Package setup is the verb that prepares a tenant's app: network, address, image.
package setup

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// tag names the image of the last setup in the app's repository.
const tag = "flyfleet"

// Command is `flyfleet setup-fly-app`.
type Command struct {
	App            string `arg:"" help:"Name of the app; names are global on Fly."`
	Rebuild        bool   `help:"Build and push the image although the app's repository has one already."`
	Network        string `help:"Private network of the app. Default: its own, named like the app."`
	RuntimeNetwork string `default:"default" help:"Network from which the app's flycast address is reached."`
	Base           string `default:"scratch" help:"Base image by digest (repository@sha256:…), or scratch."`
	ControlServer  string `help:"Control server for the image, a linux binary. Default: flyfleet-controlserver beside this program." type:"existingfile"`
	Platform       string `default:"linux/amd64" help:"Platform of the image."`
}

// Help is the long help.
func (*Command) Help() string {
	return `Everything is found or made, so the command may be repeated. The last line on stdout is the image by digest, for
flyfleet redeploy-fleet --image, or for a machine's image in Terraform.`
}

type result struct {
	App        string `json:"app"`
	AppMade    bool   `json:"app_made"`
	Network    string `json:"network"`
	Flycast    string `json:"flycast"`
	FlycastFor string `json:"flycast_network"`
	Image      string `json:"image"`
	ImageBuilt bool   `json:"image_built"`
}

// Run prepares the app.
func (s *Command) Run(ctx context.Context, c *console.Console, env *settings.Settings) error {
	api, err := env.Platform()
	if err != nil {
		return err
	}
	defer api.Close()
	r := result{App: s.App, Network: s.Network, FlycastFor: s.RuntimeNetwork}
	if r.Network == "" {
		r.Network = s.App
	}
	if r.AppMade, err = ensureApp(ctx, api, s.App, r.Network); err != nil {
		return err
	}
	if r.Flycast, err = ensureFlycast(ctx, api, s.App, s.RuntimeNetwork); err != nil {
		return err
	}
	if r.Image, r.ImageBuilt, err = s.ensureImage(ctx, api); err != nil {
		return err
	}
	return c.Result(r, func(w io.Writer) {
		fmt.Fprintf(w, "app      %s (%s), network %s\n", s.App, choose(r.AppMade, "made", "there already"), r.Network)
		fmt.Fprintf(w, "address  %s, reached from network %s as %s.flycast\n", r.Flycast, s.RuntimeNetwork, s.App)
		fmt.Fprintf(w, "image    %s\n", choose(r.ImageBuilt, "built and pushed", "there already; --rebuild builds it again"))
		fmt.Fprintln(w, r.Image)
	})
}

func choose(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

func ensureApp(ctx context.Context, api *flyapi.Client, app, network string) (made bool, err error) {
	got, err := api.GetApp(ctx, app)
	switch {
	case flyapi.IsNotFound(err):
		_, err = api.CreateApp(ctx, app, api.Org(), network)
		if flyapi.IsNameTaken(err) {
			return false, fmt.Errorf("app name %s belongs to somebody else: choose another: %w", app, err)
		}
		return err == nil, err
	case err != nil:
		return false, err
	case got.Org != "" && got.Org != api.Org():
		return false, fmt.Errorf("app %s is in organization %s, not in %s (%s)", app, got.Org, api.Org(), settings.Org)
	case !flyapi.SameNetwork(got.Network, network):
		return false, fmt.Errorf("app %s exists on network %q, not on %q, and a network never changes: use --network, or another app", app, got.Network, network)
	}
	return false, nil
}

func ensureFlycast(ctx context.Context, api *flyapi.Client, app, network string) (string, error) {
	all, err := api.ListAddresses(ctx, app)
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if a.Type == flyapi.AddressPrivateV6 && flyapi.SameNetwork(a.Network, network) {
			return a.IP, nil
		}
	}
	a, err := api.AssignAddress(ctx, app, flyapi.AssignRequest{Type: flyapi.AddressPrivateV6, Network: network})
	return a.IP, err
}

func (s *Command) ensureImage(ctx context.Context, api *flyapi.Client) (ref string, built bool, err error) {
	// Assumption: Fly's registry takes the API token as the password of any user, as flyctl sends it.
	to := ociimage.Destination{Registry: api.RegistryHost(), Repository: s.App, Tag: tag, Token: api.Token()}
	if !s.Rebuild {
		digest, found, err := ociimage.Resolve(ctx, to)
		if err != nil {
			return "", false, err
		}
		if found {
			return to.Ref() + "@" + digest, false, nil
		}
	}
	binary := s.ControlServer
	if binary == "" {
		if binary, err = beside("flyfleet-controlserver"); err != nil {
			return "", false, err
		}
	}
	spec := ociimage.Tenant(ociimage.FromFile(binary))
	spec.Base, spec.Platform = s.Base, s.Platform
	if strings.HasPrefix(s.Base, api.RegistryHost()+"/") {
		spec.BaseToken = api.Token()
	}
	spec.Labels[ociimage.LabelVersion] = wire.Build
	img, err := ociimage.Build(ctx, spec)
	if err != nil {
		return "", false, err
	}
	if err := ociimage.Push(ctx, img, to); err != nil {
		return "", false, err
	}
	return img.Ref(to.Ref()), true, nil
}

// beside finds a program that was installed with this one.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no %s beside this program: name it with --control-server, or run make build: %w", name, err)
	}
	return path, nil
}
