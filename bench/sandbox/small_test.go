package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/bench/control"
)

// BenchmarkWriteSmall prints write_small_200: WriteFiles of 200 new files of 1 KiB into a directory that is new too; write_into_200:
// into one that is there; and replace_small_200: over files that are there, which a file system may first write out. The floor of
// all is one exec over the same wire. Beside them unpack_small_200 is what tar alone takes for the same files on the same disk
// without a wire, so that a disk's share can be told from ours.
func BenchmarkWriteSmall(b *testing.B) { writeSmall(b, open(b), "") }

// BenchmarkWriteSmallOnVolume prints the same with _volume behind the names, on a file system like a machine's volume: ext4 of its own,
// with a journal. The disk of the temporary directory has other users; and where ext4 has no journal, it steps over each inode
// that anybody freed in the last minutes when it looks for a new one.
func BenchmarkWriteSmallOnVolume(b *testing.B) {
	dir, err := volume(b)
	if err != nil {
		fmt.Fprintf(os.Stdout, "\n--- not measured: write_small_200_volume: %v\n", err)
		return
	}
	writeSmall(b, openOn(b, control.StartIn(b, dir)), "_volume")
}

func writeSmall(b *testing.B, x *box, where string) {
	b.Helper()
	ctx := b.Context()
	write := func(dir string) error {
		list, _ := files(dir, 200, 1<<10)
		return x.writeAll(ctx, list)
	}
	round := 0
	fresh := func(kind string) string {
		round++
		return fmt.Sprintf("%s-%d", kind, round)
	}
	against(b, "write_small_200"+where, shortRounds, func() error { return write(fresh("new")) }, x.exec(ctx))
	for k := range shortRounds + 1 {
		list, _ := files(fmt.Sprintf("into-%d", round+1+k), 1, 0)
		list[0].Name += "-other"
		if err := x.writeAll(ctx, list); err != nil {
			b.Fatal(err)
		}
	}
	against(b, "write_into_200"+where, shortRounds, func() error { return write(fresh("into")) }, x.exec(ctx))
	against(b, "replace_small_200"+where, rounds, func() error { return write("new-1") }, x.exec(ctx))
	archive := filepath.Join(b.TempDir(), "archive")
	if out, err := exec.CommandContext(ctx, "tar", "-cf", archive, "-C", filepath.Join(x.dir, "new-1"), ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	against(b, "unpack_small_200"+where, shortRounds, func() error { return unpack(ctx, archive, filepath.Join(x.dir, fresh("bare"))) }, x.exec(ctx))
}

// unpack is tar by itself.
func unpack(ctx context.Context, archive, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return exec.CommandContext(ctx, "tar", "-xof", archive, "-C", dir).Run()
}

// volume makes a file system of 1 GiB in a file and mounts it until the benchmark ends. The error says why it cannot.
func volume(b *testing.B) (string, error) {
	b.Helper()
	if os.Geteuid() != 0 {
		return "", errors.New("only root may mount it")
	}
	file := filepath.Join(b.TempDir(), "volume")
	dir := b.TempDir()
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<30)); err != nil {
		b.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-E", "lazy_itable_init=0", file}, {"mount", "-o", "loop", file, dir}} {
		if out, err := exec.CommandContext(b.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", command[0], err, out)
		}
	}
	b.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "umount", dir).CombinedOutput(); err != nil {
			b.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir, nil
}
