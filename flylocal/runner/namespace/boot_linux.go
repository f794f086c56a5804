package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/control"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/guest"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/rootfs"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/stage"
)

const (
	// writableName is the directory, in a machine's own, that takes what it writes outside its volumes.
	writableName = "rootfs"
	// bootTimeout bounds a boot without a deadline of its own; unpacking an image is not counted.
	bootTimeout = 2 * time.Minute
)

// bound makes ctx end what is sent and received on a conversation; the result undoes it.
func bound(ctx context.Context, talk *control.Conversation) func() {
	stop := context.AfterFunc(ctx, func() { _ = talk.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

// Start boots a machine.
func (r *Runner) Start(ctx context.Context, spec runner.Spec) (runner.Instance, error) {
	image, err := r.unpacked(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", spec.ImageRef, err)
	}
	inst, err := r.boot(ctx, spec, image)
	if err != nil {
		return nil, fmt.Errorf("boot machine %s: %w", spec.MachineID, err)
	}
	return inst, nil
}

func (r *Runner) boot(ctx context.Context, spec runner.Spec, image string) (*instance, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	var f files
	defer f.close()
	boot, err := r.bootRequest(&f, spec, image)
	if err != nil {
		return nil, err
	}
	c, err := r.launch(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := c.ask(ctx, stage.Request{Op: stage.OpBoot, Boot: &boot}, &f)
	if err != nil {
		c.destroy()
		return nil, err
	}
	if reply.Copied && !r.options.CopyRoots {
		r.cfg.Log.Warn("no overlay in user namespaces here: the image was copied", "machine", spec.MachineID)
	}
	inst, err := c.startEntrypoint(ctx, r, spec)
	if err != nil {
		c.destroy()
		return nil, err
	}
	return inst, nil
}

// bootRequest makes the directories ready and names them for the stage.
func (r *Runner) bootRequest(f *files, spec runner.Spec, image string) (stage.Boot, error) {
	writable := filepath.Join(spec.Dir, writableName)
	if err := os.MkdirAll(writable, 0o700); err != nil {
		return stage.Boot{}, err
	}
	if err := r.own(writable); err != nil {
		return stage.Boot{}, err
	}
	b := stage.Boot{HostTools: r.cfg.HostTools, CopyRoot: r.options.CopyRoots, Owners: r.mapping.owners(), Hostname: spec.MachineID}
	var err error
	for _, s := range []struct {
		to   *stage.Source
		path string
	}{{&b.Image, image}, {&b.Writable, writable}, {&b.Init, r.executablePath}} {
		if *s.to, err = r.source(f, s.path); err != nil {
			return stage.Boot{}, err
		}
	}
	for _, m := range spec.Mounts {
		err := r.own(m.VolumeDir)
		if err == nil {
			err = openFresh(m.VolumeDir)
		}
		if err != nil {
			return stage.Boot{}, fmt.Errorf("volume %s: %w", m.VolumeID, err)
		}
		src, err := r.source(f, m.VolumeDir)
		if err != nil {
			return stage.Boot{}, fmt.Errorf("volume %s: %w", m.VolumeID, err)
		}
		b.Mounts = append(b.Mounts, stage.Mount{Source: src, Path: m.Path})
	}
	b.Bubblewrap = f.add(r.bubblewrap)
	return b, nil
}

// openFresh lets every user of the machine enter a new volume, as on Fly. What a machine has made of it is kept. On the
// host the directories above keep others out.
func openFresh(volume string) error {
	f, err := os.Open(volume)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Readdirnames(1); !errors.Is(err, io.EOF) {
		return err
	}
	return f.Chmod(0o755)
}

// startEntrypoint talks to the init that the stage has become.
func (c *child) startEntrypoint(ctx context.Context, r *Runner, spec runner.Spec) (*instance, error) {
	talk, err := c.line.Open()
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	stop := bound(ctx, talk)
	start := r.startRequest(spec)
	err = talk.Send(guest.Request{Op: guest.OpStart, Start: &start})
	var reply guest.Reply
	var got []*os.File
	if err == nil {
		got, err = talk.Receive(&reply)
	}
	stop()
	switch {
	case err != nil:
		err = c.failure(ctx, err)
	case reply.Error != "":
		err = errors.New(reply.Error)
	case len(got) != 2:
		err = fmt.Errorf("the init sent %d files", len(got))
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	default:
		return newInstance(r, spec, c, talk, got[0], got[1]), nil //nolint:contextcheck // ctx bounds the boot, not the machine
	}
	talk.Close()
	for _, f := range got {
		f.Close()
	}
	return nil, err
}

func (r *Runner) startRequest(spec runner.Spec) guest.Start {
	s := guest.Start{
		Argv: spec.Argv, Env: spec.Env, User: spec.User, WorkDir: spec.WorkDir, Owners: r.mapping.owners(),
		Hostname: spec.MachineID, App: spec.App, PrivateIP: spec.PrivateIP,
	}
	for _, f := range spec.Files {
		s.Files = append(s.Files, guest.File{Path: f.Path, Content: f.Content, Mode: f.Mode})
	}
	for _, e := range r.cfg.Egress {
		s.Egress = append(s.Egress, e.Inside)
	}
	return s
}

// unpacked returns the image's cached root.
func (r *Runner) unpacked(ctx context.Context, spec runner.Spec) (string, error) {
	if spec.Image == nil {
		return "", errors.New("there is no image")
	}
	return r.images.Get(ctx, spec.ImageDigest, func(dir string) error {
		layers, err := spec.Image.Layers()
		if err != nil {
			return fmt.Errorf("list the layers: %w", err)
		}
		var sources []rootfs.Layer
		for _, l := range layers {
			sources = append(sources, l)
		}
		report, err := r.unpack(ctx, dir, sources)
		if err == nil {
			r.cfg.Log.Info("image unpacked", "image", spec.ImageRef, "bytes", report.Bytes, "entries", report.Entries, "skipped", report.Skipped)
		}
		return err
	})
}

// unpack applies the layers inside a namespace: this process reads and verifies them, a stage writes the files.
func (r *Runner) unpack(ctx context.Context, dir string, layers []rootfs.Layer) (rootfs.Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.own(dir); err != nil {
		return rootfs.Report{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return rootfs.Report{}, err
	}
	var f files
	defer f.close()
	into, err := r.source(&f, dir)
	if err != nil {
		return rootfs.Report{}, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return rootfs.Report{}, err
	}
	defer write.Close()
	defer read.Close()
	c, err := r.launch(ctx)
	if err != nil {
		return rootfs.Report{}, err
	}
	defer c.destroy()
	request := stage.Unpack{Into: into, Layers: f.add(read), Options: rootfs.Options{Owners: r.mapping.owners()}}
	written := make(chan error, 1)
	go func() {
		err := rootfs.WriteLayers(write, layers)
		write.Close()
		if err != nil && !errors.Is(err, os.ErrClosed) {
			cancel(err)
		}
		written <- err
	}()
	reply, err := c.ask(ctx, stage.Request{Op: stage.OpUnpack, Unpack: &request}, &f)
	read.Close()
	c.destroy() // the pipe's last reader goes, and with it a writer that nobody reads
	werr := <-written
	return reply.Unpacked, errors.Join(err, werr)
}

// probe boots a machine from an empty image, whose entrypoint is the init itself.
func (r *Runner) probe(ctx context.Context) error {
	dir := filepath.Join(r.dir, "probe")
	image := filepath.Join(dir, "image")
	if err := os.MkdirAll(image, 0o755); err != nil {
		return err
	}
	if err := r.own(image); err != nil {
		return err
	}
	inst, err := r.boot(ctx, runner.Spec{MachineID: "probe", Dir: dir, Argv: []string{stage.InitPath}}, image)
	if err != nil {
		return err
	}
	if exit := inst.Wait(); exit.Code != 0 {
		return fmt.Errorf("a machine without an image exited %d", exit.Code)
	}
	return r.Cleanup(ctx, dir)
}
