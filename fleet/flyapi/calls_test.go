package flyapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
)

const oddConfig = "{ \"image\":\"a\",\n\t\"n\":[1e400,9007199254740993,1.0], \"s\":\"\\u0000<&>\\u003c\",\"unknown\":{\"z\":1,\"a\":2} }"

// The config of an answer and of an update are the same bytes: no compaction, no escaping, no rounding.
func TestConfigTravelsByteForByte(t *testing.T) {
	s := &script{answer: func(c call, _ int) answer {
		return ok(`{"id":"m1","instance_id":"01A","state":"started","config":` + oddConfig + `,"events":[{"type":"exit","request":{"exit_event":{"exited_at":1700000000}}},7]}`)
	}}
	c := client(t, s)
	m, err := c.GetMachine(t.Context(), "app", "m1")
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Config()) != oddConfig {
		t.Fatalf("read   %q\nwanted %q", m.Config(), oddConfig)
	}
	if !strings.Contains(string(m.Raw()), `"exited_at":1700000000`) || len(m.Events) != 1 {
		t.Fatalf("raw %s, events %v", m.Raw(), m.Events)
	}
	if _, err := c.UpdateMachine(t.Context(), "app", "m1", flyapi.UpdateRequest{Config: m.Config(), CurrentVersion: m.InstanceID, SkipLaunch: true}); err != nil {
		t.Fatal(err)
	}
	want := `{"config":` + oddConfig + `,"current_version":"01A","skip_launch":true}`
	if got := s.last(t, "POST /v1/apps/app/machines/m1").body; got != want {
		t.Fatalf("sent   %q\nwanted %q", got, want)
	}
}

// fly-go reads its base URL from the environment only; the configured one wins, and no instance id leaks in from there.
func TestConfiguredEndpointWinsOverTheEnvironment(t *testing.T) {
	t.Setenv("FLY_FLAPS_BASE_URL", "http://elsewhere.test")
	t.Setenv("FLY_FORCE_INSTANCE_ID", "i-forced")
	s := &script{answer: func(call, int) answer {
		return ok(`{"id":"a","name":"a","network":"n","organization":{"slug":"acme"}}`)
	}}
	app, err := client(t, s).GetApp(t.Context(), "a")
	if err != nil || app.Network != "n" || app.Org != "acme" {
		t.Fatalf("app %+v, error %v", app, err)
	}
	got := s.last(t, "GET /v1/apps/a")
	if got.host != "http://fly.test" || got.header.Get("Fly-Force-Instance-Id") != "" {
		t.Fatalf("asked %s with headers %v", got.host, got.header)
	}
}

func TestAuthorizationByTokenKind(t *testing.T) {
	for token, want := range map[string]string{
		"fo1_x":              "Bearer fo1_x",
		"fm2_abc":            "FlyV1 fm2_abc",
		"FlyV1 fm2_abc":      "FlyV1 fm2_abc",
		"fm2_a,fm2_b,fo1_x":  "FlyV1 fm2_a,fm2_b",
		"Bearer some-string": "Bearer some-string",
	} {
		s := &script{answer: func(call, int) answer { return ok(`[]`) }}
		if _, err := client(t, s, func(c *flyapi.Config) { c.Token = token }).ListMachines(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if got := s.last(t, "GET /v1/apps/a/machines").header.Get("Authorization"); got != want {
			t.Errorf("token %q: Authorization %q, want %q", token, got, want)
		}
	}
}

// An error says what was done to what, the status, Fly's text, its code and the request id (andrewbaxter#9: "400 Bad
// Request, body:").
func TestErrorsSayEverything(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   []string
	}{
		{422, `{"error":"could not find a candidate host","status":"insufficient_capacity"}`, []string{"422", "could not find a candidate host", "insufficient_capacity"}},
		{409, `{"status":"error","message":"some conflict","code":"invalid"}`, []string{"409", "some conflict"}},
		{400, ``, []string{"400 Bad Request"}},
		{500, `<html>oops</html>`, []string{"500", "<html>oops</html>"}},
		{404, `{"error":"machine not found"}`, []string{"404", "machine not found"}},
	} {
		s := &script{answer: func(call, int) answer { return answer{status: tc.status, body: tc.body} }}
		_, err := client(t, s).GetMachine(t.Context(), "shop", "m1")
		for _, w := range append(tc.want, "read machine m1 of app shop", "req-1") {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%d %s: error %v lacks %q", tc.status, tc.body, err, w)
			}
		}
		if flyapi.IsNotFound(err) != (tc.status == 404) {
			t.Errorf("%d: IsNotFound is %v", tc.status, flyapi.IsNotFound(err))
		}
	}
}

func TestErrorsOfFlyGoAreOurs(t *testing.T) {
	s := &script{answer: func(call, int) answer {
		return refuse(412, "failed_precondition: volume is currently bound to machine: 148e21")
	}}
	synctest.Test(t, func(t *testing.T) {
		err := client(t, s).DeleteVolume(t.Context(), "shop", "vol_1")
		if !flyapi.IsVolumeBound(err) || flyapi.VolumeHolder(err) != "148e21" || !strings.Contains(err.Error(), "req-1") {
			t.Fatalf("error %v", err)
		}
	})
	// fly-apps/terraform-provider-fly#218, #154: bound for up to a minute after its machine was destroyed.
	if n := s.count("DELETE /v1/apps/shop/volumes/vol_1"); n < 10 {
		t.Fatalf("asked %d times in two minutes", n)
	}
}

func TestVolumeIsDeletedWhenItsMachineLetsGo(t *testing.T) {
	s := &script{answer: func(_ call, n int) answer {
		if n < 4 {
			return refuse(412, "failed_precondition: volume is currently bound to machine: 148e21")
		}
		return ok(`{"id":"vol_1"}`)
	}}
	synctest.Test(t, func(t *testing.T) {
		if err := client(t, s).DeleteVolume(t.Context(), "shop", "vol_1"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestNothingListensSaysWhatToStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	c, err := flyapi.New(flyapi.Config{FlapsURL: url, GraphQLURL: url, Token: "t", Org: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for what, call := range map[string]func() error{
		"raw":     func() error { _, err := c.OrgMachines(t.Context()); return err },
		"fly-go":  func() error { _, err := c.GetApp(t.Context(), "a"); return err },
		"graphql": func() error { _, err := c.ListOrgAddresses(t.Context()); return err },
	} {
		err := call()
		if !flyapi.IsUnreachable(err) || !strings.Contains(err.Error(), "nothing answers at "+url) || !strings.Contains(err.Error(), "flyfleet local up") {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// 429 means not looked at: every method may be repeated (flyctl PR#3961; fly-go does not).
func TestTooManyRequestsIsAskedAgain(t *testing.T) {
	s := &script{answer: func(_ call, n int) answer {
		if n < 3 {
			return refuse(429, "rate limit exceeded")
		}
		return ok(`{"id":"m1","instance_id":"01A"}`)
	}}
	synctest.Test(t, func(t *testing.T) {
		c := client(t, s)
		if _, err := c.CreateMachine(t.Context(), "app", flyapi.CreateRequest{Name: "main", Config: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	})
	if got := s.asked(); !slices.Equal(got, []string{"POST /v1/apps/app/machines", "POST /v1/apps/app/machines", "POST /v1/apps/app/machines"}) {
		t.Fatalf("asked %v", got)
	}
}

// flyctl PR#4825, nodetool-ai/nodetool#5776.
func TestConcurrentUpdateIsAskedAgainAndOtherConflictsAreNot(t *testing.T) {
	for text, want := range map[string]int{
		"aborted: machine update failed due to concurrent update":                                              3,
		"aborted: machine is replacing: concurrent update in progress":                                         3,
		"aborted: could not reserve resource for machine: insufficient memory available to fulfill request on": 1,
		"the current version is another one":                                                                   1,
	} {
		s := &script{answer: func(_ call, n int) answer {
			if n < 3 {
				return refuse(409, text)
			}
			return ok(`{"id":"m1","instance_id":"01B"}`)
		}}
		synctest.Test(t, func(t *testing.T) {
			_, err := client(t, s).UpdateMachine(t.Context(), "app", "m1", flyapi.UpdateRequest{Config: json.RawMessage(`{}`), CurrentVersion: "01A"})
			if n := len(s.asked()); n != want || (err == nil) != (want == 3) {
				t.Errorf("%s: asked %d times, error %v", text, n, err)
			}
			if want == 1 && flyapi.IsVersionConflict(err) != strings.Contains(text, "version") {
				t.Errorf("%s: IsVersionConflict is %v", text, flyapi.IsVersionConflict(err))
			}
		})
	}
}

// Fly answers 400 to a wait of more than 60 s (omadia#706, spawn#1619), and 408 when the time is over.
func TestWaitGoesInSlicesOfAtMostAMinute(t *testing.T) {
	s := &script{}
	s.answer = func(c call, n int) answer {
		if !strings.Contains(c.query, "version=01B") || !strings.Contains(c.query, "state=settled") {
			t.Errorf("waited for %s", c.query)
		}
		for _, part := range strings.Split(c.query, "&") {
			if v, found := strings.CutPrefix(part, "timeout="); found {
				d, err := time.ParseDuration(v + "s")
				if err != nil || d < time.Second || d > time.Minute {
					t.Errorf("asked for %s", part)
				}
				time.Sleep(d) // the bubble's clock
			}
		}
		return refuse(408, "deadline_exceeded: machine failed to reach desired state, started, currently stopped")
	}
	synctest.Test(t, func(t *testing.T) {
		err := client(t, s).WaitMachine(t.Context(), "app", "m1", flyapi.WaitRequest{InstanceID: "01B", Budget: 150 * time.Second})
		if !flyapi.IsTimeout(err) || len(s.asked()) != 3 {
			t.Errorf("asked %d times, error %v", len(s.asked()), err)
		}
	})
}

func TestWaitForTheEndOfAMachineThatIsGone(t *testing.T) {
	s := &script{answer: func(call, int) answer { return refuse(404, "machine not found") }}
	c := client(t, s)
	if err := c.WaitMachine(t.Context(), "app", "m1", flyapi.WaitRequest{States: []string{flyapi.StateDestroyed}}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitMachine(t.Context(), "app", "m1", flyapi.WaitRequest{}); !flyapi.IsNotFound(err) {
		t.Fatalf("error %v", err)
	}
}

func TestDeletingWhatIsGoneSucceeds(t *testing.T) { // fly-apps/terraform-provider-fly#163: app deleted first, children then 404
	s := &script{answer: func(call, int) answer { return refuse(404, "app not found") }}
	c := client(t, s)
	for what, err := range map[string]error{
		"machine":  c.DestroyMachine(t.Context(), "a", "m", true, flyapi.Lease{}),
		"volume":   c.DeleteVolume(t.Context(), "a", "v"),
		"app":      c.DeleteApp(t.Context(), "a"),
		"address":  c.ReleaseAddress(t.Context(), "a", "fdaa::1"),
		"metadata": c.DeleteMetadata(t.Context(), "a", "m", "k"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The documented rate, a burst one smaller: 1/s per action and id with a burst of 2; reads of one machine 5/s with 9. By the bubble's clock.
func TestPaceIsKeptPerActionAndID(t *testing.T) {
	s := &script{answer: func(call, int) answer { return ok(`{"id":"m1"}`) }}
	synctest.Test(t, func(t *testing.T) {
		c := client(t, s, func(c *flyapi.Config) { c.Pace = flyapi.PaceDocumented })
		start := time.Now()
		spent := func() time.Duration { return time.Since(start).Round(100 * time.Millisecond) }
		for range 2 {
			if err := c.CordonMachine(t.Context(), "a", "m1", flyapi.Lease{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"m2", "m3"} { // other ids have their own allowance, and so has another action
			if err := c.CordonMachine(t.Context(), "a", id, flyapi.Lease{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.StartMachine(t.Context(), "a", "m1", flyapi.Lease{}); err != nil {
			t.Fatal(err)
		}
		for range 9 {
			if _, err := c.GetMachine(t.Context(), "a", "m1"); err != nil {
				t.Fatal(err)
			}
		}
		if spent() != 0 {
			t.Errorf("the bursts were held back")
		}
		for range 2 {
			if err := c.CordonMachine(t.Context(), "a", "m1", flyapi.Lease{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := spent(); got != 2*time.Second {
			t.Errorf("the fourth call of one action came after %s", got)
		}
	})
}

// Waiting for one's turn does not use up the time of the call.
func TestManyCreatesInOneAppAllGetTheirTurn(t *testing.T) {
	s := &script{answer: func(call, int) answer { return ok(`{"id":"m1"}`) }}
	synctest.Test(t, func(t *testing.T) {
		c := client(t, s, func(c *flyapi.Config) { c.Pace = flyapi.PaceDocumented })
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if _, err := c.CreateMachine(t.Context(), "app", flyapi.CreateRequest{Name: "main", Config: json.RawMessage(`{}`)}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

func TestAnswerPastTheLimitIsRefused(t *testing.T) {
	s := &script{answer: func(call, int) answer { return ok(`[` + strings.Repeat(" ", 65<<20) + `]`) }}
	_, err := client(t, s).ListMachines(t.Context(), "a")
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("error %v", err)
	}
}

func TestCauseOfAnEndedContextIsTheError(t *testing.T) {
	cause := errors.New("the operator pressed Ctrl-C")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &script{answer: func(call, int) answer { cancel(cause); return answer{err: context.Canceled} }}
	_, err := client(t, s).GetMachine(ctx, "a", "m")
	if !errors.Is(err, cause) {
		t.Fatalf("error %v", err)
	}
}

func TestLogsHoldNoTokenAndNoBody(t *testing.T) {
	var log strings.Builder
	s := &script{answer: func(call, int) answer { return ok(`{"id":"m1","config":{"env":{"K":"answersecret"}}}`) }}
	c := client(t, s, func(c *flyapi.Config) {
		c.Token = "fo1_tokensecret"
		c.Log = slog.New(slog.NewTextHandler(io.Writer(&log), &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if _, err := c.UpdateMachine(t.Context(), "a", "m1", flyapi.UpdateRequest{Config: json.RawMessage(`{"env":{"K":"sentsecret"}}`)}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "/v1/apps/a/machines/m1") || strings.Contains(log.String(), "secret") {
		t.Fatalf("log: %s", log.String())
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, cfg := range map[string]flyapi.Config{
		"no token":   {},
		"no scheme":  {Token: "t", FlapsURL: "127.0.0.1:4280"},
		"bad scheme": {Token: "t", GraphQLURL: "ftp://x"},
	} {
		if _, err := flyapi.New(cfg); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestExecSendsAList(t *testing.T) {
	s := &script{answer: func(call, int) answer { return ok(`{"exit_code":3,"stdout":"out","stderr":"err"}`) }}
	r, err := client(t, s).ExecMachine(t.Context(), "a", "m1", []string{"/bin/p", "--json", "a b"}, 1500*time.Millisecond)
	if err != nil || r.ExitCode != 3 || r.Stdout != "out" {
		t.Fatalf("%+v %v", r, err)
	}
	if got := s.last(t, "POST /v1/apps/a/machines/m1/exec").body; got != `{"command":["/bin/p","--json","a b"],"timeout":2}` {
		t.Fatalf("sent %s", got)
	}
}

// A command may not bear being run twice.
func TestExecIsNeverRepeated(t *testing.T) {
	s := &script{answer: func(call, int) answer { return answer{status: http.StatusBadGateway} }}
	synctest.Test(t, func(t *testing.T) {
		_, err := client(t, s).ExecMachine(t.Context(), "a", "m1", []string{"x"}, time.Second)
		if err == nil || len(s.asked()) != 1 {
			t.Fatalf("asked %v, error %v", s.asked(), err)
		}
	})
}
