package wire

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Bounds that every machine keeps; Hello's Limits may be lower.
const (
	// MaxRequestBytes is the largest request message, MaxAnswerBytes the largest message a machine sends.
	MaxRequestBytes = 3 << 20
	MaxAnswerBytes  = 4 << 20
	// MaxArgumentBytes bounds argv and environment together. The kernel's own limit (2 MiB with an
	// 8 MiB stack) comes back as a start failure.
	MaxArgumentBytes = 2 << 20
	// MaxInlineStdin bounds stdin inside ExecRequest.
	MaxInlineStdin = 64 << 10
	// MaxStdinChunk bounds one WriteStdin.
	MaxStdinChunk = 1 << 20
	// MaxChunk is the most data one Chunk holds.
	MaxChunk = 256 << 10
	// MaxPageSize bounds one List answer.
	MaxPageSize = 1000
	// MaxLimit bounds the time limits of an exec.
	MaxLimit = 366 * 24 * time.Hour
	// MaxHold bounds one Hold.
	MaxHold = 24 * time.Hour

	maxArguments = 1 << 16
	maxPath      = 4096
	digestBytes  = 32
)

var (
	userPattern  = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	termPattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)
	epochPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{0,64}$`)
)

func wrong(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// CheckHello checks a HelloRequest.
func CheckHello(r *wirev1.HelloRequest) error {
	if r.GetWireMin() > r.GetWireMax() {
		return wrong("wire_min", "is above wire_max")
	}
	if len(r.GetClientBuild()) > 128 {
		return wrong("client_build", "is longer than 128 bytes")
	}
	return nil
}

// CheckExec checks an ExecRequest. That the digest is the spec's is the server's to prove.
func CheckExec(r *wirev1.ExecRequest) error {
	if err := checkTarget(r.GetExecId(), r.GetScope()); err != nil {
		return err
	}
	if len(r.GetDigest()) != digestBytes {
		return wrong("digest", "is not %d bytes long", digestBytes)
	}
	if !epochPattern.MatchString(r.GetIfEpoch()) {
		return wrong("if_epoch", "is not an epoch")
	}
	if r.GetSpec() == nil {
		return wrong("spec", "is missing")
	}
	return CheckSpec(r.GetSpec())
}

// CheckSpec checks what would run. Errors name the field and never quote argv or env.
func CheckSpec(s *wirev1.ExecSpec) error {
	checks := []func(*wirev1.ExecSpec) error{checkArgv, checkEnv, checkPlace, checkTerminal, checkStdin, checkLimits}
	for _, check := range checks {
		if err := check(s); err != nil {
			return err
		}
	}
	return nil
}

func checkArgv(s *wirev1.ExecSpec) error {
	if len(s.GetArgv()) == 0 || len(s.GetArgv()[0]) == 0 {
		return wrong("spec.argv", "is empty")
	}
	if len(s.GetArgv()) > maxArguments {
		return wrong("spec.argv", "has more than %d arguments", maxArguments)
	}
	for i, a := range s.GetArgv() {
		if bytes.IndexByte(a, 0) >= 0 {
			return wrong(fmt.Sprintf("spec.argv[%d]", i), "holds a NUL byte")
		}
	}
	return nil
}

func checkEnv(s *wirev1.ExecSpec) error {
	if len(s.GetEnv())+len(s.GetSecretEnv()) > maxArguments {
		return wrong("spec.env", "has more than %d variables", maxArguments)
	}
	total := 0
	for _, a := range s.GetArgv() {
		total += len(a) + 1
	}
	seen := map[string]bool{}
	for _, list := range []struct {
		field string
		vars  []*wirev1.EnvVar
	}{{"spec.env", s.GetEnv()}, {"spec.secret_env", s.GetSecretEnv()}} {
		for i, e := range list.vars {
			field := fmt.Sprintf("%s[%d]", list.field, i)
			if err := checkEnvVar(field, e); err != nil {
				return err
			}
			if seen[string(e.GetName())] {
				return wrong(field+".name", "is given twice")
			}
			seen[string(e.GetName())] = true
			total += len(e.GetName()) + len(e.GetValue()) + 2
		}
	}
	if total > MaxArgumentBytes {
		return wrong("spec.argv", "and the environment together have more than %d bytes; send content on stdin", MaxArgumentBytes)
	}
	return nil
}

func checkEnvVar(field string, e *wirev1.EnvVar) error {
	switch {
	case len(e.GetName()) == 0:
		return wrong(field+".name", "is empty")
	case bytes.IndexByte(e.GetName(), '=') >= 0:
		return wrong(field+".name", "holds '='")
	case bytes.IndexByte(e.GetName(), 0) >= 0:
		return wrong(field+".name", "holds a NUL byte")
	case bytes.IndexByte(e.GetValue(), 0) >= 0:
		return wrong(field+".value", "holds a NUL byte")
	}
	return nil
}

func checkPlace(s *wirev1.ExecSpec) error {
	if len(s.GetCwd()) >= maxPath {
		return wrong("spec.cwd", "is longer than %d bytes", maxPath-1)
	}
	if bytes.IndexByte(s.GetCwd(), 0) >= 0 {
		return wrong("spec.cwd", "holds a NUL byte")
	}
	if s.GetUser() != "" && !userPattern.MatchString(s.GetUser()) {
		return wrong("spec.user", "is not a user name")
	}
	return nil
}

func checkTerminal(s *wirev1.ExecSpec) error {
	if s.GetPty() == nil {
		return nil
	}
	if err := checkSize("spec.pty.", s.GetPty().GetCols(), s.GetPty().GetRows()); err != nil {
		return err
	}
	if t := s.GetPty().GetTerm(); t != "" && !termPattern.MatchString(t) {
		return wrong("spec.pty.term", "is not a terminal name")
	}
	return nil
}

func checkSize(prefix string, cols, rows uint32) error {
	if cols == 0 || cols > 65535 {
		return wrong(prefix+"cols", "is not in 1 to 65535")
	}
	if rows == 0 || rows > 65535 {
		return wrong(prefix+"rows", "is not in 1 to 65535")
	}
	return nil
}

func checkStdin(s *wirev1.ExecSpec) error {
	in := s.GetStdin()
	mode := StdinMode(in)
	if mode > wirev1.StdinMode_STDIN_MODE_INLINE || mode < 0 {
		return wrong("spec.stdin.mode", "is unknown")
	}
	if len(in.GetInline()) > MaxInlineStdin {
		return wrong("spec.stdin.inline", "has more than %d bytes; use a pipe", MaxInlineStdin)
	}
	if len(in.GetInline()) > 0 && mode != wirev1.StdinMode_STDIN_MODE_INLINE {
		return wrong("spec.stdin.inline", "is given with another mode")
	}
	if (in.GetLength() != 0 || len(in.GetSha256()) != 0) && mode != wirev1.StdinMode_STDIN_MODE_PIPE {
		return wrong("spec.stdin.length", "or sha256 is given with a mode other than PIPE")
	}
	if n := len(in.GetSha256()); n != 0 && n != digestBytes {
		return wrong("spec.stdin.sha256", "is not %d bytes long", digestBytes)
	}
	return nil
}

func checkLimits(s *wirev1.ExecSpec) error {
	for _, l := range []struct {
		field string
		ms    int64
	}{
		{"wall_timeout_ms", s.GetWallTimeoutMs()},
		{"term_grace_ms", s.GetTermGraceMs()},
		{"unattended_timeout_ms", s.GetUnattendedTimeoutMs()},
		{"drain_ms", s.GetDrainMs()},
	} {
		if l.ms < 0 || l.ms > MaxLimit.Milliseconds() {
			return wrong("spec."+l.field, "is not in 0 to %d", MaxLimit.Milliseconds())
		}
	}
	if p := s.GetCapPolicy(); p < 0 || p > wirev1.CapPolicy_CAP_POLICY_KILL {
		return wrong("spec.cap_policy", "is unknown")
	}
	return nil
}

// checkTarget checks what every request but Hello and List names.
func checkTarget(id, scope string) error {
	if _, err := IDTime(id); err != nil {
		return wrong("exec_id", "is not a UUIDv7 in its lower-case form")
	}
	return CheckScope(scope)
}

// CheckAttach checks an AttachRequest.
func CheckAttach(r *wirev1.AttachRequest) error {
	if err := checkTarget(r.GetExecId(), r.GetScope()); err != nil {
		return err
	}
	if r.GetFromEnd() && (r.GetFrom().GetStdout() != 0 || r.GetFrom().GetStderr() != 0) {
		return wrong("from", "is given together with from_end")
	}
	return nil
}

// CheckWriteStdin checks a WriteStdinRequest.
func CheckWriteStdin(r *wirev1.WriteStdinRequest) error {
	if err := checkTarget(r.GetExecId(), r.GetScope()); err != nil {
		return err
	}
	if len(r.GetData()) > MaxStdinChunk {
		return wrong("data", "has more than %d bytes", MaxStdinChunk)
	}
	if r.GetOffset() > 1<<62 {
		return wrong("offset", "is too large")
	}
	return nil
}

// CheckSignal checks a SignalRequest.
func CheckSignal(r *wirev1.SignalRequest) error {
	if err := checkTarget(r.GetExecId(), r.GetScope()); err != nil {
		return err
	}
	if r.GetSignal() < 1 || r.GetSignal() > 64 {
		return wrong("signal", "is not in 1 to 64")
	}
	if t := r.GetTarget(); t < 0 || t > wirev1.SignalTarget_SIGNAL_TARGET_TREE {
		return wrong("target", "is unknown")
	}
	return nil
}

// CheckResize checks a ResizeRequest.
func CheckResize(r *wirev1.ResizeRequest) error {
	if err := checkTarget(r.GetExecId(), r.GetScope()); err != nil {
		return err
	}
	return checkSize("", r.GetCols(), r.GetRows())
}

// CheckHold checks a HoldRequest.
func CheckHold(r *wirev1.HoldRequest) error {
	if err := checkTarget(r.GetExecId(), r.GetScope()); err != nil {
		return err
	}
	if k := r.GetKey(); k == "" || len(k) > 128 || strings.IndexByte(k, 0) >= 0 {
		return wrong("key", "is not 1 to 128 bytes")
	}
	if r.GetTtlMs() < 0 || r.GetTtlMs() > MaxHold.Milliseconds() {
		return wrong("ttl_ms", "is not in 0 to %d", MaxHold.Milliseconds())
	}
	return nil
}

// CheckList checks a ListRequest.
func CheckList(r *wirev1.ListRequest) error {
	if err := CheckScope(r.GetScope()); err != nil {
		return err
	}
	if r.GetPageSize() > MaxPageSize {
		return wrong("page_size", "is more than %d", MaxPageSize)
	}
	if t := r.GetPageToken(); t != "" {
		if _, err := IDTime(t); err != nil {
			return wrong("page_token", "is not one that List gave")
		}
	}
	return nil
}

// CheckForget checks a ForgetRequest.
func CheckForget(r *wirev1.ForgetRequest) error { return checkTarget(r.GetExecId(), r.GetScope()) }

// CheckForbid checks a ForbidRequest.
func CheckForbid(r *wirev1.ForbidRequest) error { return checkTarget(r.GetExecId(), r.GetScope()) }
