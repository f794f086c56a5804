// Package chat is the verb that talks to an agent on the runtime: lines go in, text, calls and output come out as they
// happen, and cards are decided.
package chat

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/console"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/follow"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/settings"
	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/terminal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1/runtimev1connect"
)

// Names of the variables that say where the runtime is, and who calls.
const (
	URL = "FLYFLEET_RUNTIME_URL"
	Key = "FLYFLEET_RUNTIME_KEY"
)

// Exit codes beside 0 and the program's own.
const (
	// ExitUnsettled: the last input failed or was cancelled.
	ExitUnsettled = 1
	// ExitCard: the input has ended while a card is open.
	ExitCard = 3
)

// Command is `flyfleet chat`.
type Command struct {
	Session   string        `arg:"" help:"Id of the session, or new."`
	Agent     string        `default:"default" help:"Agent of a new session."`
	After     string        `help:"Show what comes after this cursor, instead of the whole session."`
	As        string        `help:"Who decides cards; your user name when left out."`
	TimeLimit time.Duration `help:"Bound of the work on each input; 0 is the server's."`
}

// Help is the long help.
func (*Command) Help() string {
	return `Each line of stdin is an input. While a card is open a line is its decision: y, or n and a reason. /cancel ends the work that
runs, /quit leaves it running; it goes on without you. Without a terminal lines are taken one at a time, each after the one before
has been answered, and at the end of stdin the command ends once all is answered: with 1 when the last input failed, with 3 when a
card is open. With --json every event is one line of JSON, with its cursor: --after goes on there.

FLYFLEET_RUNTIME_URL says where the runtime is, FLYFLEET_RUNTIME_KEY is a key of the tenant (flyfleet-runtime keys add).`
}

// Run talks.
func (m *Command) Run(ctx context.Context, c *console.Console, s *settings.Settings) error {
	url, key := s.Get(URL), s.Get(Key)
	if url == "" || key == "" {
		return fmt.Errorf("%s and %s are not both set: the runtime's address, and a key of the tenant that flyfleet-runtime keys add makes", URL, Key)
	}
	client := follow.Client(url, key)
	id, err := m.open(ctx, c, client)
	if err != nil {
		return explain(err)
	}
	if m.As == "" {
		if u, err := user.Current(); err == nil {
			m.As = u.Username
		}
	}
	t := &talk{
		client: client, session: id, console: c, screen: newScreen(c.Out, c.JSON), as: m.As, limit: m.TimeLimit,
		free: terminal.Of(c.In) != nil, mine: map[string]bool{},
	}
	err = t.run(ctx, m.After)
	if t.cursor != "" {
		c.Note("flyfleet: flyfleet chat %s --after %s goes on here", id, t.cursor)
	}
	return explain(err)
}

// open makes the session, or sees that it is there.
func (m *Command) open(ctx context.Context, c *console.Console, client runtimev1connect.RuntimeServiceClient) (string, error) {
	if m.Session != "new" {
		_, err := client.GetSession(ctx, connect.NewRequest(&runtimev1.GetSessionRequest{SessionId: m.Session}))
		return m.Session, err
	}
	fresh, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	req := &runtimev1.CreateSessionRequest{SessionId: fresh.String(), Agent: m.Agent}
	made, err := follow.Patiently(ctx, func(ctx context.Context) (*connect.Response[runtimev1.CreateSessionResponse], error) {
		return client.CreateSession(ctx, connect.NewRequest(req))
	})
	if err != nil {
		return "", err
	}
	id := made.Msg.GetSession().GetSessionId()
	c.Note("flyfleet: session %s", id)
	return id, nil
}

// explain says what to do about what a server refused.
func explain(err error) error {
	var refused *connect.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code() {
	case connect.CodeUnauthenticated:
		return fmt.Errorf("%w: %s is not a key of this runtime; flyfleet-runtime keys add TENANT makes one", err, Key)
	case connect.CodeUnavailable:
		return fmt.Errorf("%w: is %s the address of a runtime that runs?", err, URL)
	}
	return err
}
