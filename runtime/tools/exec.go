package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/sandbox"
)

const (
	defaultTimeout = 10 * time.Minute
	// unattended ends a command whose runtime never comes back.
	unattended = 24 * time.Hour
)

// runExec starts the command, or finds it, and follows it to its end. A command that a new owner finds is followed from its
// beginning, so that its model-facing result is the same; who watches gets what is new to him.
func runExec(ctx context.Context, call Call) (Result, error) {
	args, err := arguments[struct {
		Command string `json:"command"`
		Dir     string `json:"dir"`
		Timeout int    `json:"timeout_seconds"`
	}](call)
	if err != nil {
		return Result{}, err
	}
	command := sandbox.Command{
		ID: call.ExecID, IfEpoch: call.Epoch, Argv: []string{"/bin/sh", "-c", args.Command}, Dir: args.Dir,
		MergeStderr: true, Timeout: defaultTimeout, Unattended: unattended, SecretEnv: call.SecretEnv,
	}
	if args.Timeout > 0 {
		command.Timeout = time.Duration(args.Timeout) * time.Second
	}
	process, err := call.Box.Start(ctx, command)
	if call.Resumed && errors.Is(err, sandbox.ErrConflict) {
		// The id is of this call alone. Its command was started with other secret variables, before this replica's configuration.
		process, err = call.Box.Attach(ctx, call.ExecID)
	}
	if err != nil {
		return lostOr(ctx, err, nil)
	}
	var kept Cap
	masks := 0
	keep := func(raw []byte, then Then) {
		clean := call.mask(raw, then)
		masks += clean.Masks
		_, _ = kept.Write(clean.Data)
	}
	exit, err := process.Follow(ctx, sandbox.Offsets{}, func(out sandbox.Output) error {
		if out.Missing > 0 {
			keep(nil, Gap)
			fmt.Fprintf(&kept, "\n[%d bytes are kept nowhere]\n", out.Missing)
		} else {
			keep(out.Data, More)
		}
		return pass(call, out)
	})
	if err != nil {
		keep(nil, Gap)
		result, err := lostOr(ctx, err, &kept)
		result.Masks = masks
		return result, err
	}
	keep(nil, Last)
	return Result{Content: report(&kept, exit), Masks: masks, Failed: exit.Code != 0, Exit: &exit}, nil
}

// pass hands on what of a piece lies after Call.From.
func pass(call Call, out sandbox.Output) error {
	if call.Output == nil {
		return nil
	}
	from := call.From.Stdout
	if out.Stream == sandbox.Stderr {
		from = call.From.Stderr
	}
	if skip := from - out.Offset; skip > 0 {
		out.Offset += skip
		if out.Missing > 0 {
			out.Missing -= min(skip, out.Missing)
		} else {
			out.Data = out.Data[min(skip, int64(len(out.Data))):]
		}
		if out.Missing == 0 && len(out.Data) == 0 {
			return nil
		}
	}
	return call.Output(out)
}

func lostOr(ctx context.Context, err error, kept *Cap) (Result, error) {
	var lost *sandbox.LostError
	if !errors.As(err, &lost) {
		return fault(ctx, err)
	}
	result := Result{Failed: true, Lost: lost}
	if kept != nil {
		result.Content = kept.Bytes()
	}
	result.Content = fmt.Appendf(result.Content, "\n[lost: %s. How the command ended is not known; it does not run and was not started again]\n", lost.Reason)
	return result, nil
}

func report(kept *Cap, exit sandbox.Exit) []byte {
	content := kept.Bytes()
	if n := len(content); n > 0 && content[n-1] != '\n' {
		content = append(content, '\n')
	}
	content = fmt.Appendf(content, "[exit code %d", exit.Code)
	if exit.Cause != sandbox.CauseExited {
		content = fmt.Appendf(content, ", %s", exit.Cause)
	}
	if exit.Message != "" {
		content = fmt.Appendf(content, ": %s", exit.Message)
	}
	return append(content, "]\n"...)
}
