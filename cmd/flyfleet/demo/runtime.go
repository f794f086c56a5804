package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/follow"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/keygen"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store/pglocal"
)

// RuntimeCommand is `flyfleet demo-runtime`, which make demo-runtime runs: an agent's command on a tenant's machine, the
// runtime killed in the middle of it, another one started, and the output whole.
type RuntimeCommand struct {
	Runner string `default:"auto" enum:"auto,namespace,process" help:"How the machine is made real: auto, namespace or process."`
	Source string `default:"." type:"existingdir" help:"Checkout with examples/ and terraform/; the demo works in its .demo/."`

	// binaries is where a test built the programs, which otherwise lie beside this one.
	binaries string
}

const (
	// lines are what the command writes, one every 20 ms or so: long enough to be in the middle of it.
	lines = 500
	// killAt is how many lines the viewer has seen when the runtime is killed.
	killAt = 100
	// script writes numbered lines, keeps a copy of each, and says at its end what it wrote: the measure does not come from
	// what is measured. Each start of the process leaves a line.
	script = `echo start >> starts
i=0
while [ $i -lt %d ]; do i=$((i+1)); echo "line $i of the command's own words"; sleep 0.02; done | tee written
echo "wrote $(wc -c < written | tr -d ' ') bytes sha256 $(sha256sum < written | cut -d ' ' -f 1) process starts $(wc -l < starts | tr -d ' ')"`
	// workLimit bounds the whole watch.
	workLimit = 3 * time.Minute
)

// Run runs the demo. Whatever happens, no process of it is left.
func (d *RuntimeCommand) Run(ctx context.Context, c *console.Console) error {
	result, err := d.perform(ctx, c)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("demo-runtime: interrupted; its machine and its runtime are stopped (%w)", err)
	case err != nil:
		return fmt.Errorf("demo-runtime: %w", err)
	}
	_, err = fmt.Fprintf(c.Out, "demo-runtime: ok gap_bytes=%d duplicate_bytes=%d process_starts=%d\n", result.gap, result.repeated, result.starts)
	return err
}

// outcome is what was measured.
type outcome struct {
	gap, repeated int64
	starts        int
}

func (d *RuntimeCommand) perform(ctx context.Context, c *console.Console) (outcome, error) {
	source, err := locate(d.Source, &d.binaries)
	if err != nil {
		return outcome{}, err
	}
	s := &show{
		Command: &Command{Runner: d.Runner, Source: d.Source, binaries: d.binaries},
		con:     c, dir: filepath.Join(source, ".demo"), tenants: []string{"ada"},
	}
	if _, err := os.Stat(filepath.Join(d.binaries, "flyfleet-runtime")); err != nil {
		return outcome{}, fmt.Errorf("%w; run make build", err)
	}
	if err := s.prepare(ctx, source); err != nil {
		return outcome{}, err
	}
	platform, err := s.platform(ctx)
	if err != nil {
		return outcome{}, err
	}
	result, err := s.survive(ctx)
	after := context.WithoutCancel(ctx)
	return result, errors.Join(err, platform.Close(after), s.remove(after))
}

// survive is the demo once there is a platform.
func (s *show) survive(ctx context.Context) (outcome, error) {
	s.say("terraform apply: one tenant with a machine")
	for _, verb := range [][]string{{"init"}, {"apply", "-auto-approve"}} {
		if err := s.terraform(ctx, verb[0], verb[1:]...); err != nil {
			return outcome{}, err
		}
	}
	s.say("A throw-away Postgres, and a runtime whose model is a script")
	database, err := pglocal.Start(ctx, pglocal.Settings{"fsync": "off"})
	if err != nil {
		return outcome{}, err
	}
	defer database.Stop()
	env, err := s.runtimeEnvironment(database.URL("postgres"))
	if err != nil {
		return outcome{}, err
	}
	s.run.env = append(s.run.env, env...)
	address, err := freeAddress(ctx)
	if err != nil {
		return outcome{}, err
	}
	program := filepath.Join(s.binaries, "flyfleet-runtime")
	first, err := s.run.startReplica(ctx, program, "runtime-1", address)
	if err != nil {
		return outcome{}, err
	}
	defer first.kill()
	key, err := s.run.run(ctx, s.dir, program, "keys", "add", s.tenants[0])
	if err != nil {
		return outcome{}, err
	}
	client := follow.Client("http://"+address, strings.TrimSpace(string(key)))
	return s.watch(ctx, client, first, func() (*replica, error) { return s.run.startReplica(ctx, program, "runtime-2", address) })
}

// runtimeEnvironment points the runtime at the database and the fleet; it finds the tenant's machine itself.
func (s *show) runtimeEnvironment(database string) ([]string, error) {
	// A person's key may not act for the runtime: the machine refuses it.
	root, err := keygen.ReadRoot(filepath.Join(s.stateDir(), "keys", "root.key"))
	if err != nil {
		return nil, err
	}
	signing, err := root.Delegate("rt-demo", []string{prefix + "-*"}, time.Hour, time.Now())
	if err != nil {
		return nil, err
	}
	path, err := keygen.Write(filepath.Join(s.stateDir(), "keys", "rt-demo.key"), signing.String())
	if err != nil {
		return nil, err
	}
	return []string{
		"FLYFLEET_DATABASE_URL=" + database, "FLYFLEET_FLEET=" + prefix, "FLYFLEET_SIGNING_KEY=" + path, "FLYFLEET_LEASE_TTL=3s",
	}, nil
}

// watch submits the command, kills the runtime in the middle of it, starts the next, and follows to the end.
func (s *show) watch(ctx context.Context, client runtimev1connect.RuntimeServiceClient, first *replica, next func() (*replica, error)) (outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, workLimit, errors.New("the command's end does not come"))
	defer cancel()
	session, submission, err := begin(ctx, client)
	if err != nil {
		return outcome{}, err
	}
	s.say("The agent runs a command that writes %d lines", lines)
	t := &tape{}
	var second *replica
	defer func() {
		if second != nil {
			second.kill()
		}
	}()
	err = follow.Events(ctx, client, follow.Session{ID: session, Output: true}, func(e *runtimev1.StreamEventsResponse) error {
		if err := t.take(e); err != nil {
			return err
		}
		if seen := strings.Count(t.output.String(), "\n"); second == nil && seen >= killAt {
			if t.exited != nil {
				return errors.New("the command ended before the runtime could be killed in the middle of it")
			}
			s.say("kill -9 of the runtime, process %d, after %d lines; another is started", first.cmd.Process.Pid, seen)
			first.kill()
			var err error
			if second, err = next(); err != nil {
				return err
			}
			s.tell("process %d goes on where the machine says that the output was", second.cmd.Process.Pid)
		}
		if t.settled != nil {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		return outcome{}, fmt.Errorf("the session ended before its command: %w", err)
	}
	return s.judge(ctx, client, t, second != nil, submission)
}

var errDone = errors.New("the submission has settled")

// judge compares what the viewer got with what the command said at its end.
func (s *show) judge(ctx context.Context, client runtimev1connect.RuntimeServiceClient, t *tape, killed bool, submission string) (outcome, error) {
	if !killed {
		return outcome{}, errors.New("the command was over before the runtime could be killed")
	}
	gap, repeated, said, err := t.verdict()
	if err != nil {
		return outcome{}, err
	}
	if said.starts != 1 || t.settled.GetOutcome() != journalv1.SettledOutcome_SETTLED_OUTCOME_COMPLETED {
		return outcome{}, fmt.Errorf("the command was started %d times, and the work ended as %v", said.starts, t.settled)
	}
	got, err := client.GetSubmission(ctx, connect.NewRequest(&runtimev1.GetSubmissionRequest{SubmissionId: submission}))
	if err != nil {
		return outcome{}, err
	}
	if got.Msg.GetSubmission().GetAttempts() < 1 {
		return outcome{}, errors.New("no owner has died over the submission: nothing was shown")
	}
	s.say("The command's own count and hash are the viewer's")
	s.tell("%d bytes, sha256 %s", said.bytes, said.sha256)
	return outcome{gap: gap, repeated: repeated, starts: said.starts}, nil
}

// begin makes a session and submits the script of the model: one call, and an answer.
func begin(ctx context.Context, client runtimev1connect.RuntimeServiceClient) (session, submission string, err error) {
	made, err := client.CreateSession(ctx, connect.NewRequest(&runtimev1.CreateSessionRequest{Agent: "demo"}))
	if err != nil {
		return "", "", err
	}
	session = made.Msg.GetSession().GetSessionId()
	call, err := json.Marshal(map[string]any{"calls": []any{
		map[string]any{"tool": "exec", "args": map[string]any{"command": fmt.Sprintf(script, lines)}},
	}})
	if err != nil {
		return "", "", err
	}
	submitted, err := client.Submit(ctx, connect.NewRequest(&runtimev1.SubmitRequest{
		SessionId: session, IdempotencyKey: uuid.NewString(),
		Parts: []*runtimev1.InputPart{{Part: &runtimev1.InputPart_Text{Text: string(call) + "\nsay: The command has ended."}}},
	}))
	if err != nil {
		return "", "", err
	}
	return session, submitted.Msg.GetSubmission().GetSubmissionId(), nil
}
