package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

func hexOf(b []byte) string { return hex.EncodeToString(b) }

const goodID = "018cc251-f400-7000-8000-000000000000"

func goodExec() *wirev1.ExecRequest {
	return &wirev1.ExecRequest{
		ExecId: goodID, Scope: "s/one", Digest: make([]byte, 32),
		Spec: &wirev1.ExecSpec{Argv: [][]byte{[]byte("true")}},
	}
}

func TestEveryWrongFieldIsNamedAndNotQuoted(t *testing.T) {
	if err := wire.CheckExec(goodExec()); err != nil {
		t.Fatalf("a good request: %v", err)
	}
	v := func(name, value string) []*wirev1.EnvVar {
		return []*wirev1.EnvVar{{Name: []byte(name), Value: []byte(value)}}
	}
	for field, spoil := range map[string]func(*wirev1.ExecRequest){
		"exec_id":                    func(r *wirev1.ExecRequest) { r.ExecId = "../../etc" },
		"exec_id ":                   func(r *wirev1.ExecRequest) { r.ExecId = strings.ToUpper(goodID) },
		"exec_id  ":                  func(r *wirev1.ExecRequest) { r.ExecId = "f47ac10b-58cc-4372-a567-0e02b2c3d479" },
		"scope":                      func(r *wirev1.ExecRequest) { r.Scope = "" },
		"scope ":                     func(r *wirev1.ExecRequest) { r.Scope = "a/../b" },
		"scope  ":                    func(r *wirev1.ExecRequest) { r.Scope = strings.Repeat("a", 201) },
		"digest":                     func(r *wirev1.ExecRequest) { r.Digest = nil },
		"if_epoch":                   func(r *wirev1.ExecRequest) { r.IfEpoch = "a b" },
		"spec":                       func(r *wirev1.ExecRequest) { r.Spec = nil },
		"spec.argv":                  func(r *wirev1.ExecRequest) { r.Spec.Argv = nil },
		"spec.argv[0]":               func(r *wirev1.ExecRequest) { r.Spec.Argv = [][]byte{[]byte("se\x00cret")} },
		"spec.env[0].name":           func(r *wirev1.ExecRequest) { r.Spec.Env = v("", "secret") },
		"spec.env[0].name ":          func(r *wirev1.ExecRequest) { r.Spec.Env = v("secret=1", "") },
		"spec.env[0].value":          func(r *wirev1.ExecRequest) { r.Spec.Env = v("A", "secret\x00") },
		"spec.secret_env[0].name":    func(r *wirev1.ExecRequest) { r.Spec.Env = v("A", ""); r.Spec.SecretEnv = v("A", "secret") },
		"spec.argv ":                 func(r *wirev1.ExecRequest) { r.Spec.Env = v("A", strings.Repeat("x", 2<<20)) },
		"spec.cwd":                   func(r *wirev1.ExecRequest) { r.Spec.Cwd = []byte("secret\x00") },
		"spec.user":                  func(r *wirev1.ExecRequest) { r.Spec.User = "../secret" },
		"spec.pty.cols":              func(r *wirev1.ExecRequest) { r.Spec.Pty = &wirev1.Pty{Rows: 1} },
		"spec.pty.rows":              func(r *wirev1.ExecRequest) { r.Spec.Pty = &wirev1.Pty{Cols: 1, Rows: 70000} },
		"spec.pty.term":              func(r *wirev1.ExecRequest) { r.Spec.Pty = &wirev1.Pty{Cols: 1, Rows: 1, Term: "secret\n"} },
		"spec.stdin.mode":            func(r *wirev1.ExecRequest) { r.Spec.Stdin = &wirev1.Stdin{Mode: 99} },
		"spec.stdin.inline":          func(r *wirev1.ExecRequest) { r.Spec.Stdin = &wirev1.Stdin{Mode: 3, Inline: make([]byte, 64<<10+1)} },
		"spec.stdin.inline ":         func(r *wirev1.ExecRequest) { r.Spec.Stdin = &wirev1.Stdin{Mode: 2, Inline: []byte("secret")} },
		"spec.stdin.length":          func(r *wirev1.ExecRequest) { r.Spec.Stdin = &wirev1.Stdin{Mode: 3, Length: 1} },
		"spec.stdin.sha256":          func(r *wirev1.ExecRequest) { r.Spec.Stdin = &wirev1.Stdin{Mode: 2, Sha256: []byte("secret")} },
		"spec.wall_timeout_ms":       func(r *wirev1.ExecRequest) { r.Spec.WallTimeoutMs = -1 },
		"spec.unattended_timeout_ms": func(r *wirev1.ExecRequest) { r.Spec.UnattendedTimeoutMs = 1 << 62 },
		"spec.cap_policy":            func(r *wirev1.ExecRequest) { r.Spec.CapPolicy = 9 },
	} {
		r := goodExec()
		spoil(r)
		err := wire.CheckExec(r)
		var wrong *wire.FieldError
		if !errors.As(err, &wrong) || wrong.Field != strings.TrimSpace(field) {
			t.Errorf("%s: got %v", field, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") && !strings.Contains(wrong.Field, "secret") {
			t.Errorf("%s: the error quotes the value: %v", field, err)
		}
	}
}

func TestEveryRequestChecksItsTarget(t *testing.T) {
	bad := "not-an-id"
	for name, check := range map[string]error{
		"attach":  wire.CheckAttach(&wirev1.AttachRequest{ExecId: bad, Scope: "s"}),
		"stdin":   wire.CheckWriteStdin(&wirev1.WriteStdinRequest{ExecId: bad, Scope: "s"}),
		"signal":  wire.CheckSignal(&wirev1.SignalRequest{ExecId: bad, Scope: "s", Signal: 9}),
		"resize":  wire.CheckResize(&wirev1.ResizeRequest{ExecId: bad, Scope: "s", Cols: 1, Rows: 1}),
		"hold":    wire.CheckHold(&wirev1.HoldRequest{ExecId: bad, Scope: "s", Key: "k"}),
		"forget":  wire.CheckForget(&wirev1.ForgetRequest{ExecId: bad, Scope: "s"}),
		"forbid":  wire.CheckForbid(&wirev1.ForbidRequest{ExecId: bad, Scope: "s"}),
		"list":    wire.CheckList(&wirev1.ListRequest{Scope: "s", PageToken: bad}),
		"signal ": wire.CheckSignal(&wirev1.SignalRequest{ExecId: goodID, Scope: "s", Signal: 65}),
		"resize ": wire.CheckResize(&wirev1.ResizeRequest{ExecId: goodID, Scope: "s"}),
		"hold ":   wire.CheckHold(&wirev1.HoldRequest{ExecId: goodID, Scope: "s"}),
		"stdin ":  wire.CheckWriteStdin(&wirev1.WriteStdinRequest{ExecId: goodID, Scope: "s", Data: make([]byte, 1<<20+1)}),
		"hello":   wire.CheckHello(&wirev1.HelloRequest{WireMin: 2, WireMax: 1}),
		"attach ": wire.CheckAttach(&wirev1.AttachRequest{ExecId: goodID, Scope: "s", FromEnd: true, From: &wirev1.Offsets{Stdout: 1}}),
	} {
		var wrong *wire.FieldError
		if !errors.As(check, &wrong) {
			t.Errorf("%s: got %v", name, check)
		}
	}
}

func TestRefusalSurvivesTheTrip(t *testing.T) {
	for reason := range wirev1.ErrorReason_name {
		sent := wire.Refuse(wirev1.ErrorReason(reason), "words")
		sent.Fence, sent.Field, sent.RetryAfter = 7, "f", 1500e6
		got, ok := wire.AsError(sent.Connect())
		if !ok || got.Reason != sent.Reason || got.Fence != 7 || got.Field != "f" || got.RetryAfter != sent.RetryAfter || got.Retryable != sent.Retryable {
			t.Errorf("%v: got %+v", wirev1.ErrorReason(reason), got)
		}
		if !errors.Is(sent, &wire.Error{Reason: sent.Reason}) {
			t.Errorf("%v: errors.Is does not see its reason", wirev1.ErrorReason(reason))
		}
	}
	if _, ok := wire.AsError(errors.New("broken pipe")); ok {
		t.Error("a transport failure has a reason")
	}
}

func TestIdsCarryTheirTime(t *testing.T) {
	id, err := wire.NewID()
	if err != nil {
		t.Fatal(err)
	}
	made, err := wire.IDTime(id)
	if err != nil || made.IsZero() {
		t.Fatalf("got %v, %v", made, err)
	}
	old, err := wire.IDTime(goodID)
	if err != nil || old.UTC().Format("2006-01-02") != "2024-01-01" {
		t.Fatalf("got %v, %v", old, err)
	}
	if bytes.Compare([]byte(goodID), []byte(id)) >= 0 {
		t.Fatal("ids do not sort by time")
	}
}

func TestOperatorScopeIsThePersonsOwn(t *testing.T) {
	for scope, want := range map[string]bool{"op/alice": true, "op/alice/x": true, "op/alice2": false, "op/bob": false, "s/op/alice": false, "op": false} {
		if wire.OperatorScope(scope, "alice") != want {
			t.Errorf("%s: want %v", scope, want)
		}
	}
}
