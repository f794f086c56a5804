package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

// onceVerb is one verb under Once: what it does, what others do to the world after it, and how the world must
// then stay when the call is repeated.
type onceVerb struct {
	name   string
	before func(t *trial)
	// do returns the answer as text, the error in it.
	do     func(t *trial, box sandbox.Sandbox) string
	others func(t *trial)
	stays  func(t *trial)
	// unlike is another call of the same verb, for the conflict; nil where it would be the same.
	unlike func(t *trial, box sandbox.Sandbox) error
}

func answer(value any, err error) string { return fmt.Sprintf("%+v; %v", value, err) }

func nothing(*trial) {}

var onceVerbs = []onceVerb{
	{
		name:   "WriteFile",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			return answer(nil, box.WriteFile(t.ctx, "f", []byte("first"), sandbox.WriteOptions{}))
		},
		others: func(t *trial) { t.put("f", "another's") },
		stays:  func(t *trial) { t.holds("f", "another's") },
		unlike: func(t *trial, box sandbox.Sandbox) error {
			return box.WriteFile(t.ctx, "f", []byte("other content"), sandbox.WriteOptions{})
		},
	},
	{
		name:   "WriteFiles",
		before: func(t *trial) { t.put("file", "x") },
		do: func(t *trial, box sandbox.Sandbox) string {
			return answer(box.WriteFiles(t.ctx, []sandbox.File{{Name: "a", Content: []byte("1")}, {Name: "file/x"}, {Name: "b", Content: []byte("2")}}))
		},
		others: func(t *trial) { t.put("a", "another's"); t.ok(t.box.Remove(t.ctx, "b", plainly)) },
		stays:  func(t *trial) { t.holds("a", "another's"); t.there("b", false) },
		unlike: func(t *trial, box sandbox.Sandbox) error {
			_, err := box.WriteFiles(t.ctx, []sandbox.File{{Name: "a", Content: []byte("3")}})
			return err
		},
	},
	{
		name:   "Mkdir",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			return answer(nil, box.Mkdir(t.ctx, "d", sandbox.MkdirOptions{}))
		},
		others: func(t *trial) { t.ok(t.box.Remove(t.ctx, "d", plainly)) },
		stays:  func(t *trial) { t.there("d", false) },
		unlike: func(t *trial, box sandbox.Sandbox) error {
			return box.Mkdir(t.ctx, "e", sandbox.MkdirOptions{})
		},
	},
	{
		name:   "a Mkdir that fails",
		before: func(t *trial) { t.put("d", "in the way") },
		do: func(t *trial, box sandbox.Sandbox) string {
			err := box.Mkdir(t.ctx, "d", sandbox.MkdirOptions{})
			t.errno(err, "d", syscall.EEXIST)
			return answer(nil, err)
		},
		others: func(t *trial) { t.ok(t.box.Remove(t.ctx, "d", plainly)) },
		stays:  func(t *trial) { t.there("d", false) },
	},
	{
		name:   "Remove",
		before: func(t *trial) { t.put("f", "first") },
		do: func(t *trial, box sandbox.Sandbox) string {
			return answer(nil, box.Remove(t.ctx, "f", allOfIt))
		},
		others: func(t *trial) { t.put("f", "another's") },
		stays:  func(t *trial) { t.holds("f", "another's") },
		unlike: func(t *trial, box sandbox.Sandbox) error { return box.Remove(t.ctx, "f", plainly) },
	},
	{
		name:   "ReadFile",
		before: func(t *trial) { t.put("f", "first") },
		do: func(t *trial, box sandbox.Sandbox) string {
			content, err := box.ReadFile(t.ctx, "f", sandbox.Part{})
			said := answer(string(content), err)
			// The bytes are the caller's.
			copy(content, "XXXXX")
			return said
		},
		others: func(t *trial) { t.put("f", "another's") },
		stays:  func(t *trial) { t.holds("f", "another's") },
		unlike: func(t *trial, box sandbox.Sandbox) error {
			_, err := box.ReadFile(t.ctx, "f", sandbox.Part{Limit: 1})
			return err
		},
	},
	{
		name:   "a ReadFile that fails",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			content, err := box.ReadFile(t.ctx, "f", sandbox.Part{})
			t.errno(err, "f", syscall.ENOENT)
			return answer(string(content), err)
		},
		others: func(t *trial) { t.put("f", "now it is there") },
		stays:  func(t *trial) { t.holds("f", "now it is there") },
	},
	{
		name:   "ReadFiles",
		before: func(t *trial) { t.put("f", "first") },
		do: func(t *trial, box sandbox.Sandbox) string {
			return answer(box.ReadFiles(t.ctx, []string{"f", "missing"}, 0))
		},
		others: func(t *trial) { t.put("f", "another's"); t.put("missing", "no more") },
		stays:  nothing,
		unlike: func(t *trial, box sandbox.Sandbox) error {
			_, err := box.ReadFiles(t.ctx, []string{"f"}, 0)
			return err
		},
	},
	{
		name:   "Stat",
		before: func(t *trial) { t.put("f", "first") },
		do:     func(t *trial, box sandbox.Sandbox) string { return answer(box.Stat(t.ctx, "f")) },
		others: func(t *trial) { t.put("f", "another's") },
		stays:  nothing,
		unlike: func(t *trial, box sandbox.Sandbox) error { _, err := box.Stat(t.ctx, "g"); return err },
	},
	{
		name:   "StatMany",
		before: func(t *trial) { t.put("f", "first") },
		do: func(t *trial, box sandbox.Sandbox) string {
			return answer(box.StatMany(t.ctx, []string{"f", "missing"}))
		},
		others: func(t *trial) { t.put("f", "another's"); t.put("missing", "no more") },
		stays:  nothing,
		unlike: func(t *trial, box sandbox.Sandbox) error { _, err := box.StatMany(t.ctx, []string{"f"}); return err },
	},
	{
		name:   "Exists",
		before: nothing,
		do:     func(t *trial, box sandbox.Sandbox) string { return answer(box.Exists(t.ctx, "f")) },
		others: func(t *trial) { t.put("f", "now it is there") },
		stays:  nothing,
		unlike: func(t *trial, box sandbox.Sandbox) error { _, err := box.Exists(t.ctx, "g"); return err },
	},
	{
		name:   "ReadDir",
		before: func(t *trial) { t.put("d/f", "first") },
		do:     func(t *trial, box sandbox.Sandbox) string { return answer(box.ReadDir(t.ctx, "d")) },
		others: func(t *trial) { t.put("d/g", "another's") },
		stays:  nothing,
		unlike: func(t *trial, box sandbox.Sandbox) error { _, err := box.ReadDir(t.ctx, "."); return err },
	},
	{
		name:   "Exec",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			r, err := box.Exec(t.ctx, shell(`echo ran >> log; wc -l < log; echo err >&2; exit 3`))
			r.ID = ""
			return answer(fmt.Sprintf("%q %q %+v", r.Stdout, r.Stderr, r.Exit), err)
		},
		others: func(t *trial) { t.sh(`echo "another's" >> log`) },
		stays:  func(t *trial) { t.holds("log", "ran\nanother's\n") },
		unlike: func(t *trial, box sandbox.Sandbox) error { _, err := box.Exec(t.ctx, shell(`exit 4`)); return err },
	},
	{
		name:   "an Exec that starts nothing",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			r, err := box.Exec(t.ctx, sandbox.Command{Argv: []string{"./prog"}})
			r.ID = ""
			return answer(r.Code, err)
		},
		others: func(t *trial) { t.sh(`printf '#!/bin/sh\necho ran >> log\n' > prog && chmod +x prog`) },
		stays:  func(t *trial) { t.there("log", false) },
	},
	{
		name:   "Start",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			p, err := box.Start(t.ctx, shell(`echo ran >> log; exit 3`))
			t.ok(err)
			exit := t.follow(p, offsets0).exit
			return answer(exit.Code, nil)
		},
		others: func(t *trial) { t.sh(`echo "another's" >> log`) },
		stays:  func(t *trial) { t.holds("log", "ran\nanother's\n") },
		unlike: func(t *trial, box sandbox.Sandbox) error { _, err := box.Start(t.ctx, shell(`exit 4`)); return err },
	},
	{
		name:   "ReadTree",
		before: func(t *trial) { t.put("d/f", "first") },
		do: func(t *trial, box sandbox.Sandbox) string {
			var b bytes.Buffer
			err := box.ReadTree(t.ctx, "d", &b, sandbox.TreeOptions{})
			return answer(entriesOf(t, b.Bytes()), err)
		},
		others: func(t *trial) { t.put("d/f", "another's"); t.put("d/g", "another's") },
		stays:  nothing,
		unlike: func(t *trial, box sandbox.Sandbox) error {
			return box.ReadTree(t.ctx, ".", &bytes.Buffer{}, sandbox.TreeOptions{})
		},
	},
	{
		name:   "WriteTree",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			return answer(nil, box.WriteTree(t.ctx, "d", bytes.NewReader(archive(t, file("f", "first"))), sandbox.TreeOptions{}))
		},
		others: func(t *trial) { t.put("d/f", "another's") },
		stays:  func(t *trial) { t.holds("d/f", "another's") },
		unlike: func(t *trial, box sandbox.Sandbox) error {
			return box.WriteTree(t.ctx, "e", bytes.NewReader(archive(t, file("f", "first"))), sandbox.TreeOptions{})
		},
	},
	{
		name:   "a WriteTree that fails in part",
		before: nothing,
		do: func(t *trial, box sandbox.Sandbox) string {
			b := archive(t, file("f", "first"), file("../evil", "x"))
			err := box.WriteTree(t.ctx, "d", bytes.NewReader(b), sandbox.TreeOptions{})
			treeErrors(t, err)
			return answer(nil, err)
		},
		others: func(t *trial) { t.put("d/f", "another's") },
		stays:  func(t *trial) { t.holds("d/f", "another's") },
	},
}

var onceCases = slices.Concat(onceVerbCases(), []Case{
	{Name: "64 callers at once under one id are one", run: onceTogether},
	{Name: "another verb under the id is ErrConflict", run: func(t *trial) {
		box := t.box.Once(freshID())
		t.ok(box.WriteFile(t.ctx, "f", []byte("x"), sandbox.WriteOptions{}))
		_, err := box.Exec(t.ctx, shell(`touch ran`))
		t.is(err, sandbox.ErrConflict)
		t.is(box.Remove(t.ctx, "f", plainly), sandbox.ErrConflict)
		_, err = box.Stat(t.ctx, "f")
		t.is(err, sandbox.ErrConflict)
		t.same("what is left", t.list("."), []string{"f"})
	}},
	{Name: "the same call elsewhere is another call", run: func(t *trial) {
		id := freshID()
		t.mkdir("a")
		t.ok(t.box.Once(id).WriteFile(t.ctx, "f", []byte("x"), sandbox.WriteOptions{}))
		t.is(t.box.In("a").Once(id).WriteFile(t.ctx, "f", []byte("x"), sandbox.WriteOptions{}), sandbox.ErrConflict)
		t.there("a/f", false)
	}},
	{Name: "In of a view keeps the id", run: func(t *trial) {
		t.mkdir("a")
		id := freshID()
		t.ok(t.box.Once(id).In("a").Mkdir(t.ctx, "d", sandbox.MkdirOptions{}))
		t.ok(t.box.Once(id).In("a").Mkdir(t.ctx, "d", sandbox.MkdirOptions{}))
		t.ok(t.box.In("a").Once(id).Mkdir(t.ctx, "d", sandbox.MkdirOptions{}))
		t.there("a/d", true)
	}},
	{Name: "an id that is no UUIDv7 is EINVAL, one of long ago ErrExpired", run: func(t *trial) {
		t.is(t.box.Once("f47ac10b-58cc-4372-a567-0e02b2c3d479").WriteFile(t.ctx, "f", nil, sandbox.WriteOptions{}), syscall.EINVAL)
		t.is(t.box.Once("018cc251-f400-7000-8000-000000000001").WriteFile(t.ctx, "f", nil, sandbox.WriteOptions{}), sandbox.ErrExpired)
		t.there("f", false)
	}},
	{Name: "an id that was forbidden does nothing", run: func(t *trial) {
		id := freshID()
		is, err := t.box.Forbid(t.ctx, id)
		t.ok(err)
		t.same("whether it is forbidden", is, true)
		_, err = t.box.Once(id).Exec(t.ctx, shell(`touch ran`))
		t.is(err, sandbox.ErrForbidden)
		t.is(t.box.Once(id).WriteFile(t.ctx, "f", nil, sandbox.WriteOptions{}), sandbox.ErrForbidden)
		t.same("what is left", t.list("."), []string{})
	}},
})

func onceVerbCases() []Case {
	var all []Case
	for _, v := range onceVerbs {
		all = append(all,
			Case{Name: v.name + " repeated gives the first answer and changes nothing", run: func(t *trial) { repeat(t, v, t.box) }},
			Case{Name: v.name + " repeated from elsewhere gives the first answer and changes nothing", Needs: Again, run: func(t *trial) {
				repeat(t, v, t.harness.Again(t, t.box))
			}})
		if v.unlike != nil {
			all = append(all, Case{Name: "another " + v.name + " under the id is ErrConflict", run: func(t *trial) {
				v.before(t)
				box := t.box.Once(freshID())
				first := v.do(t, box)
				t.is(v.unlike(t, box), sandbox.ErrConflict)
				t.same("the answer after the conflict", v.do(t, box), first)
			}})
		}
	}
	return all
}

func repeat(t *trial, v onceVerb, later sandbox.Sandbox) {
	v.before(t)
	id := freshID()
	first := v.do(t, t.box.Once(id))
	v.others(t)
	for range 2 {
		t.same("the answer to the repeated call", v.do(t, later.Once(id)), first)
		v.stays(t)
	}
}

func onceTogether(t *trial) {
	id := freshID()
	var all sync.WaitGroup
	results := make([]sandbox.Result, 64)
	errs := make([]error, 64)
	for i := range results {
		all.Go(func() {
			results[i], errs[i] = t.box.Once(id).Exec(t.ctx, shell(`echo ran >> log; wc -l < log`))
		})
	}
	all.Wait()
	t.ok(errors.Join(errs...))
	for _, r := range results {
		t.same("the output", strings.TrimSpace(string(r.Stdout)), "1")
	}
	t.holds("log", "ran\n")
}
