package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"text/template"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
)

// ProviderVariable names the provider's binary to the launcher in the mirror.
const ProviderVariable = "FLYFLEET_PROVIDER"

const (
	providerAddress = "registry.terraform.io/flyfleet/flyfleet"
	providerBinary  = "terraform-provider-flyfleet"
)

// The mirror holds a launcher, not the provider: terraform init records a hash of the mirror's package in the lock file, and
// a copy or link of the provider would break the next init after each rebuild. The launcher's bytes are the
// same for all builds and folders. dev_overrides lets plan and apply take the binary itself; alone it would let
// init fail, which still wants to install the provider from somewhere.
const launcher = `#!/bin/sh
exec "${FLYFLEET_PROVIDER:?is not set; run: eval \"\$(flyfleet local env)\"}" "$@"
`

var configTemplate = template.Must(template.New("terraform.rc").Parse(`# Written by flyfleet local env.
provider_installation {
  dev_overrides {
    "flyfleet/flyfleet" = {{printf "%q" .Bin}}
  }
  filesystem_mirror {
    path    = {{printf "%q" .Mirror}}
    include = ["{{.Address}}"]
  }
  direct {
    exclude = ["{{.Address}}"]
  }
}
`))

// versionPattern is what a mirror's folder may be called.
var versionPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// writeTerraformConfig makes the configuration file and the mirror under dir and returns the file's path. Older versions
// stay in the mirror, so that an existing lock file finds the one it names.
func writeTerraformConfig(dir, binDir string) (string, error) {
	version := wire.Build
	if !versionPattern.MatchString(version) {
		version = "0.0.1" // Terraform takes 0.0.0 for no version at all
	}
	mirror := filepath.Join(dir, "mirror")
	pkg := filepath.Join(mirror, filepath.FromSlash(providerAddress), version, runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		return "", fmt.Errorf("mirror for terraform init: %w", err)
	}
	if err := replace(filepath.Join(pkg, providerBinary+"_v"+version), []byte(launcher), 0o755); err != nil {
		return "", fmt.Errorf("mirror for terraform init: %w", err)
	}
	var rc bytes.Buffer
	if err := configTemplate.Execute(&rc, map[string]string{"Bin": binDir, "Mirror": mirror, "Address": providerAddress}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "terraform.rc")
	if err := replace(path, rc.Bytes(), 0o644); err != nil {
		return "", fmt.Errorf("configuration for terraform: %w", err)
	}
	return path, nil
}

// replace writes a file whole or not at all, and not when it is the same already.
func replace(path string, content []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return os.Chmod(path, mode)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // gone after the rename; otherwise of no use
	if _, err = tmp.Write(content); err == nil {
		err = tmp.Chmod(mode)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}
