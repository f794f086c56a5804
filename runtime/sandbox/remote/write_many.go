package remote

import (
	"bytes"
	"context"
	"path"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// Bounds of one exec that writes many files.
const (
	mostTogether  = 1 << 20 // bytes of one file
	mostOfAll     = 8 << 20 // bytes of all
	mostArguments = 96 << 10
	mostFiles     = 500
)

// WriteFiles writes each file by itself. Small ones share execs, in the order in which they are given; a large one has its own.
func (s *Sandbox) WriteFiles(ctx context.Context, files []sandbox.File) ([]error, error) {
	o, err := s.begin(ctx, "write")
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(files))
	label := ""
	for i := 0; i < len(files); {
		n := together(files[i:])
		if n == 0 {
			errs[i], err = apart(o.about(files[i].Name, o.writeFile(ctx, files[i], label)))
			n = 1
		} else {
			err = o.writeTogether(ctx, files[i:i+n], errs[i:i+n], label)
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return errs, err
		}
		i += n
		label = "w" + number(int64(i))
	}
	return errs, nil
}

// together is how many of the first files share an exec; 0 when the first is to be written alone. They all start from the root, or none.
func together(files []sandbox.File) int {
	all, arguments := 0, 0
	for i, f := range files {
		all += len(f.Content)
		arguments += 2*len(f.Name) + 64
		if i > 0 && path.IsAbs(f.Name) != path.IsAbs(files[0].Name) {
			return i
		}
		if len(f.Content) > mostTogether || i > 0 && (all > mostOfAll || arguments > mostArguments || i >= mostFiles) {
			return i
		}
	}
	return len(files)
}

// writeTogether writes what it can as a batch, and the rest one by one, in one exec, each in its order.
func (o operation) writeTogether(ctx context.Context, files []sandbox.File, errs []error, label string) error {
	var sent []int
	for i, f := range files {
		if err := checkFile(f); err != nil {
			errs[i] = o.about(f.Name, err)
			continue
		}
		sent = append(sent, i)
	}
	if len(sent) > 1 {
		rest, err := o.writeBatch(ctx, files, sent, label)
		if err != nil {
			return err
		}
		sent, label = rest, label+"each"
	}
	if len(sent) == 0 {
		return nil
	}
	return o.writeEach(ctx, files, sent, errs, label)
}

// writeEach writes files one after the other, and learns of each why it cannot be.
func (o operation) writeEach(ctx context.Context, files []sandbox.File, sent []int, errs []error, label string) error {
	id, err := o.idOf(label)
	if err != nil {
		return err
	}
	args := []string{id}
	var content []byte
	for _, i := range sent {
		f := files[i]
		args = append(args, modeText(f), number(int64(len(f.Content))), spell(f.Name))
		content = append(content, f.Content...)
	}
	answer, err := o.run(ctx, job{script: writesScript, part: label, dir: o.start(files[sent[0]].Name), args: args, stdin: content})
	if err != nil {
		return err
	}
	_, rest, err := statusOf(answer)
	if err != nil {
		return err
	}
	for _, i := range sent {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		if !whole {
			return errTorn
		}
		_, _, err := statusOf(append(line, '\n'))
		errs[i] = o.about(files[i].Name, err)
		rest = after
	}
	return nil
}
