package remote

import (
	"bytes"
	"context"
	"errors"
	"path"
	"syscall"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// WriteFile replaces a file, or makes it.
func (s *Sandbox) WriteFile(ctx context.Context, name string, content []byte, options sandbox.WriteOptions) error {
	o, err := s.begin(ctx, "write")
	if err != nil {
		return err
	}
	return o.about(name, o.writeFile(ctx, sandbox.File{Name: name, Content: content, Mode: options.Mode}, ""))
}

func (o operation) writeFile(ctx context.Context, f sandbox.File, label string) error {
	if err := checkFile(f); err != nil {
		return err
	}
	id, err := o.idOf(label)
	if err != nil {
		return err
	}
	return o.place(ctx, f.Name, id, job{
		part: label, dir: o.start(f.Name), stdin: f.Content,
		args: []string{spell(f.Name), modeText(f), number(int64(len(f.Content))), "", id, "yes"},
	})
}

// discardTime bounds the removal of what a killed write left.
const discardTime = 10 * time.Second

// place runs a write. A script that is killed cannot clean up: then it is done here, as well as it goes.
func (o operation) place(ctx context.Context, name, id string, j job) error {
	j.script = writeScript
	answer, err := o.run(ctx, j)
	if err == nil {
		_, _, err = statusOf(answer)
	}
	var ended *endedError
	if errors.As(err, &ended) && ended.exit.Signal != 0 {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
		defer cancel()
		d := job{script: discardScript, part: j.part + "d", dir: j.dir, args: []string{spell(name), id, j.args[len(j.args)-1]}}
		if _, derr := o.run(limited, d); derr != nil {
			o.log.Warn("what a killed write left is not removed", "exec", id, "error", derr)
		}
	}
	return err
}

func checkFile(f sandbox.File) error {
	if err := checkName(f.Name); err != nil {
		return err
	}
	if len(f.Content) > sandbox.MaxWrite {
		return syscall.EFBIG
	}
	return nil
}

// modeText is a mode as scripts get it: empty keeps what is there.
func modeText(f sandbox.File) string {
	if f.Mode.Perm() == 0 {
		return ""
	}
	return octal(f.Mode)
}

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
		if err == nil && ctx.Err() != nil {
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

// together is how many of the first files share an exec; 0 when the first is to be written alone.
func together(files []sandbox.File) int {
	all, arguments := 0, 0
	for i, f := range files {
		all += len(f.Content)
		arguments += len(f.Name) + 32
		if len(f.Content) > mostTogether || i > 0 && (all > mostOfAll || arguments > mostArguments || i >= mostFiles) {
			return i
		}
	}
	return len(files)
}

func (o operation) writeTogether(ctx context.Context, files []sandbox.File, errs []error, label string) error {
	id, err := o.idOf(label)
	if err != nil {
		return err
	}
	args := []string{id}
	var content []byte
	var sent []int
	dir := "/"
	for i, f := range files {
		if err := checkFile(f); err != nil {
			errs[i] = o.about(f.Name, err)
			continue
		}
		sent = append(sent, i)
		if !path.IsAbs(f.Name) {
			dir = o.dir
		}
		args = append(args, modeText(f), number(int64(len(f.Content))), spell(f.Name))
		content = append(content, f.Content...)
	}
	if len(sent) == 0 {
		return nil
	}
	answer, err := o.run(ctx, job{script: writesScript, part: label, dir: dir, args: args, stdin: content})
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
