package flylocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/state"
)

// Remove deletes a state directory with everything in it. Machines leave files of other user ids than the caller's, so
// an ordinary user's rm cannot. A directory that a platform holds is refused; one that is not there is no error.
func Remove(ctx context.Context, dir string, log *slog.Logger) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	store, err := state.Open(dir)
	if err != nil {
		return fmt.Errorf("flylocal: %w", err)
	}
	err = errors.Join(removeData(ctx, store, log), store.Close())
	if err != nil {
		return fmt.Errorf("flylocal: remove %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// removeData removes what machines may have written, by the runner that can: the file system says which files are whose.
func removeData(ctx context.Context, store *state.Store, log *slog.Logger) error {
	cache := filepath.Join(store.Dir(), "cache")
	if err := errors.Join(os.RemoveAll(store.DataDir()), os.RemoveAll(cache)); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	r, err := pickRunner(ctx, "", runner.Config{StateDir: store.Dir(), CacheDir: cache, Log: log})
	if err != nil {
		return err
	}
	for _, part := range []string{store.DataDir(), cache} {
		err = errors.Join(err, r.RemoveVolume(ctx, part))
	}
	return errors.Join(err, r.Close())
}
