package remote

import (
	"archive/tar"
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// newMode is that of a file that was not there and has been given none.
const newMode = 0o644

// batchFile is a file of a batch.
type batchFile struct {
	index int
	name  string // clean, as scripts get it
	stage int    // of the batch's directories
	mode  int64
	keep  bool // mode is a guess: it is to be what the file has
	data  []byte
}

// batch is files that are unpacked beside where they belong and renamed, a directory at a time: a few programs for all of them.
// A directory's staging has the same name whatever the directory is called, so that two names of one share it, and the archive's order holds.
type batch struct {
	id     string
	files  []batchFile
	stages []string
}

// batchable says whether a name can be in a batch: one that says all by its text.
func batchable(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return base != "" && base != "." && len(base) <= 255 && len(name) < mostName-128 && !climbs(name)
}

// newBatch takes of the files given by their indexes those that can be in a batch; the others are the rest. modes are those that
// files are known to have.
func newBatch(id string, files []sandbox.File, sent []int, modes map[string]int64) (b batch, rest []int) {
	b.id = id
	stages, named, given := map[string]int{}, map[string]bool{}, map[string]int64{}
	for k, i := range sent {
		f := files[i]
		if climbs(f.Name) {
			rest = append(rest, sent[k:]...)
			break
		}
		if !batchable(f.Name) {
			rest = append(rest, i)
			continue
		}
		clean := path.Clean(f.Name)
		stage := path.Join(path.Dir(clean), ".flyfleet-"+id)
		if _, known := stages[stage]; !known {
			stages[stage] = len(b.stages)
			b.stages = append(b.stages, stageOf(stage))
		}
		e := batchFile{index: i, name: spell(clean), stage: stages[stage], mode: int64(f.Mode.Perm()), data: f.Content}
		if e.mode == 0 {
			var known bool
			if e.mode, known = given[clean]; !known {
				if e.mode, known = modes[clean]; !known {
					e.mode, e.keep = newMode, true
				}
			}
		} else {
			given[clean] = e.mode
		}
		named[clean] = true
		b.files = append(b.files, e)
	}
	// A file that is the directory of another: what fails depends on the order.
	for _, stage := range b.stages {
		for dir := path.Dir(path.Clean(stage)); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if named[dir] {
				return batch{}, sent
			}
		}
	}
	return b, rest
}

// stageOf spells a staging directory so that it has a slash.
func stageOf(clean string) string {
	if !strings.Contains(clean, "/") {
		clean = "./" + clean
	}
	return spell(clean)
}

// archive has each file below its staging directory. Where there is but one, the machine chooses where that is.
func (b batch) archive() ([]byte, error) {
	entries := make([]*treeEntry, len(b.files))
	for k, f := range b.files {
		stage := b.stages[f.stage]
		if len(b.stages) == 1 {
			stage = path.Base(stage)
		}
		name := strings.TrimLeft(path.Join(stage, path.Base(f.name)), "/")
		entries[k] = &treeEntry{
			header:  tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode, Size: int64(len(f.data)), Format: tar.FormatGNU},
			content: f.data,
		}
	}
	return archiveOf(entries)
}

func (b batch) args() []string {
	keeps := make([]string, len(b.files))
	args := []string{b.id, number(int64(len(b.files))), ""}
	for k, f := range b.files {
		keeps[k] = "g"
		if f.keep {
			keeps[k] = "k"
		}
		args = append(args, f.name)
	}
	args[2] = strings.Join(keeps, " ") + " "
	return append(args, b.stages...)
}

// writeBatch writes files at once, as far as there is nothing special about them, and returns the indexes of the others, which are as they
// were. The first exec may have learned what is special; the second then has the rest.
func (o operation) writeBatch(ctx context.Context, files []sandbox.File, sent []int, label string) ([]int, error) {
	modes := map[string]int64{}
	var others []int
	for range 2 {
		id, err := o.idOf(label)
		if err != nil {
			return nil, err
		}
		b, rest := newBatch(id, files, sent, modes)
		others = append(others, rest...)
		if len(b.files) == 0 {
			return ordered(others), nil
		}
		words, err := o.runBatch(ctx, b, label)
		switch {
		case err != nil:
			return nil, err
		case words[0] == "done":
			return ordered(others), nil
		case words[0] != "as":
			return ordered(append(others, indexes(b.files)...)), nil
		}
		good, special, err := b.judge(words[1:], modes)
		if err != nil {
			return nil, err
		}
		sent, others, label = good, append(others, special...), label+"again"
	}
	return ordered(append(others, sent...)), nil
}

func indexes(files []batchFile) []int {
	out := make([]int, len(files))
	for k, f := range files {
		out[k] = f.index
	}
	return out
}

func ordered(list []int) []int {
	slices.Sort(list)
	return list
}

// judge parts the files by what the machine says of them, and notes their modes. What follows a link keeps its
// place behind it, as the link may be another name of the same file.
func (b batch) judge(words []string, modes map[string]int64) (good, special []int, err error) {
	if len(words) < len(b.files) {
		return nil, nil, errTorn
	}
	stages, linked := words[len(b.files):], false
	for k, f := range b.files {
		word := words[k]
		linked = linked || word == "l"
		if linked || word == "x" || f.stage < len(stages) && stages[f.stage] == "x" {
			special = append(special, f.index)
			continue
		}
		if word != "." {
			mode, err := strconv.ParseInt(word, 8, 64)
			if err != nil {
				return nil, nil, errTorn
			}
			modes[path.Clean(f.name)] = mode & 0o777
		}
		good = append(good, f.index)
	}
	return good, special, nil
}

// places are where the batch's staging may be: for the files of one directory also beside it, where it is missing.
func (b batch) places() []string {
	if len(b.stages) != 1 {
		return b.stages
	}
	stage := path.Clean(b.stages[0])
	return append(slices.Clip(b.stages), stageOf(path.Join(path.Dir(path.Dir(stage)), path.Base(stage))))
}

// runBatch returns the words of the answer, at least one.
func (o operation) runBatch(ctx context.Context, b batch, label string) ([]string, error) {
	archive, err := b.archive()
	if err != nil {
		return nil, err
	}
	dir := o.start(b.files[0].name)
	answer, err := o.run(ctx, job{script: batchScript, part: label, dir: dir, args: b.args(), stdin: archive})
	o.cleanUp(ctx, err, b.id, job{script: unstageScript, part: label + "d", dir: dir, args: b.places()})
	if err != nil {
		return nil, err
	}
	line, _, err := statusOf(answer)
	if err != nil {
		// The directory itself: told of each file by the script that writes one by one.
		if errors.Is(err, errTorn) {
			return nil, err
		}
		return []string{"again"}, nil
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, errTorn
	}
	return words, nil
}
