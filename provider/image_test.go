package provider_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

func imageHCL(program, more string) string {
	return fmt.Sprintf(`
resource "flyfleet_app" "images" { name = "images" }
resource "flyfleet_image" "i" {
  repository     = flyfleet_app.images.name
  base           = "scratch"
  control_server = %q
  files          = { "/etc/motd" = { content = "hello", mode = "0600", uid = 7 } }
  links          = { "/motd" = "/etc/motd" }
  %s
}
resource "flyfleet_app" "a" { name = "tenant-a" }
resource "flyfleet_machine" "m" {
  app    = flyfleet_app.a.name
  region = "fra"
  image  = flyfleet_image.i.ref
}
`, program, more)
}

func TestImageLives(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	program := filepath.Join(t.TempDir(), "control-server")
	write := func(text string) {
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	var first, digest string
	p.run(t,
		resource.TestStep{
			Config: imageHCL(program, ""),
			// The digest is in the plan of an image that was never built.
			ConfigPlanChecks: before(changes{map[string][]string{
				"flyfleet_app.a": {"id (not known)", "name", "network", "org", "protect"}, "flyfleet_app.images": {"id (not known)", "name", "network", "org", "protect"},
				"flyfleet_image.i":   {"base", "control_server", "digest", "files", "links", "ref", "repository"},
				"flyfleet_machine.m": {"app", "id (not known)", "image", "name", "region"},
			}}),
			Check: func(s *terraform.State) error {
				got := s.RootModule().Resources["flyfleet_image.i"].Primary.Attributes
				digest = got["digest"]
				if want := p.RegistryHost() + "/images@" + digest; got["ref"] != want {
					return fmt.Errorf("ref %q, want %q", got["ref"], want)
				}
				first = digest
				return nil
			},
		},
		// Another content of the same file shows as one changed line on the machine.
		resource.TestStep{
			PreConfig: func() { write("two") },
			Config:    imageHCL(program, ""),
			ConfigPlanChecks: before(changes{map[string][]string{
				"flyfleet_image.i": {"digest", "ref"}, "flyfleet_machine.m": {"image"},
			}}),
			Check: func(s *terraform.State) error {
				if digest = s.RootModule().Resources["flyfleet_image.i"].Primary.Attributes["digest"]; digest == first {
					return fmt.Errorf("the digest is %s still", digest)
				}
				return nil
			},
		},
		// The first content again is the first digest again.
		resource.TestStep{
			PreConfig: func() { write("one") },
			Config:    imageHCL(program, ""),
			Check:     resource.TestCheckResourceAttrWith("flyfleet_image.i", "digest", func(v string) error { return equal(v, first) }),
		},
		// What is no input of the content changes nothing.
		resource.TestStep{Config: imageHCL(program, `tag = "v1"`), ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_image.i": {"tag"}}})},
		resource.TestStep{Config: imageHCL(program, `tag = "v1"`), ConfigPlanChecks: before(plancheck.ExpectEmptyPlan())},
		// A registry that lost the image gets it again; the machine, which has the digest, is left alone.
		resource.TestStep{
			PreConfig:        func() { p.request(t, "DELETE", "/v2/images/manifests/"+first, nil, nil) },
			Config:           imageHCL(program, `tag = "v1"`),
			ConfigPlanChecks: before(changes{map[string][]string{"flyfleet_image.i": {"digest", "ref"}}}),
		},
	)
}

// Terraform plans a change once more before it applies it and calls a difference a bug of the provider; the provider says
// what really happened.
func TestAFileThatChangesBetweenPlanAndApplyIsNotPushed(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	w := p.workspace(t)
	program := filepath.Join(w.dir, "control-server")
	write := func(text string) {
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	w.write(t, imageHCL(program, ""))
	if said := w.must(t, "apply", "-auto-approve"); says("changed after").MatchString(said) {
		t.Errorf("a file that did not change: %s", said)
	}
	write("two")
	if said := w.must(t, "plan", "-out=saved"); says("changed after").MatchString(said) {
		t.Errorf("a plan is when files may change: %s", said)
	}
	write("three")
	mark := p.mark()
	said, ok := w.terraform(t, "apply", "saved")
	if ok || !says(`control-server was written at .* after the refresh.*nothing was pushed, plan again`).MatchString(said) {
		t.Errorf("the apply said: %s", said)
	}
	for _, r := range p.Faults.Requests(mark) {
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			t.Errorf("%s %s", r.Method, r.Path)
		}
	}
	write("two")
	if said := w.must(t, "apply", "-auto-approve"); !says("Apply complete").MatchString(said) {
		t.Errorf("afterwards: %s", said)
	}
}

func equal(got, want string) error {
	if got != want {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

func TestAnUnknownInputMakesTheDigestUnknownAndIsNamed(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	w := p.workspace(t)
	w.write(t, `
resource "terraform_data" "later" { input = "x" }
resource "flyfleet_app" "images" { name = "images" }
resource "flyfleet_image" "i" {
  repository = flyfleet_app.images.name
  base       = "scratch"
  files      = { "/etc/motd" = { content = terraform_data.later.output } }
}`)
	said := w.must(t, "apply", "-auto-approve")
	if !says(`digest is not known yet.*files\["/etc/motd"\].content`).MatchString(said) {
		t.Errorf("the plan said: %s", said)
	}
	if said := w.must(t, "plan"); !says("No changes").MatchString(said) {
		t.Errorf("afterwards: %s", said)
	}
}
