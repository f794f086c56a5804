package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"path"
	"strconv"
	"strings"
)

func (t *there) mkdirs(ctx context.Context, names []string) error {
	for len(names) > 0 {
		n, args := take(len(names), func(i int) []string { return []string{spell(names[i])} })
		if _, err := t.run(ctx, mkdirsScript, nil, 0, args...); err != nil {
			return err
		}
		names = names[n:]
	}
	return nil
}

// writeMany unpacks an archive beside the targets and moves what came out of it, a directory at a time.
func (t *there) writeMany(ctx context.Context, stage string, files []content, _ func(string, error)) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	at := map[string]int{}
	var directories []string
	for _, f := range files {
		parent := parentOf(f.name)
		k, known := at[parent]
		if !known {
			k = len(directories)
			at[parent], directories = k, append(directories, parent)
		}
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: strconv.Itoa(k) + "/" + path.Base(f.name), Size: int64(len(f.data)),
			Mode: int64(f.mode), ModTime: f.modified, Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	args := []string{spell(stage)}
	for _, d := range directories {
		args = append(args, spell(d))
	}
	_, err := t.run(ctx, batchScript, archive.Bytes(), 0, args...)
	return err
}

func (t *there) write(ctx context.Context, part string, offset int64, data []byte, first bool) error {
	fresh := "no"
	if first {
		fresh = "yes"
	}
	_, err := t.run(ctx, pieceScript, data, 0, spell(part), strconv.FormatInt(offset/align, 10), strconv.Itoa(len(data)), fresh)
	return err
}

// differs is the exit code of finishScript for another hash.
const differs = 3

func (t *there) finish(ctx context.Context, part string, e entry, sum string) error {
	_, err := t.run(ctx, finishScript, nil, 0, spell(part), spell(e.name), octal(e), strconv.FormatInt(e.modified.Unix(), 10), sum)
	var script *scriptError
	if errors.As(err, &script) && script.code == differs {
		return errDiffers
	}
	return err
}

func octal(e entry) string { return strconv.FormatUint(uint64(e.mode), 8) }

func (t *there) link(ctx context.Context, entries []entry, failed func(string, error)) error {
	part := spell(partPrefix + t.tag + "-link")
	return t.each(ctx, entries, failed, linkScript, []string{part}, func(e entry) []string { return []string{e.target, spell(e.name)} })
}

func (t *there) touch(ctx context.Context, entries []entry, failed func(string, error)) error {
	return t.each(ctx, entries, failed, touchScript, nil, func(e entry) []string {
		return []string{octal(e), strconv.FormatInt(e.modified.Unix(), 10), spell(e.name)}
	})
}

// each runs a script over entries that answers "NUMBER WHY" for each that failed.
func (t *there) each(ctx context.Context, entries []entry, failed func(string, error), script string, before []string, arguments func(entry) []string) error {
	for len(entries) > 0 {
		n, args := take(len(entries), func(i int) []string { return arguments(entries[i]) })
		r, err := t.run(ctx, script, nil, mostListing, append(before[:len(before):len(before)], args...)...)
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(string(r.Stdout), "\x00"), "\x00") {
			number, why, _ := strings.Cut(line, " ")
			if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < n {
				failed(entries[i].name, &scriptError{said: "the machine: " + firstLine([]byte(why))})
			}
		}
		entries = entries[n:]
	}
	return nil
}

func (t *there) sweep(ctx context.Context, prefix string) error {
	_, err := t.run(ctx, sweepScript, nil, 0, spell(prefix))
	return err
}
