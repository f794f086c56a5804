package registry

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// ParseRef reads an image reference as Fly shows it: a bare name is Docker Hub's, "library/" and the tag latest are
// filled in, a pin by digest alone has no tag, and a pin with a tag keeps both.
func ParseRef(text string) (state.ImageRef, error) {
	ref, err := name.ParseReference(text, name.Insecure)
	if err != nil {
		return state.ImageRef{}, fmt.Errorf("image %q: %w", text, err)
	}
	out := state.ImageRef{Registry: ref.Context().RegistryStr(), Repository: ref.Context().RepositoryStr()}
	if out.Registry == name.DefaultRegistry {
		out.Registry = "registry-1.docker.io"
	}
	switch r := ref.(type) {
	case name.Tag:
		out.Tag = r.TagStr()
	case name.Digest:
		out.Digest = r.DigestStr()
		out.Tag = tagBeforeDigest(text)
	}
	return out, nil
}

// tagBeforeDigest answers the tag of "repository:tag@digest", which the library drops.
func tagBeforeDigest(text string) string {
	for i := range len(text) {
		if text[i] == '@' {
			if tag, err := name.NewTag(text[:i], name.StrictValidation); err == nil {
				return tag.TagStr()
			}
			return ""
		}
	}
	return ""
}
