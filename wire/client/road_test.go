package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/wire/client"
	"github.com/flyfleet/terraform-provider-flyfleet/wire/wirev1"
)

// Callers of one machine share its connection, each with scope, fence and token of its own; the end of one leaves it open.
func TestClientsShareARoad(t *testing.T) {
	p, _ := play(t, nil, scene(nil, started(), exit(0, 0)), scene(nil, started(), exit(0, 0)))
	var dialed atomic.Int64
	road := client.NewRoad(func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	t.Cleanup(road.Close)
	for i, scope := range []string{"s/a", "s/b"} {
		token := "token of " + scope
		c, err := client.New(client.Options{
			Address: p.address, Road: road, Scope: scope, Fence: uint64(i + 1),
			Tokens: client.TokenFunc(func(context.Context) (string, error) { return token, nil }),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run(t.Context(), client.Command{Spec: &wirev1.ExecSpec{Argv: [][]byte{[]byte("x")}}}, client.Writers(nil, nil)); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if got := p.execs[i]; got.GetScope() != scope || got.GetFence() != uint64(i+1) || p.tokens[i] != "Bearer "+token {
			t.Errorf("call %d: scope %s, fence %d, %s", i, got.GetScope(), got.GetFence(), p.tokens[i])
		}
	}
	if n := dialed.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
