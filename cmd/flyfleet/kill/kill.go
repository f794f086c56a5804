// Package kill is the verb that sends a signal to an exec.
package kill

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/ending"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/reach"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Command is `flyfleet kill`.
type Command struct {
	App     string `arg:"" help:"App of the tenant."`
	ID      string `arg:"" help:"Id of the exec: flyfleet ps lists them."`
	Machine string `help:"Id of the machine, for an app with several."`
	Signal  string `default:"TERM" help:"Signal by name or number."`
	Target  string `default:"group" enum:"leader,group,tree" help:"Whom: the command alone (leader), its process group, or all its descendants (tree)."`
}

// Result is the JSON form.
type Result struct {
	ID string `json:"id"`
	// Delivered is false when the exec had ended already.
	Delivered bool   `json:"delivered"`
	State     string `json:"state"`
	// MayHaveEscaped: processes had left the group, and no cgroup holds them.
	MayHaveEscaped bool `json:"may_have_escaped"`
}

// Run sends.
func (k *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	number, err := parse(k.Signal)
	if err != nil {
		return err
	}
	m, err := reach.Open(ctx, s, k.App, k.Machine)
	if err != nil {
		return err
	}
	defer m.Close()
	target := map[string]wirev1.SignalTarget{
		"leader": wirev1.SignalTarget_SIGNAL_TARGET_LEADER,
		"group":  wirev1.SignalTarget_SIGNAL_TARGET_GROUP,
		"tree":   wirev1.SignalTarget_SIGNAL_TARGET_TREE,
	}[k.Target]
	answer, err := m.Signal(ctx, k.ID, number, target)
	if err != nil {
		return m.Failed(err, k.ID, false)
	}
	r := Result{
		ID: k.ID, Delivered: answer.GetDelivered(), MayHaveEscaped: answer.GetMayHaveEscaped(),
		State: ending.Word(answer.GetState().String(), "EXEC_STATE_"),
	}
	if r.MayHaveEscaped {
		c.Note("flyfleet: processes of the command had left its group and may run on")
	}
	return c.Result(r, func(w io.Writer) {
		if !r.Delivered {
			fmt.Fprintf(w, "%s had ended already\n", k.ID)
			return
		}
		fmt.Fprintf(w, "sent %s to %s\n", strings.ToUpper(k.Signal), k.ID)
	})
}

// Numbers are Linux's, which every machine runs, whatever this computer is.
var numbers = map[string]int32{
	"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "KILL": 9, "USR1": 10, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
	"CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "WINCH": 28,
}

func parse(signal string) (int32, error) {
	if n, err := strconv.ParseInt(signal, 10, 32); err == nil && n >= 1 && n <= 64 {
		return int32(n), nil
	}
	if n, ok := numbers[strings.TrimPrefix(strings.ToUpper(signal), "SIG")]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("--signal %s is no signal: give a name like TERM, or a number from 1 to 64", signal)
}
