package swap

import (
	"context"
	"net"
	"strconv"

	"github.com/flyfleet/terraform-provider-flyfleet/wire"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/token"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/transport"
)

// HelloOver makes the wire gate of Options.Hello: it asks a machine over its app's flycast address who it is, as the
// key's owner, under scope.
func HelloOver(dial transport.DialFunc, key token.SigningKey, scope string) func(ctx context.Context, app, machine string) error {
	return func(ctx context.Context, app, machine string) error {
		c, err := client.New(client.Options{
			Address: net.JoinHostPort(app+".flycast", strconv.Itoa(wire.ControlPort)), Dial: dial, Scope: scope,
			Tokens: client.SignWith(key, app, machine, scope, scope),
		})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Hello(ctx)
		return err
	}
}
