package remote

import (
	"io/fs"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// mostFailures is how many failures a tree's error lists.
const mostFailures = 100

// failures gathers what of a tree did not work.
type failures struct {
	op   string
	list []error
	more int
}

func (f *failures) add(name string, err error) {
	if len(f.list) >= mostFailures {
		f.more++
		return
	}
	f.list = append(f.list, &fs.PathError{Op: f.op, Path: name, Err: err})
}

// err is a *sandbox.TreeError, nil when all worked.
func (f *failures) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &sandbox.TreeError{Failed: f.list, More: f.more}
}
