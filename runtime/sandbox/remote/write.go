package remote

import (
	"context"
	"errors"
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

// place runs a write.
func (o operation) place(ctx context.Context, name, id string, j job) error {
	j.script = writeScript
	answer, err := o.run(ctx, j)
	if err == nil {
		_, _, err = statusOf(answer)
	}
	o.cleanUp(ctx, err, id, job{
		script: discardScript, part: j.part + "d", dir: j.dir, args: []string{spell(name), id, j.args[len(j.args)-1]},
	})
	return err
}

// cleanUp runs j where err says that the script of the exec id was killed, which cannot clean up itself: as well as it goes.
func (o operation) cleanUp(ctx context.Context, err error, id string, j job) {
	var ended *endedError
	if !errors.As(err, &ended) || ended.exit.Signal == 0 {
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	if _, err := o.run(limited, j); err != nil {
		o.log.Warn("what a killed write left is not removed", "exec", id, "error", err)
	}
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
