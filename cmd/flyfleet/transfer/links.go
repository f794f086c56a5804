package transfer

import (
	"context"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Links tells where the links among a directory's entries lead, "" for what is none.
func Links(ctx context.Context, box sandbox.Sandbox, dir string, infos []sandbox.Info, forget func(id string)) ([]string, error) {
	t := &there{box: box.In(dir), ran: forget}
	entries := make([]entry, len(infos))
	var links []int
	for i, info := range infos {
		if entries[i].name = info.Name; info.IsSymlink {
			links = append(links, i)
		}
	}
	err := t.follow(ctx, entries, links)
	out := make([]string, len(infos))
	for i := range entries {
		out[i] = entries[i].target
	}
	return out, err
}
