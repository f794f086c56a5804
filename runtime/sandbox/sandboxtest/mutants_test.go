package sandboxtest_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

var mutants = []struct {
	name  string
	fails string
	wrap  wrapper
}{
	{"wrong errno", "read/what is missing is ENOENT, a parent that is a file ENOTDIR", of(func(v view) sandbox.Sandbox {
		return readsBy{v, func(v view, ctx context.Context, n string, p sandbox.Part) ([]byte, error) {
			b, err := v.ReadFile(ctx, n, p)
			if errors.Is(err, syscall.ENOTDIR) {
				err = &fs.PathError{Op: "read", Path: n, Err: syscall.ENOENT}
			}
			return b, err
		}}
	})},
	{"an error without a number", "stat/what is missing is ENOENT", of(func(v view) sandbox.Sandbox {
		return statsBy{v, func(v view, ctx context.Context, n string) (sandbox.Info, error) {
			i, err := v.Stat(ctx, n)
			if err != nil {
				err = errors.New(err.Error())
			}
			return i, err
		}}
	})},
	{"a write in place", "write/whoever has the old file open keeps the old content", inPlace(false)},
	{"a write in place, by halves", "write/a reader sees the old content or the new one, whole", inPlace(true)},
	{"a write that replaces links", "write/a link is followed: its target is replaced and it stays", of(func(v view) sandbox.Sandbox {
		return writesBy{v, func(v view, ctx context.Context, n string, b []byte, o sandbox.WriteOptions) error {
			if info, err := os.Lstat(v.at(n)); err == nil && info.Mode().Type() == fs.ModeSymlink {
				_ = os.Remove(v.at(n))
			}
			return v.WriteFile(ctx, n, b, o)
		}}
	})},
	{"a write that forgets the mode", "write/an existing file keeps its mode", of(func(v view) sandbox.Sandbox {
		return writesBy{v, func(v view, ctx context.Context, n string, b []byte, o sandbox.WriteOptions) error {
			o.Mode = cmp.Or(o.Mode, 0o644)
			return v.WriteFile(ctx, n, b, o)
		}}
	})},
	{"a failed write leaves its temporary file", "full/WriteFile on a full disk is ENOSPC, the old content stays, no other file is left", of(func(v view) sandbox.Sandbox {
		return writesBy{v, func(v view, ctx context.Context, n string, b []byte, o sandbox.WriteOptions) error {
			err := v.WriteFile(ctx, n, b, o)
			if err != nil {
				_ = os.WriteFile(v.at(".temporary"), nil, 0o600)
			}
			return err
		}}
	})},
	{"a full disk taken for success", "full/WriteFile on a full disk is ENOSPC, the old content stays, no other file is left", of(func(v view) sandbox.Sandbox {
		return writesBy{v, func(v view, ctx context.Context, n string, b []byte, o sandbox.WriteOptions) error {
			if err := v.WriteFile(ctx, n, b, o); !errors.Is(err, syscall.ENOSPC) {
				return err
			}
			return nil
		}}
	})},
	{"a removal that follows links", "remove/a link goes and its target stays", of(func(v view) sandbox.Sandbox {
		return removesBy{v, func(v view, ctx context.Context, n string, o sandbox.RemoveOptions) error {
			if target, err := filepath.EvalSymlinks(v.at(n)); err == nil && o.Recursive {
				_ = os.RemoveAll(target)
			}
			return v.Remove(ctx, n, o)
		}}
	})},
	{"a removal of the working directory", "remove/the root, Dir and what is above it are EBUSY", of(func(v view) sandbox.Sandbox {
		return removesBy{v, func(v view, ctx context.Context, n string, o sandbox.RemoveOptions) error {
			err := v.Remove(ctx, n, o)
			if errors.Is(err, syscall.EBUSY) && o.Recursive {
				return nil
			}
			return err
		}}
	})},
	{"absence as an error", "stat/absence is never an error of Exists", of(func(v view) sandbox.Sandbox {
		return existsBy{v, func(v view, _ context.Context, n string) (bool, error) {
			_, err := os.Lstat(v.at(n))
			if errors.Is(err, fs.ErrNotExist) {
				return false, nil
			}
			return err == nil, err
		}}
	})},
	{"a permission taken for absence", "denied/a directory that may not be searched is EACCES to all that is below", of(func(v view) sandbox.Sandbox {
		return existsBy{v, func(v view, ctx context.Context, n string) (bool, error) {
			is, _ := v.Exists(ctx, n)
			return is, nil
		}}
	})},
	{"an unsorted listing", "readdir/a listing is sorted by bytes, without . and ..", of(func(v view) sandbox.Sandbox {
		return listsBy{v, func(v view, ctx context.Context, n string) ([]sandbox.Info, error) {
			all, err := v.ReadDir(ctx, n)
			slices.SortFunc(all, func(a, b sandbox.Info) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
			return all, err
		}}
	})},
	{"names trimmed", "names/a name with a trailing space", of(func(v view) sandbox.Sandbox {
		return listsBy{v, func(v view, ctx context.Context, n string) ([]sandbox.Info, error) {
			all, err := v.ReadDir(ctx, n)
			for i := range all {
				all[i].Name = strings.TrimSpace(all[i].Name)
			}
			return all, err
		}}
	})},
	{"names read by line", "names/a name with a newline", of(func(v view) sandbox.Sandbox {
		return listsBy{v, func(v view, ctx context.Context, n string) ([]sandbox.Info, error) {
			all, err := v.ReadDir(ctx, n)
			for i := range all {
				all[i].Name, _, _ = strings.Cut(all[i].Name, "\n")
			}
			return all, err
		}}
	})},
	{"names made UTF-8", "names/a name with a byte that is no UTF-8", of(func(v view) sandbox.Sandbox {
		return listsBy{v, func(v view, ctx context.Context, n string) ([]sandbox.Info, error) {
			all, err := v.ReadDir(ctx, n)
			for i := range all {
				all[i].Name = strings.ToValidUTF8(all[i].Name, "\uFFFD")
			}
			return all, err
		}}
	})},
	{"the umask in a mode", "mkdir/a directory is made with 0755, or the mode asked, whatever the umask", of(func(v view) sandbox.Sandbox {
		return mkdirsBy{v, func(v view, ctx context.Context, n string, o sandbox.MkdirOptions) error {
			o.Mode &^= 0o022
			return v.Mkdir(ctx, n, o)
		}}
	})},
	{"answers in another order", "batches/StatMany answers in order, each with its own error", of(func(v view) sandbox.Sandbox {
		return manyBy{v, func(v view, ctx context.Context, names []string) ([]sandbox.Stated, error) {
			return v.StatMany(ctx, slices.Sorted(slices.Values(names)))
		}}
	})},
	{"an exit code as an error", "exec/an exit code is a result, never an error", of(func(v view) sandbox.Sandbox {
		return execsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
			r, err := v.Exec(ctx, c)
			if r.Code != 0 && err == nil {
				err = errors.New("exit status")
			}
			return r, err
		}}
	})},
	{"a signal's number lost", "exec/death by signal n is 128 + n", of(func(v view) sandbox.Sandbox {
		return execsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
			r, err := v.Exec(ctx, c)
			if r.Signal != 0 {
				r.Code = -1
			}
			return r, err
		}}
	})},
	{"stderr mixed into stdout", "exec/stdout and stderr are apart", of(func(v view) sandbox.Sandbox {
		return execsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
			c.MergeStderr = true
			return v.Exec(ctx, c)
		}}
	})},
	{"the caller's environment", "exec/the environment is the computer's clean one and what was added", of(func(v view) sandbox.Sandbox {
		return execsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
			c.Env = append(slices.Clone(c.Env), "FLYFLEET_SANDBOXTEST_LEAK="+os.Getenv("FLYFLEET_SANDBOXTEST_LEAK"))
			return v.Exec(ctx, c)
		}}
	})},
	{"a cancelled command runs on", "exec/the end of the context is TERM to the group, and its cause", of(func(v view) sandbox.Sandbox {
		return execsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
			p, err := v.Start(ctx, c)
			if err != nil {
				return sandbox.Result{}, err
			}
			var r sandbox.Result
			r.Exit, err = p.Follow(ctx, sandbox.Offsets{}, func(o sandbox.Output) error {
				r.Stdout = append(r.Stdout, o.Data...)
				return nil
			})
			return r, err
		}}
	})},
	{"the last words lost", "follow/Follow ends with the exit after all output", followsBy(
		func(p sandbox.Process, ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
			var held *sandbox.Output
			return p.Follow(ctx, from, func(o sandbox.Output) error {
				if held != nil {
					if err := take(*held); err != nil {
						return err
					}
				}
				o.Data = bytes.Clone(o.Data)
				held = &o
				return nil
			})
		})},
	{"offsets that begin at 0 again", "follow/from any offset come the bytes from there on", followsBy(
		func(p sandbox.Process, ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
			return p.Follow(ctx, from, func(o sandbox.Output) error {
				o.Offset -= from.Stdout
				return take(o)
			})
		})},
	{"a piece given twice", "follow/from any offset come the bytes from there on", followsBy(
		func(p sandbox.Process, ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
			return p.Follow(ctx, from, func(o sandbox.Output) error { return errors.Join(take(o), take(o)) })
		})},
	{"text cut anywhere", "follow/text is not cut inside a character", followsBy(
		func(p sandbox.Process, ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
			return p.Follow(ctx, from, func(o sandbox.Output) error {
				half := o
				half.Data = o.Data[:len(o.Data)/2]
				o.Offset, o.Data = o.Offset+int64(len(half.Data)), o.Data[len(half.Data):]
				if len(half.Data)%10 == 0 {
					half.Data, o.Offset, o.Data = append(half.Data, o.Data[0]), o.Offset+1, o.Data[1:]
				}
				return errors.Join(take(half), take(o))
			})
		})},
	{"output only at the end", "follow/output comes while the command runs", followsBy(
		func(p sandbox.Process, ctx context.Context, from sandbox.Offsets, take func(sandbox.Output) error) (sandbox.Exit, error) {
			exit, err := p.Follow(ctx, from, func(sandbox.Output) error { return nil })
			if err != nil {
				return exit, err
			}
			return p.Follow(ctx, from, take)
		})},
	{"a taker that holds all up", "follow/a taker that stops holds itself up alone", oneAtATime()},
	{"a command started for each Start", "follow/started again under its id it is the same command, running or ended", of(func(v view) sandbox.Sandbox {
		return startsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
			c.ID = ""
			return v.Start(ctx, c)
		}}
	})},
	{"another life not noticed", "follow/an unknown id under another epoch is lost and not started", of(func(v view) sandbox.Sandbox {
		return startsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
			c.IfEpoch = ""
			return v.Start(ctx, c)
		}}
	})},
	{"a Forbid that only says so", "follow/Forbid makes an id one that never starts", of(func(v view) sandbox.Sandbox {
		return forbidsBy{v, func(view, context.Context, string) (bool, error) { return true, nil }}
	})},
	{"a limit that nobody keeps", "limits/the computer ends a command after its Timeout, followed or not", of(func(v view) sandbox.Sandbox {
		return startsBy{v, func(v view, ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
			c.Timeout = 0
			return v.Start(ctx, c)
		}}
	})},
	{"Once that does it twice", "once/WriteFile repeated gives the first answer and changes nothing", of(func(v view) sandbox.Sandbox {
		return onceBy{v, func(v view, _ string) sandbox.Sandbox { return v.wrap(v.Sandbox) }}
	})},
	{"Once that runs it twice", "once/Exec repeated gives the first answer and changes nothing", of(func(v view) sandbox.Sandbox {
		return onceBy{v, func(v view, _ string) sandbox.Sandbox { return v.wrap(v.Sandbox) }}
	})},
	{"Once that forgets errors", "once/a Mkdir that fails repeated gives the first answer and changes nothing", of(func(v view) sandbox.Sandbox {
		return mkdirsBy{v, func(v view, ctx context.Context, n string, o sandbox.MkdirOptions) error {
			err := v.Mkdir(ctx, n, o)
			if err != nil {
				return v.Sandbox.Once("").Mkdir(ctx, n, o)
			}
			return nil
		}}
	})},
	{"an archive unpacked as it says", "trees/a name with .. is refused", unpacksAnything()},
	{"an archive unpacked through links", "trees/an entry through a link of the archive is refused", unpacksAnything()},
	{"setuid bits from an archive", "trees/modes are applied whatever the umask, setuid bits dropped", unpacksAnything()},
	{"progress at every write", "trees/Progress is told sparsely, rising, and once at the end", of(func(v view) sandbox.Sandbox {
		return readTrees{v, func(v view, ctx context.Context, n string, w io.Writer, o sandbox.TreeOptions) error {
			return v.ReadTree(ctx, n, &chatty{w: w, tell: o.Progress}, sandbox.TreeOptions{})
		}}
	})},
	{"a tree without what cannot be read, untold", "denied/ReadTree reads what it may and tells the rest at the end", of(func(v view) sandbox.Sandbox {
		return readTrees{v, func(v view, ctx context.Context, n string, w io.Writer, o sandbox.TreeOptions) error {
			_ = v.ReadTree(ctx, n, w, o)
			return nil
		}}
	})},
}
