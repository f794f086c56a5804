package engine

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/machineconf"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/rawjson"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// pulledImage is an image with what its reference resolved to.
type pulledImage struct {
	ref   state.ImageRef
	image v1.Image
}

// pull fetches a machine's image: by the digest it resolved to before, else by the reference in its config.
func (w *World) pull(ctx context.Context, m *machine) (pulledImage, error) {
	w.mu.Lock()
	ref := m.conf().Image
	if m.Image.Digest != "" {
		ref = m.Image.String()
	}
	for key, words := range w.faults.Pull {
		if strings.Contains(ref, key) {
			w.mu.Unlock()
			return pulledImage{}, errors.New("pull " + ref + ": " + words)
		}
	}
	w.mu.Unlock()
	resolved, image, err := w.images.Pull(ctx, ref)
	return pulledImage{ref: resolved, image: image}, err
}

// spec resolves a machine into what its runner needs.
func (w *World) spec(m *machine, pulled pulledImage, fresh bool) (runner.Spec, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	conf := m.conf()
	guest, err := conf.ResolvedGuest()
	if err != nil {
		return runner.Spec{}, err
	}
	m.Image = pulled.ref
	spec := runner.Spec{
		App: m.App, MachineID: m.ID, InstanceID: m.InstanceID, Network: w.networkOf(m), Region: m.Region, PrivateIP: m.PrivateIP,
		MemoryMB: guest.MemoryMB, Dir: w.store.MachineDir(m.ID), Fresh: fresh,
		ImageRef: pulled.ref.String(), ImageDigest: pulled.ref.Digest, Image: pulled.image,
	}
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return runner.Spec{}, err
	}
	var image v1.Config
	if pulled.image != nil {
		file, err := pulled.image.ConfigFile()
		if err != nil {
			return runner.Spec{}, err
		}
		image = file.Config
	}
	spec.Argv, spec.User, spec.WorkDir = argv(conf, image), image.User, image.WorkingDir
	if len(spec.Argv) == 0 && pulled.image != nil {
		return runner.Spec{}, errors.New("image " + spec.ImageRef + " has no entrypoint or command, and config.init names none")
	}
	spec.Env = w.environment(m, conf, image, spec)
	for _, mount := range m.Mounts {
		spec.Mounts = append(spec.Mounts, runner.Mount{VolumeID: mount.VolumeID, VolumeDir: w.store.VolumeDir(mount.VolumeID), Path: mountPath(conf, mount)})
	}
	spec.Files, err = files(m, conf)
	return spec, err
}

func (w *World) networkOf(m *machine) string {
	if a := w.apps[m.App]; a != nil {
		return a.Network
	}
	return DefaultNetwork
}

func mountPath(conf *machineconf.Config, mount state.Mount) string {
	for _, want := range conf.Mounts {
		if want.Volume == mount.VolumeID {
			return want.Path
		}
	}
	return mount.Path
}

// argv joins entrypoint and arguments as Fly's init does: exec replaces all, entrypoint and cmd replace their own
// part of the image's.
func argv(conf *machineconf.Config, image v1.Config) []string {
	if len(conf.Init.Exec) > 0 {
		return conf.Init.Exec
	}
	entrypoint, cmd := image.Entrypoint, image.Cmd
	if len(conf.Init.Entrypoint) > 0 {
		entrypoint = conf.Init.Entrypoint
	}
	if len(conf.Init.Cmd) > 0 {
		cmd = conf.Init.Cmd
	}
	return slices.Concat(entrypoint, cmd)
}

// environment is the image's, then Fly's own names, then the secrets, then the machine's; the later one wins.
func (w *World) environment(m *machine, conf *machineconf.Config, image v1.Config, spec runner.Spec) []string {
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, pair := range image.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	for _, secret := range m.Secrets {
		env[secret.Name] = secret.Value
	}
	maps.Copy(env, conf.Env)
	maps.Copy(env, map[string]string{
		"FLY_APP_NAME": m.App, "FLY_MACHINE_ID": m.ID, "FLY_ALLOC_ID": m.ID, "FLY_REGION": m.Region,
		"FLY_IMAGE_REF": spec.ImageRef, "FLY_MACHINE_VERSION": m.InstanceID, "FLY_PRIVATE_IP": m.PrivateIP.String(),
		"FLY_VM_MEMORY_MB": strconv.Itoa(spec.MemoryMB), "PRIMARY_REGION": m.Region,
	})
	if group := conf.Metadata["fly_process_group"]; group != "" {
		env["FLY_PROCESS_GROUP"] = group
	}
	out := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}

func files(m *machine, conf *machineconf.Config) ([]runner.File, error) {
	var out []runner.File
	for _, f := range conf.Files {
		encoded := ""
		switch {
		case f.RawValue != nil:
			encoded = *f.RawValue
		case f.SecretName != nil:
			i := slices.IndexFunc(m.Secrets, func(s state.Secret) bool { return s.Name == *f.SecretName })
			if i < 0 {
				return nil, errors.New("file " + f.GuestPath + ": no secret named " + *f.SecretName)
			}
			encoded = m.Secrets[i].Value
		}
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, errors.New("file " + f.GuestPath + ": value is not base64")
		}
		mode := fs.FileMode(f.Mode) & fs.ModePerm
		if mode == 0 {
			mode = 0o644
		}
		out = append(out, runner.File{Path: f.GuestPath, Content: content, Mode: mode})
	}
	return out, nil
}

// running answers the instance of a started machine. Call without the lock.
func (w *World) running(app, id, what string) (runner.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.live(app, id)
	if err != nil {
		return nil, err
	}
	if m.State != state.Started || m.inst == nil {
		// Assumption: Fly's text for a command on a machine that is down is not in any source.
		return nil, precondition("unable to %s, machine is not started, currently %s", what, m.State)
	}
	return m.inst, nil
}

// maxExec is the longest a command may take.
const maxExec = 10 * time.Minute

// Exec runs a command in a started machine.
func (w *World) Exec(ctx context.Context, app, id string, req runner.ExecRequest) (runner.ExecResult, error) {
	inst, err := w.running(app, id, "exec")
	if err != nil {
		return runner.ExecResult{}, err
	}
	if len(req.Argv) == 0 {
		return runner.ExecResult{}, invalid("a command is required")
	}
	if req.Timeout <= 0 || req.Timeout > maxExec {
		req.Timeout = maxExec
	}
	result, err := inst.Exec(ctx, req)
	switch {
	case errors.Is(err, runner.ErrDown):
		return result, precondition("unable to exec, machine went down")
	case err != nil:
		return result, refuse(http.StatusInternalServerError, "internal: exec: %s", err)
	case result.TimedOut:
		return result, refuse(http.StatusRequestTimeout, "deadline_exceeded: command did not end within %s", req.Timeout)
	}
	return result, nil
}

// Ps lists the processes of a started machine.
func (w *World) Ps(ctx context.Context, app, id string) ([]runner.Process, error) {
	inst, err := w.running(app, id, "list processes")
	if err != nil {
		return nil, err
	}
	processes, err := inst.Ps(ctx)
	if errors.Is(err, runner.ErrNoProcess) {
		return nil, nil
	}
	return processes, err
}

// Dial connects to a port inside a started machine.
func (w *World) Dial(ctx context.Context, app, id string, port int) (net.Conn, error) {
	inst, err := w.running(app, id, "connect")
	if err != nil {
		return nil, err
	}
	return inst.Dial(ctx, port)
}

// Metadata answers a machine's metadata.
func (w *World) Metadata(app, id string) (map[string]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.live(app, id)
	if err != nil {
		return nil, err
	}
	if metadata := m.conf().Metadata; metadata != nil {
		return metadata, nil
	}
	return map[string]string{}, nil
}

// SetMetadata writes metadata straight through: no new version, no restart, no lease needed. An empty value removes
// its key. With replace, keys that are not given go. A version that is not the current one is refused with 412.
func (w *World) SetMetadata(app, id string, values map[string]string, replace bool, version string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m, err := w.live(app, id)
	if err != nil {
		return err
	}
	if version != "" && version != m.InstanceID {
		return precondition("machine version %s is not current, the current one is %s", version, m.InstanceID)
	}
	current := m.conf().Metadata
	raw := m.Config
	change := func(key, value string) {
		switch {
		case err != nil:
		case value == "":
			raw, err = rawjson.Delete(raw, "metadata", key)
		case current[key] != value:
			raw, err = rawjson.Set(raw, rawjson.String(value), "metadata", key)
		}
	}
	if replace {
		for _, key := range slices.Sorted(maps.Keys(current)) {
			if _, kept := values[key]; !kept {
				change(key, "")
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		change(key, values[key])
	}
	if err != nil {
		return invalid("metadata: %s", err)
	}
	m.Config = raw
	w.touch(m)
	return nil
}
