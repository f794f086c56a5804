package image

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/ociimage"
)

// specOf is the image that a configuration describes. baseToken is used where the base lies in the account's own registry.
func specOf(m model, registry, baseToken string) (ociimage.Spec, error) {
	spec := ociimage.Spec{Base: m.Base}
	if m.ControlServer != nil {
		spec = ociimage.Tenant(ociimage.FromFile(*m.ControlServer))
		spec.Base = m.Base
	}
	if strings.HasPrefix(m.Base, registry+"/") {
		spec.BaseToken = baseToken
	}
	// A declared file or link takes the place of what the tenant's layout has there; two declared ones are left for Check to
	// refuse.
	declared := func(path string) bool {
		_, isFile := m.Files[path]
		_, isLink := m.Links[path]
		return isFile || isLink
	}
	spec.Files = slices.DeleteFunc(slices.Clone(spec.Files), func(f ociimage.File) bool { return declared(f.Path) })
	spec.Links = slices.DeleteFunc(slices.Clone(spec.Links), func(l ociimage.Link) bool { return declared(l.Path) })
	for _, path := range slices.Sorted(maps.Keys(m.Files)) {
		f, err := fileOf(path, m.Files[path])
		if err != nil {
			return spec, err
		}
		spec.Files = append(spec.Files, f)
	}
	for _, path := range slices.Sorted(maps.Keys(m.Links)) {
		spec.Links = append(spec.Links, ociimage.Link{Path: path, Target: m.Links[path]})
	}
	if m.Entrypoint != nil {
		spec.Entrypoint = m.Entrypoint
	}
	if m.Cmd != nil {
		spec.Cmd = m.Cmd
	}
	spec.Env = m.Env
	spec.Labels = merged(spec.Labels, m.Labels)
	if m.User != nil {
		spec.User = *m.User
	}
	if m.Workdir != nil {
		spec.WorkDir = *m.Workdir
	}
	if m.LayerFormat != nil {
		spec.LayerFormat = *m.LayerFormat
	}
	return spec, spec.Check()
}

func merged(base, more map[string]string) map[string]string {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

func fileOf(path string, f file) (ociimage.File, error) {
	out := ociimage.File{Path: path}
	switch {
	case f.Source != nil && f.Content == nil:
		out.Source = ociimage.FromFile(*f.Source)
	case f.Content != nil && f.Source == nil:
		out.Source = ociimage.FromBytes([]byte(*f.Content))
	default:
		return out, fmt.Errorf("files[%q]: write either source or content", path)
	}
	if f.Mode != nil {
		mode, err := strconv.ParseUint(*f.Mode, 8, 12)
		if err != nil {
			return out, fmt.Errorf("files[%q].mode: %q is not octal permissions such as 0755", path, *f.Mode)
		}
		out.Mode = uint32(mode)
	}
	if f.UID != nil {
		out.UID = int(*f.UID)
	}
	if f.GID != nil {
		out.GID = int(*f.GID)
	}
	return out, nil
}
