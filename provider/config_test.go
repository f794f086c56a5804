package provider_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
)

func TestBadConfigurationNamesTheAttributeAndWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	machine := func(more string) string {
		return `resource "flyfleet_machine" "m" {
  app = "tenant-a"
  region = "fra"
  image = "` + imageOf(1) + `"
  ` + more + `
}`
	}
	for _, c := range []struct{ name, config, want string }{
		{"app name", `resource "flyfleet_app" "a" { name = "` + strings.Repeat("a", 64) + `" }`, `(?s)name: an app's name has at most 63.*this one has\s+64`},
		{"machine name", machine(`name = "` + strings.Repeat("a", 64) + `"`), `(?s)name: a machine's name has at most 63`},
		{"network name", `resource "flyfleet_app" "a" {
  name = "a"
  network = "1-b"
}`, `(?s)network: a network's name takes.*beginning with a letter`},
		{"guest cpus", machine(`guest = { cpu_kind = "shared", cpus = 3, memory_mb = 512 }`), `(?s)guest.cpus: Fly offers 1, 2, 4, 6 or 8`},
		{"guest memory", machine(`guest = { cpu_kind = "shared", cpus = 1, memory_mb = 4096 }`), `(?s)guest.memory_mb: with 1 shared CPUs Fly offers 256 to 2048`},
		{"service without ports", machine(`services = [{ internal_port = 8080 }]`), `(?s)services\[0\].ports:.*ports = \[\{ port =\s+8080 \}\]`},
		{"region", strings.Replace(machine(""), `"fra"`, `"frankfurt"`, 1), `(?s)region: a region is one code of three lowercase letters`},
		{"image", strings.Replace(machine(""), imageOf(1), "not an image", 1), `(?s)image:.*registry/repository@sha256`},
		{"duration", machine(`drain_timeout = "soon"`), `(?s)drain_timeout: "soon" is no duration.*15s`},
		{"owner", machine(`metadata = { flyfleet_image_owner = "me" }`), `(?s)belongs to\s+"terraform" or "rollout"`},
		{"volume size", `resource "flyfleet_volume" "v" {
  app = "a"
  region = "fra"
  name = "data-1"
  size_gb = 1
}`, `(?s)name: a volume's name takes.*a dash is not allowed`},
		{"network of a public address", `resource "flyfleet_ip" "i" {
  app = "a"
  type = "v6"
  network = "b"
}`, `(?s)network: a v6 address is public`},
		{"base without digest", `resource "flyfleet_image" "i" {
  repository = "a"
  base = "debian:12"
}`, `(?s)base: "debian:12" can be other content tomorrow`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.run(t, resource.TestStep{Config: c.config, PlanOnly: true, ExpectError: says(c.want)})
		})
	}
	if w := p.writes(0); len(w) != 0 {
		t.Fatalf("a refused plan wrote %v", w)
	}
}

func TestWhatIsOnlyRiskyWarns(t *testing.T) {
	t.Parallel()
	w := startPlatform(t).workspace(t)
	w.write(t, strings.NewReplacer(imageOf(1), "nginx:1", `"fra"`, `"xyz"`).Replace(machineHCL(imageOf(1))))
	said := w.must(t, "plan")
	for _, warning := range []string{`image: "nginx:1" can mean other content tomorrow`, `region: "xyz" is not among the regions`} {
		if !says(warning).MatchString(said) {
			t.Errorf("no warning %q in: %s", warning, said)
		}
	}
}

func TestAProviderThatLacksSomethingSaysWhereToGetIt(t *testing.T) {
	t.Parallel()
	p := startPlatform(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(p.Token()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := p.env
	lacking := func(keys ...string) map[string]string {
		env := maps.Clone(full)
		for _, k := range keys {
			delete(env, k)
		}
		return env
	}
	app := `resource "flyfleet_app" "a" { name = "tenant-a" }`
	for _, c := range []struct {
		name   string
		env    map[string]string
		config string
		want   string // "" means that the plan works
	}{
		{"nothing", lacking(), app, ""},
		{"token", lacking("FLY_API_TOKEN"), app, `no Fly token: set FLY_API_TOKEN`},
		{"token from a file", lacking("FLY_API_TOKEN"), `provider "flyfleet" { token_file = "` + token + `" }` + "\n" + app, ""},
		{"token file that is not there", lacking("FLY_API_TOKEN"), `provider "flyfleet" { token_file = "/absent" }` + "\n" + app, `token_file:.*/absent`},
		{"organization", lacking("FLY_ORG"), app, `no organization: set .org. in the provider block or FLY_ORG`},
		{"endpoint", lacking(), `provider "flyfleet" { flaps_url = "nowhere" }` + "\n" + app, `"nowhere": want http://host`},
		{"drain timeout", lacking(), `provider "flyfleet" { drain_timeout = "soon" }` + "\n" + app, `drain_timeout: "soon" is no duration`},
		{"unknown token", lacking(), "resource \"terraform_data\" \"t\" { input = \"x\" }\nprovider \"flyfleet\" { token = terraform_data.t.output }\n" + app, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.env = c.env
			w := p.workspace(t)
			w.write(t, c.config)
			said, ok := w.terraform(t, "plan")
			if ok != (c.want == "") || !says(c.want).MatchString(said) {
				t.Errorf("the plan said: %s", said)
			}
		})
	}
}
