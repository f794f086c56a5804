package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/machines"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

// play is the demo from the first init to the last destroy.
func (s *show) play(ctx context.Context) error {
	s.say("terraform init, plan, apply: %d tenants, each an app on its own network, a volume, a machine, an address", len(tenants))
	if err := s.terraform(ctx, "init"); err != nil {
		return err
	}
	if err := s.terraform(ctx, "apply", "-auto-approve"); err != nil {
		return err
	}
	s.say("A command on each machine writes a file into its workspace")
	for _, t := range tenants {
		if _, err := s.exec(ctx, t, `printf %s "kept by $0" > note`, t); err != nil {
			return err
		}
	}
	digest, err := s.swap(ctx)
	if err != nil {
		return err
	}
	s.say("The files are still there, on machines that run the new image")
	if err := s.running(ctx, digest); err != nil {
		return err
	}
	for _, t := range tenants {
		if err := s.kept(ctx, t); err != nil {
			return err
		}
	}
	if s.Keep {
		s.say("The fleet is left as it is in %s", s.dir)
		return nil
	}
	s.say("terraform destroy")
	return s.terraform(ctx, "destroy", "-auto-approve")
}

// swap plans another image, counts what would change, applies exactly that plan, and returns the new image's digest.
func (s *show) swap(ctx context.Context) (string, error) {
	s.say("Another image: terraform plan")
	if err := s.terraform(ctx, "plan", "-var", "image_version=2", "-out", "image.tfplan"); err != nil {
		return "", err
	}
	doc, err := s.run.run(ctx, s.config, "terraform", "show", "-json", "image.tfplan")
	if err != nil {
		return "", err
	}
	found, err := machineChanges(doc)
	if err != nil {
		return "", err
	}
	if err := onlyTheImage(found, len(tenants)); err != nil {
		return "", err
	}
	for _, c := range found {
		s.tell("%s: 1 changed line", c.Address)
		s.tell("  ~ image = %s -> %s", short(c.From), short(c.To))
	}
	s.say("terraform apply")
	return flyapi.DigestOf(found[0].To), s.terraform(ctx, "apply", "image.tfplan")
}

// running checks that every machine runs the image, and is as it was otherwise.
func (s *show) running(ctx context.Context, digest string) error {
	out, err := s.run.run(ctx, s.dir, filepath.Join(s.binaries, "flyfleet"), "--json", "machines", "--fleet", prefix)
	if err != nil {
		return err
	}
	var all []machines.Machine
	if err := json.Unmarshal(out, &all); err != nil {
		return fmt.Errorf("flyfleet machines: %w", err)
	}
	if len(all) != len(tenants) {
		return fmt.Errorf("the fleet has %d machines, want %d", len(all), len(tenants))
	}
	for _, m := range all {
		if m.Digest != digest || m.State != flyapi.StateStarted || m.Checks != "1/1 passing" {
			return fmt.Errorf("machine %s of %s is %s with checks %s and image %s, want it started, healthy, with %s", m.ID, m.App, m.State, m.Checks, m.Digest, digest)
		}
	}
	return nil
}

// kept reads what the tenant's machine wrote before the swap, and the image it runs now.
func (s *show) kept(ctx context.Context, tenant string) error {
	got, err := s.exec(ctx, tenant, `cat note`)
	if err != nil {
		return err
	}
	if want := "kept by " + tenant; got != want {
		return fmt.Errorf("the workspace of %s did not survive: note holds %q, want %q", tenant, got, want)
	}
	s.tell("%s: note = %q", tenant, got)
	return nil
}

// exec runs a shell script on a tenant's machine as a person would.
func (s *show) exec(ctx context.Context, tenant, script string, args ...string) (string, error) {
	argv := append([]string{"exec", prefix + "-" + tenant, "--", "sh", "-c", script}, args...)
	out, err := s.run.run(ctx, s.dir, filepath.Join(s.binaries, "flyfleet"), argv...)
	return string(out), err
}

func (s *show) terraform(ctx context.Context, verb string, args ...string) error {
	_, err := s.run.run(ctx, s.config, "terraform", append([]string{verb, "-no-color"}, args...)...)
	return err
}

// short leaves the start of the digest.
func short(image string) string {
	name, digest, _ := strings.Cut(image, "@sha256:")
	return filepath.Base(name) + "@" + digest[:min(12, len(digest))]
}
