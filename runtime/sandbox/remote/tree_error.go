package remote

import (
	"io/fs"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// failures gathers what of a tree did not work.
type failures struct {
	op   string
	tree sandbox.TreeError
}

func (f *failures) add(name string, err error) {
	f.tree.Add(&fs.PathError{Op: f.op, Path: name, Err: err})
}

// err is a *sandbox.TreeError, nil when all worked.
func (f *failures) err() error {
	if len(f.tree.Failed) == 0 {
		return nil
	}
	return &f.tree
}
