package skew_test

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// digest is version 1's identity of a command, written down a second time: what a peer of the past computes
// is not changed by what today's does.
func digest(scope string, spec protoreflect.Message) []byte {
	d := digester{sha256.New()}
	d.bytes([]byte("flyfleet exec 1"))
	d.bytes([]byte(scope))
	d.list(get(spec, "argv").List(), func(v protoreflect.Value) { d.bytes(v.Bytes()) })
	d.list(get(spec, "env").List(), func(v protoreflect.Value) {
		d.bytes(get(v.Message(), "name").Bytes())
		d.bytes(get(v.Message(), "value").Bytes())
	})
	d.list(get(spec, "secret_env").List(), func(v protoreflect.Value) { d.bytes(get(v.Message(), "name").Bytes()) })
	d.bytes(get(spec, "cwd").Bytes())
	d.bytes([]byte(get(spec, "user").String()))
	d.flag(has(spec, "pty"))
	d.number(get(spec, "pty", "cols").Uint())
	d.number(get(spec, "pty", "rows").Uint())
	d.bytes([]byte(get(spec, "pty", "term").String()))
	d.stdin(get(spec, "stdin").Message())
	d.flag(get(spec, "merge_stderr").Bool())
	for _, name := range []string{"wall_timeout_ms", "term_grace_ms", "unattended_timeout_ms", "drain_ms"} {
		d.number(uint64(get(spec, name).Int()))
	}
	d.number(get(spec, "stdout_cap_bytes").Uint())
	d.number(get(spec, "stderr_cap_bytes").Uint())
	d.number(uint64(get(spec, "cap_policy").Enum()))
	d.flag(get(spec, "sync_on_exit").Bool())
	return d.Sum(nil)
}

type digester struct{ hash.Hash }

func (d digester) number(n uint64) { d.Write(binary.BigEndian.AppendUint64(nil, n)) }

func (d digester) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.Write(b)
}

func (d digester) flag(set bool) {
	if set {
		d.number(1)
		return
	}
	d.number(0)
}

func (d digester) list(l protoreflect.List, each func(protoreflect.Value)) {
	d.number(uint64(l.Len()))
	for i := range l.Len() {
		each(l.Get(i))
	}
}

// Modes of stdin in version 1.
const (
	stdinNull   = 1
	stdinPipe   = 2
	stdinInline = 3
)

func (d digester) stdin(s protoreflect.Message) {
	switch mode := get(s, "mode").Enum(); mode {
	case 0:
		d.number(stdinNull)
		d.number(get(s, "length").Uint())
		d.bytes(get(s, "sha256").Bytes())
	case stdinInline:
		content := get(s, "inline").Bytes()
		sum := sha256.Sum256(content)
		d.number(stdinInline)
		d.number(uint64(len(content)))
		d.bytes(sum[:])
	default:
		d.number(uint64(mode))
		d.number(get(s, "length").Uint())
		d.bytes(get(s, "sha256").Bytes())
	}
}
