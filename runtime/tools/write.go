package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

func runWrite(ctx context.Context, call Call) (Result, error) {
	args, err := arguments[struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}](call)
	if err != nil {
		return Result{}, err
	}
	if err := call.Box.Once(call.ExecID).WriteFile(ctx, args.Path, []byte(args.Content), sandbox.WriteOptions{}); err != nil {
		return fault(ctx, err)
	}
	return Result{Content: fmt.Appendf(nil, "Wrote %d bytes to %s.", len(args.Content), args.Path)}, nil
}

type edit struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all"`
}

// runEdit reads, replaces, and writes once. A new owner reads a file that the old one may have changed already: that
// another operation has the id says that it did.
func runEdit(ctx context.Context, call Call) (Result, error) {
	args, err := arguments[edit](call)
	if err != nil {
		return Result{}, err
	}
	content, err := call.Box.ReadFile(ctx, args.Path, sandbox.Part{})
	if err != nil {
		return edited(ctx, call, args, fault)(err)
	}
	changed, complaint := args.apply(content)
	if complaint != "" {
		return edited(ctx, call, args, func(context.Context, error) (Result, error) { return failed("%s", complaint), nil })(nil)
	}
	err = call.Box.Once(call.ExecID).WriteFile(ctx, args.Path, changed, sandbox.WriteOptions{})
	switch {
	case call.Resumed && errors.Is(err, sandbox.ErrConflict):
		// It was written by the owner before, from what the file held then.
	case err != nil:
		return fault(ctx, err)
	}
	return args.done(), nil
}

// edited finds out whether the edit was done by an owner before: otherwise says what follows when not. A question
// under the id changes nothing, and after it nothing else can be done under the id.
func edited(ctx context.Context, call Call, args edit, otherwise func(context.Context, error) (Result, error)) func(error) (Result, error) {
	return func(cause error) (Result, error) {
		if !call.Resumed || ctx.Err() != nil {
			return otherwise(ctx, cause)
		}
		_, err := call.Box.Once(call.ExecID).Exists(ctx, args.Path)
		var unavailable *sandbox.UnavailableError
		switch {
		case errors.Is(err, sandbox.ErrConflict):
			return args.done(), nil
		case errors.As(err, &unavailable), errors.Is(err, sandbox.ErrFenced), ctx.Err() != nil:
			return Result{}, err
		}
		return otherwise(ctx, cause)
	}
}

func (e edit) apply(content []byte) (changed []byte, complaint string) {
	old := []byte(e.Old)
	switch found := bytes.Count(content, old); {
	case e.Old == e.New:
		return nil, "Nothing was changed: the old text and the new one are the same."
	case found == 0:
		return nil, fmt.Sprintf("Nothing was changed: the old text is not in %s. It must match byte for byte, blanks and line ends too; read the file again.", e.Path)
	case found > 1 && !e.All:
		return nil, fmt.Sprintf("Nothing was changed: the old text is in %s %d times. Give more of what is around it, or say all.", e.Path, found)
	case int64(len(content))+int64(found)*int64(len(e.New)-len(e.Old)) > sandbox.MaxWrite:
		return nil, "Nothing was changed: the file would be too large."
	}
	return bytes.ReplaceAll(content, old, []byte(e.New)), ""
}

func (e edit) done() Result { return Result{Content: fmt.Appendf(nil, "Edited %s.", e.Path)} }
