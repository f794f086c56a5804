package wire_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func spec() *wirev1.ExecSpec {
	return &wirev1.ExecSpec{Argv: [][]byte{[]byte("a")}}
}

// set gives a field some value that is not its default.
func set(t *testing.T, m protoreflect.Message, f protoreflect.FieldDescriptor) {
	t.Helper()
	switch {
	case f.IsList() && f.Kind() == protoreflect.BytesKind:
		m.Mutable(f).List().Append(protoreflect.ValueOfBytes([]byte("more")))
	case f.IsList() && f.Kind() == protoreflect.MessageKind:
		e := m.Mutable(f).List().AppendMutable().Message()
		e.Set(e.Descriptor().Fields().ByName("name"), protoreflect.ValueOfBytes([]byte("NAME")))
	case f.Kind() == protoreflect.MessageKind:
		m.Mutable(f)
	case f.Kind() == protoreflect.BytesKind:
		m.Set(f, protoreflect.ValueOfBytes([]byte("x")))
	case f.Kind() == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString("x"))
	case f.Kind() == protoreflect.BoolKind:
		m.Set(f, protoreflect.ValueOfBool(true))
	case f.Kind() == protoreflect.Int64Kind:
		m.Set(f, protoreflect.ValueOfInt64(7))
	case f.Kind() == protoreflect.Uint64Kind:
		m.Set(f, protoreflect.ValueOfUint64(7))
	case f.Kind() == protoreflect.Uint32Kind:
		m.Set(f, protoreflect.ValueOfUint32(7))
	case f.Kind() == protoreflect.EnumKind:
		m.Set(f, protoreflect.ValueOfEnum(2))
	default:
		t.Fatalf("this test cannot set %s", f.FullName())
	}
}

// A field that a later version adds and the digest forgets would let two commands share an id.
func TestDigestCoversEveryFieldOfTheSpec(t *testing.T) {
	seen := map[string]string{string(wire.Digest("s", spec())): "nothing"}
	note := func(name string, s *wirev1.ExecSpec) {
		t.Helper()
		d := string(wire.Digest("s", s))
		if other, ok := seen[d]; ok {
			t.Errorf("setting %s gives the digest of setting %s", name, other)
		}
		seen[d] = name
	}
	fields := spec().ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f, s := fields.Get(i), spec()
		set(t, s.ProtoReflect(), f)
		if f.Name() == "stdin" {
			// An empty stdin message is the default, told by its mode.
			s.Stdin.Mode = wirev1.StdinMode_STDIN_MODE_PIPE
		}
		note(string(f.FullName()), s)
	}
	for _, message := range []func(*wirev1.ExecSpec) proto.Message{
		func(s *wirev1.ExecSpec) proto.Message { s.Pty = &wirev1.Pty{Cols: 80, Rows: 24}; return s.Pty },
		func(s *wirev1.ExecSpec) proto.Message {
			s.Stdin = &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_PIPE, Length: 1}
			return s.Stdin
		},
	} {
		fields := message(spec()).ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f, s := fields.Get(i), spec()
			m := message(s)
			if f.Name() == "inline" {
				m.(*wirev1.Stdin).Mode = wirev1.StdinMode_STDIN_MODE_INLINE
			}
			if f.Name() == "mode" {
				m.(*wirev1.Stdin).Mode = wirev1.StdinMode_STDIN_MODE_NULL
			} else {
				set(t, m.ProtoReflect(), f)
			}
			note(string(f.FullName()), s)
		}
	}
	plain := spec()
	plain.Env = []*wirev1.EnvVar{{Name: []byte("NAME"), Value: []byte("v")}}
	note("a plain value", plain)
}

func TestDigestLeavesOutSecretValues(t *testing.T) {
	a, b := spec(), spec()
	a.SecretEnv = []*wirev1.EnvVar{{Name: []byte("T"), Value: []byte("one")}}
	b.SecretEnv = []*wirev1.EnvVar{{Name: []byte("T"), Value: []byte("two")}}
	if !bytes.Equal(wire.Digest("s", a), wire.Digest("s", b)) {
		t.Fatal("a fresh credential makes another command")
	}
}

func TestDigestKeepsPartsApart(t *testing.T) {
	seen := map[string]bool{}
	specs := []*wirev1.ExecSpec{
		{Argv: [][]byte{[]byte("ab"), []byte("c")}},
		{Argv: [][]byte{[]byte("a"), []byte("bc")}},
		{Argv: [][]byte{[]byte("abc")}},
		{Argv: [][]byte{[]byte("c"), []byte("ab")}},
		{Argv: [][]byte{[]byte("ab"), []byte("c"), nil}},
		{Argv: [][]byte{[]byte("ab")}, Env: []*wirev1.EnvVar{{Name: []byte("c")}}},
		{Argv: [][]byte{[]byte("ab")}, SecretEnv: []*wirev1.EnvVar{{Name: []byte("c")}}},
		{Argv: [][]byte{[]byte("ab")}, Cwd: []byte("c")},
		{Argv: [][]byte{[]byte("ab")}, User: "c"},
	}
	for i, s := range specs {
		for _, scope := range []string{"s", "sa"} {
			d := string(wire.Digest(scope, s))
			if seen[d] {
				t.Fatalf("spec %d in scope %s has another's digest", i, scope)
			}
			seen[d] = true
		}
	}
}

// The machine of one build and the client of another must agree for ever.
func TestDigestIsFrozen(t *testing.T) {
	s := &wirev1.ExecSpec{
		Argv: [][]byte{[]byte("sh"), []byte("-c"), []byte("true")}, Env: []*wirev1.EnvVar{{Name: []byte("A"), Value: []byte("b")}},
		Cwd: []byte("/w"), Stdin: &wirev1.Stdin{Mode: wirev1.StdinMode_STDIN_MODE_INLINE, Inline: []byte("in")}, WallTimeoutMs: 5,
	}
	const want = "3460d99bd8b0cfbd5b4b48e75ef0f062d59c965df06cea002cda7da0a48ebbc1"
	if got := hexOf(wire.Digest("s/one", s)); got != want {
		t.Fatalf("got %s", got)
	}
}
