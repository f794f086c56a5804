//go:build linux

package server

import (
	"path/filepath"

	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/account"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/keeper"
	"github.com/flyfleet/terraform-provider-flyfleet/controlserver/spool"
	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// defaultPath is where programs are searched when the request brings no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// order turns a checked request into what the keeper starts.
func (s *Server) order(request *wirev1.ExecRequest) (keeper.Order, error) {
	spec := request.GetSpec()
	who, err := s.options.Accounts.Find(spec.GetUser())
	if err != nil {
		return keeper.Order{}, wire.Invalid(&wire.FieldError{Field: "spec.user", Problem: "cannot be used: " + err.Error()})
	}
	record, err := spool.Record(request, s.keeper.Epoch())
	if err != nil {
		return keeper.Order{}, err
	}
	o := keeper.Order{
		ID: request.GetExecId(), Record: record, Argv: spec.GetArgv(), Dir: s.dir(spec.GetCwd()),
		Env: environment(spec, who, s.options.Workspace), User: who.Switch, Merge: spec.GetMergeStderr(),
	}
	switch wire.StdinMode(spec.GetStdin()) {
	case wirev1.StdinMode_STDIN_MODE_PIPE:
		o.Stdin = keeper.StdinPipe
	case wirev1.StdinMode_STDIN_MODE_INLINE:
		o.Stdin, o.Content = keeper.StdinContent, spec.GetStdin().GetInline()
	}
	if pty := spec.GetPty(); pty != nil {
		o.Terminal = &keeper.Size{Cols: pty.GetCols(), Rows: pty.GetRows()}
	}
	return o, nil
}

// dir is the working directory: a relative one is meant from the workspace.
func (s *Server) dir(cwd []byte) string {
	switch {
	case len(cwd) == 0:
		return s.options.Workspace
	case cwd[0] == '/':
		return string(cwd)
	}
	return filepath.Join(s.options.Workspace, string(cwd))
}

// environment is built from nothing: what the control server was started with never reaches a command.
func environment(spec *wirev1.ExecSpec, who account.Account, workspace string) [][]byte {
	base := []*wirev1.EnvVar{
		{Name: []byte("PATH"), Value: []byte(defaultPath)},
		{Name: []byte("HOME"), Value: []byte(who.Home)},
		{Name: []byte("USER"), Value: []byte(who.Name)},
		{Name: []byte("LANG"), Value: []byte("C.UTF-8")},
		{Name: []byte("WORKSPACE"), Value: []byte(workspace)},
	}
	if spec.GetPty() != nil {
		term := spec.GetPty().GetTerm()
		if term == "" {
			term = "xterm-256color"
		}
		base = append(base, &wirev1.EnvVar{Name: []byte("TERM"), Value: []byte(term)})
	}
	given := map[string]bool{}
	for _, list := range [][]*wirev1.EnvVar{spec.GetEnv(), spec.GetSecretEnv()} {
		for _, v := range list {
			given[string(v.GetName())] = true
		}
	}
	var out [][]byte
	add := func(v *wirev1.EnvVar) {
		line := make([]byte, 0, len(v.GetName())+1+len(v.GetValue()))
		line = append(append(append(line, v.GetName()...), '='), v.GetValue()...)
		out = append(out, line)
	}
	for _, v := range base {
		if !given[string(v.GetName())] {
			add(v)
		}
	}
	for _, list := range [][]*wirev1.EnvVar{spec.GetEnv(), spec.GetSecretEnv()} {
		for _, v := range list {
			add(v)
		}
	}
	return out
}
