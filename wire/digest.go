package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Digest is the identity of what an exec runs: SHA-256 over a canonical form of scope and spec, every
// part length-prefixed so that no two specs share a form. It covers scope, argv, env names and plain
// values, the names of secret_env, cwd, user, pty, limits, and stdin's mode, length and hash. It does
// not cover secret values, fence, epoch or offsets: a retry with a fresh credential or another reading
// position is the same exec. The order of argv and env counts.
func Digest(scope string, spec *wirev1.ExecSpec) []byte {
	d := digester{sha256.New()}
	d.text("flyfleet exec 1")
	d.text(scope)
	d.list(spec.GetArgv())
	d.number(uint64(len(spec.GetEnv())))
	for _, e := range spec.GetEnv() {
		d.bytes(e.GetName())
		d.bytes(e.GetValue())
	}
	d.number(uint64(len(spec.GetSecretEnv())))
	for _, e := range spec.GetSecretEnv() {
		d.bytes(e.GetName())
	}
	d.bytes(spec.GetCwd())
	d.text(spec.GetUser())
	d.flag(spec.GetPty() != nil)
	d.number(uint64(spec.GetPty().GetCols()))
	d.number(uint64(spec.GetPty().GetRows()))
	d.text(spec.GetPty().GetTerm())
	d.stdin(spec.GetStdin())
	d.flag(spec.GetMergeStderr())
	d.number(uint64(spec.GetWallTimeoutMs()))
	d.number(uint64(spec.GetTermGraceMs()))
	d.number(uint64(spec.GetUnattendedTimeoutMs()))
	d.number(uint64(spec.GetDrainMs()))
	d.number(spec.GetStdoutCapBytes())
	d.number(spec.GetStderrCapBytes())
	d.number(uint64(spec.GetCapPolicy()))
	d.flag(spec.GetSyncOnExit())
	return d.Sum(nil)
}

type digester struct{ hash.Hash }

func (d digester) number(n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	d.Write(b[:])
}

func (d digester) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.Write(b)
}

func (d digester) text(s string) { d.bytes([]byte(s)) }

func (d digester) flag(set bool) {
	if set {
		d.number(1)
		return
	}
	d.number(0)
}

func (d digester) list(items [][]byte) {
	d.number(uint64(len(items)))
	for _, item := range items {
		d.bytes(item)
	}
}

// stdin digests content by length and hash, so that an inline stdin and the same promised over a pipe
// differ in mode alone, and a record of the spec need not keep the content.
func (d digester) stdin(s *wirev1.Stdin) {
	switch mode := StdinMode(s); mode {
	case wirev1.StdinMode_STDIN_MODE_INLINE:
		sum := sha256.Sum256(s.GetInline())
		d.number(uint64(mode))
		d.number(uint64(len(s.GetInline())))
		d.bytes(sum[:])
	default:
		d.number(uint64(mode))
		d.number(s.GetLength())
		d.bytes(s.GetSha256())
	}
}

// StdinMode is the mode of a spec's stdin; unset means NULL.
func StdinMode(s *wirev1.Stdin) wirev1.StdinMode {
	if m := s.GetMode(); m != wirev1.StdinMode_STDIN_MODE_UNSPECIFIED {
		return m
	}
	return wirev1.StdinMode_STDIN_MODE_NULL
}
