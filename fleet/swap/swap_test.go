package swap_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/faults"
	"github.com/flyfleet/terraform-provider-flyfleet/flylocal/runner/none"
)

// The POST differs from the last GET in /image and in nothing else, byte for byte, also in what was set from outside.
// flyctl#1469, #1543, PR#1211, PR#1073, PR#1571, PR#2070: env, mounts, metadata and unknown fields were lost.
func TestImageSwapKeepsUnknownFields(t *testing.T) {
	l := newLab(t)
	odd := `{"env":{"B":"<&>", "A":"1"},"x_numbers":[9007199254740993,1e400,1.0],"image":"` + oldImage + `","x_text":"\u0000","guest":{"cpu_kind":"shared","cpus":1,"memory_mb":256},"init":{"swap_size_mb":512}}`
	m := l.machine("odd", odd, flyapi.StateStarted, false)
	outcome, err := l.engine.Swap(t.Context(), target(m, "odd"))
	wants(t, outcome, err, swap.Swapped, "")

	posts := l.tape.updates(m.ID)
	if len(posts) != 1 {
		t.Fatalf("%d updates", len(posts))
	}
	var last string
	for _, c := range l.tape.find(func(c taped) bool {
		return c.method == "GET" && strings.HasSuffix(c.path, m.ID) && strings.Contains(c.got, oldDigest)
	}) {
		last = c.got
	}
	var before struct {
		InstanceID string          `json:"instance_id"`
		Config     json.RawMessage `json:"config"`
	}
	l.must(json.Unmarshal([]byte(last), &before))
	for _, must := range []string{"9007199254740993", "1e400", "1.0", `\u0000`, `"x_text"`} {
		if !strings.Contains(string(before.Config), must) {
			t.Fatalf("the platform lost %s itself: %s", must, before.Config)
		}
	}
	want := `{"config":` + strings.Replace(string(before.Config), oldImage, newImage, 1) + `,"current_version":"` + before.InstanceID + `"}`
	if posts[0].sent != want {
		t.Errorf("sent   %s\nwanted %s", posts[0].sent, want)
	}
	after := l.get("odd", m.ID)
	if after.ImageRef.Digest != newDigest || outcome.Gate != swap.GateProbe || outcome.InstanceID != after.InstanceID {
		t.Errorf("after %s, outcome %+v", after.ImageRef, outcome)
	}
}

// State and cordon are equal before and after, except that a suspended machine ends stopped; nothing cold is started.
// A public provider's swap woke every idle sandbox; flyctl#4707, PR#4754, PR#5128.
func TestStateAndCordonAreKept(t *testing.T) {
	l := newLab(t)
	for _, state := range []string{flyapi.StateStarted, flyapi.StateStopped, flyapi.StateSuspended} {
		for _, cordoned := range []bool{false, true} {
			app := state
			if cordoned {
				app += "-cordoned"
			}
			t.Run(app, func(t *testing.T) {
				m := l.machine(app, plain(""), state, cordoned)
				outcome, err := l.engine.Swap(t.Context(), target(m, app))
				wants(t, outcome, err, swap.Swapped, "")
				after := l.get(app, m.ID)
				want := state
				if state == flyapi.StateSuspended {
					want = flyapi.StateStopped
				}
				if after.State != want || after.Cordoned != cordoned || after.ImageRef.Digest != newDigest || after.InstanceID == m.InstanceID {
					t.Errorf("%s, cordoned %v, image %s", after.State, after.Cordoned, after.ImageRef)
				}
				if sent := l.tape.updates(m.ID)[0].sent; strings.Contains(sent, `"skip_service_registration":true`) != cordoned {
					t.Errorf("cordoned %v, sent %s", cordoned, sent)
				}
				if outcome.StateBefore != state || outcome.StateAfter != want {
					t.Errorf("outcome %+v", outcome)
				}
				if state == flyapi.StateStarted {
					return
				}
				if outcome.Gate != swap.GateCold || len(l.tape.execs("")) > 0 || len(l.tape.to("POST", "/start")) > 0 {
					t.Errorf("a cold machine was touched: gate %s, %d execs", outcome.Gate, len(l.tape.execs("")))
				}
				for _, e := range after.Events[:max(0, len(after.Events)-len(m.Events))] {
					if e.Type == "start" {
						t.Errorf("it was started: %+v", e)
					}
				}
				if (state == flyapi.StateSuspended) != strings.Contains(strings.Join(outcome.Warnings, " "), "suspended") {
					t.Errorf("warnings %v", outcome.Warnings)
				}
			})
		}
	}
}

// flyctl PR#4878, PR#4921: the pull fails, Fly goes back to the old version, its state and checks are fine.
func TestSilentRevertIsAnError(t *testing.T) {
	l := newLab(t)
	l.Faults.FailPull(newDigest, "")
	for _, state := range []string{flyapi.StateStarted, flyapi.StateStopped} {
		m := l.machine("revert-"+state, plain(""), state, false)
		outcome, err := l.engine.Swap(t.Context(), target(m, "revert-"+state))
		wants(t, outcome, err, swap.Failed, swap.CodeReverted)
		if !outcome.Written || !strings.Contains(err.Error(), oldDigest) || !strings.Contains(err.Error(), m.ID) {
			t.Errorf("outcome %+v, error %v", outcome, err)
		}
		if after := l.get("revert-"+state, m.ID); after.State != state || after.ImageRef.Digest != oldDigest {
			t.Errorf("after: %s %s", after.State, after.ImageRef)
		}
	}
}

func TestForeignLeaseIsNamedAndNothingIsWritten(t *testing.T) {
	l := newLab(t)
	m := l.machine("leased", plain(""), flyapi.StateStarted, false)
	l.must(l.client.WithLease(t.Context(), "leased", m.ID, func(ctx context.Context, _ flyapi.Lease) error {
		l.tape.clear()
		outcome, err := l.engine.Swap(ctx, target(m, "leased"))
		wants(t, outcome, err, swap.Skipped, swap.CodeLeased)
		var held *flyapi.LeaseHeldError
		if !errors.As(err, &held) || held.Holder != "local@flylocal.invalid" || held.Expires.IsZero() || !strings.Contains(outcome.Reason, held.Holder) {
			t.Errorf("error %v", err)
		}
		if len(l.tape.updates(m.ID)) > 0 || outcome.Written {
			t.Error("written under another's lease")
		}
		if len(l.tape.execs("--quiesce")) == 0 || len(l.tape.execs("--resume")) != 1 {
			t.Error("the door was not opened again")
		}
		return nil
	}))
}

func TestSameDigestWritesNothing(t *testing.T) {
	l := newLab(t)
	m := l.machine("same", plain(""), flyapi.StateStarted, false)
	for _, image := range []string{oldImage, "registry.fly.io/tenant:v1@" + oldDigest, "other.example/mirror@" + oldDigest} {
		tg := target(m, "same")
		tg.Image = image
		outcome, err := l.engine.Swap(t.Context(), tg)
		wants(t, outcome, err, swap.Unchanged, "")
		if n := len(l.tape.find(func(c taped) bool { return c.method != "GET" })); n > 0 {
			t.Errorf("%s: %d calls that are no GET", image, n)
		}
	}
}

func TestBusyMachineIsWaitedFor(t *testing.T) {
	l := newLab(t)
	m := l.machine("busy", plain(""), flyapi.StateStarted, false)
	l.on(faults.Rule{Method: "POST", Path: "**/exec", Contains: "--quiesce", Times: 3, Status: 200, Body: probeLine(2, "busy")})
	outcome, err := l.engine.Swap(t.Context(), target(m, "busy"))
	wants(t, outcome, err, swap.Swapped, "")
	if n := len(l.tape.execs("--quiesce")); n != 4 || outcome.Interrupted != 0 {
		t.Errorf("asked %d times, %d interrupted", n, outcome.Interrupted)
	}
}

func TestBusyMachineIsSkippedAtTheDrainTimeout(t *testing.T) {
	l := newLab(t)
	m := l.machine("busy", plain(""), flyapi.StateStarted, false)
	l.on(faults.Rule{Method: "POST", Path: "**/exec", Contains: "--quiesce", Times: -1, Status: 200, Body: probeLine(2, "busy")})
	tg := target(m, "busy")
	tg.DrainTimeout = 50 * time.Millisecond
	outcome, err := l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Skipped, swap.CodeBusy)
	if !strings.Contains(outcome.Reason, "2 running command") || len(l.tape.updates(m.ID)) > 0 || len(l.tape.to("POST", "/lease")) > 0 {
		t.Errorf("outcome %+v", outcome)
	}
}

// A control server that does not answer may run something: never killed on a guess.
func TestSilentControlServerIsWaitedFor(t *testing.T) {
	l := newLab(t)
	m := l.machine("silent", plain(""), flyapi.StateStarted, false)
	l.must(l.Faults.ScriptExec(oldDigest, none.Answer{ExitCode: 1, Stderr: "dial unix /run/flyfleet/control.sock: refused"}))
	tg := target(m, "silent")
	tg.DrainTimeout = 50 * time.Millisecond
	outcome, err := l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Skipped, swap.CodeBusy)
	if !strings.Contains(outcome.Reason, "did not answer") {
		t.Errorf("reason %s", outcome.Reason)
	}
	tg.Busy = swap.BusyInterrupt
	outcome, err = l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Swapped, "")
	if len(outcome.Warnings) == 0 {
		t.Error("not said that running commands were unknown")
	}
}

func TestInterruptSaysHowManyCommandsRan(t *testing.T) {
	l := newLab(t)
	m := l.machine("busy", plain(""), flyapi.StateStarted, false)
	l.on(faults.Rule{Method: "POST", Path: "**/exec", Contains: "--quiesce", Status: 200, Body: probeLine(2, "busy")})
	tg := target(m, "busy")
	tg.Busy = swap.BusyInterrupt
	outcome, err := l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Swapped, "")
	if outcome.Interrupted != 2 {
		t.Errorf("outcome %+v", outcome)
	}
}

// The door is opened again whenever nothing was written after it had been closed.
func TestDoorIsOpenedAgainWhenTheUpdateIsRefused(t *testing.T) {
	l := newLab(t)
	m := l.machine("refused", plain(""), flyapi.StateStarted, false)
	l.on(faults.Rule{Method: "POST", Path: "/v1/apps/refused/machines/" + m.ID, Status: 422, Body: `{"error":"could not find a candidate host","status":"insufficient_capacity"}`})
	outcome, err := l.engine.Swap(t.Context(), target(m, "refused"))
	wants(t, outcome, err, swap.Failed, swap.CodeAPI)
	if outcome.Written || len(l.tape.execs("--resume")) != 1 || !strings.Contains(outcome.Reason, "insufficient_capacity") {
		t.Errorf("outcome %+v", outcome)
	}
	if got := l.get("refused", m.ID); got.InstanceID != m.InstanceID || got.Nonce != "" {
		t.Errorf("version %s, nonce %q", got.InstanceID, got.Nonce)
	}
}

// flyctl PR#4825: the concurrent kind of 409, and 429, are asked again; also a lost answer is no second version.
func TestTroubleOnTheWayIsOvercome(t *testing.T) {
	for name, tc := range map[string]struct {
		rule  faults.Rule
		posts int
	}{
		"concurrent update": {faults.Rule{Status: 409, Body: `{"error":"aborted: machine update failed due to concurrent update"}`}, 2},
		"rate limit":        {faults.Rule{Status: 429, Body: `{"error":"rate limit exceeded"}`, Header: map[string]string{"Retry-After": "0"}}, 2},
		"not made":          {faults.Rule{Status: 502}, 2},
		"made, answer lost": {faults.Rule{Status: 502, Execute: true}, 1},
		"connection cut":    {faults.Rule{Drop: true, Execute: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			m := l.machine("trouble", plain(""), flyapi.StateStarted, false)
			tc.rule.Method, tc.rule.Path = "POST", "/v1/apps/trouble/machines/"+m.ID
			l.on(tc.rule)
			outcome, err := l.engine.Swap(t.Context(), target(m, "trouble"))
			wants(t, outcome, err, swap.Swapped, "")
			posts := 0
			for _, r := range l.Faults.Requests(0) {
				if r.Method == http.MethodPost && r.Path == tc.rule.Path {
					posts++
				}
			}
			if posts != tc.posts {
				t.Errorf("%d updates, want %d", posts, tc.posts)
			}
		})
	}
}

// A write by somebody without a lease between our look and our update is kept: the update is made anew from it.
func TestVersionConflictIsMergedAnew(t *testing.T) {
	l := newLab(t)
	m := l.machine("raced", plain(`,"env":{"A":"1"}`), flyapi.StateStarted, false)
	l.on(faults.Rule{Method: "POST", Path: "/v1/apps/raced/machines/" + m.ID, Status: 409, Body: `{"error":"aborted: machine version 01 is not current, the current one is 02"}`})
	outcome, err := l.engine.Swap(t.Context(), target(m, "raced"))
	wants(t, outcome, err, swap.Swapped, "")
	if n := len(l.tape.updates(m.ID)); n != 2 {
		t.Errorf("%d updates", n)
	}
}

// flyctl PR#3732, PR#3034, PR#3840: a host that is away is reported, and nothing is written to it.
func TestUnreachableHostIsReportedNotWritten(t *testing.T) {
	l := newLab(t)
	m := l.machine("away", plain(""), flyapi.StateStarted, false)
	l.must(l.Faults.Host(m.ID, "unreachable"))
	outcome, err := l.engine.Swap(t.Context(), target(m, "away"))
	if outcome.Status != swap.Skipped || (outcome.Code != swap.CodeUnreachable && outcome.Code != swap.CodeIncomplete) {
		t.Fatalf("outcome %+v, error %v", outcome, err)
	}
	if n := len(l.tape.find(func(c taped) bool { return c.method != "GET" })); n > 0 {
		t.Errorf("%d calls that are no GET", n)
	}
}

// flyctl#1177, #2852: `destroyed` with status 200 is gone, like a 404.
func TestDestroyedMachineIsGone(t *testing.T) {
	l := newLab(t)
	m := l.machine("gone", plain(""), flyapi.StateStarted, false)
	l.must(l.client.DestroyMachine(t.Context(), "gone", m.ID, true, flyapi.Lease{}))
	l.must(l.client.WaitMachine(t.Context(), "gone", m.ID, flyapi.WaitRequest{States: []string{flyapi.StateDestroyed}}))
	for _, id := range []string{m.ID, "0000000000000f"} {
		tg := target(m, "gone")
		tg.Machine = id
		outcome, err := l.engine.Swap(t.Context(), tg)
		wants(t, outcome, err, swap.Skipped, swap.CodeGone)
	}
}

func TestGatesSayWhatTheNewVersionWasJudgedBy(t *testing.T) {
	noServer := none.Answer{ExitCode: 127, Stderr: "not found"}
	otherWire := none.Answer{Stdout: `{"wire":{"min":2,"max":3},"state":"serving"}`}
	mute := none.Answer{ExitCode: 1, Stderr: "no answer"}
	for name, tc := range map[string]struct {
		before, after []none.Answer
		hello         error
		status        swap.Status
		code          swap.Code
		gate          swap.Gate
	}{
		"our control server":         {nil, nil, nil, swap.Swapped, "", swap.GateWire},
		"an image without one":       {[]none.Answer{noServer}, []none.Answer{noServer}, nil, swap.Swapped, "", swap.GateChecks},
		"one that came":              {[]none.Answer{noServer}, nil, nil, swap.Swapped, "", swap.GateWire},
		"one that went":              {nil, []none.Answer{noServer}, nil, swap.Failed, swap.CodeProbe, swap.GateChecks},
		"one that does not answer":   {nil, []none.Answer{mute}, nil, swap.Failed, swap.CodeProbe, swap.GateChecks},
		"one that speaks other wire": {nil, []none.Answer{otherWire}, nil, swap.Failed, swap.CodeWire, swap.GateChecks},
		"one that says no Hello":     {nil, nil, errors.New("unauthenticated"), swap.Failed, swap.CodeWire, swap.GateProbe},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, func(o *swap.Options) {
				o.Hello = func(context.Context, string, string) error { return tc.hello }
			})
			m := l.machine("gates", plain(`,"checks":{"alive":{"type":"tcp","port":8080,"interval":"1s","timeout":"1s"}}`), flyapi.StateStarted, false)
			l.must(l.Faults.ScriptExec(oldDigest, tc.before...))
			l.must(l.Faults.ScriptExec(newDigest, tc.after...))
			tg := target(m, "gates")
			if tc.status == swap.Failed && tc.after != nil {
				tg.GateTimeout = 2 * time.Second
			}
			outcome, err := l.engine.Swap(t.Context(), tg)
			wants(t, outcome, err, tc.status, tc.code)
			if outcome.Gate != tc.gate || !outcome.Written {
				t.Errorf("outcome %+v", outcome)
			}
		})
	}
}

// An image that is not ours may have Fly refuse the question itself, in words that nobody documented.
func TestImageThatCannotBeAskedIsSwappedUnlessItDeclaresAControlServer(t *testing.T) {
	for _, declared := range []bool{false, true} {
		l := newLab(t)
		metadata := ""
		if declared {
			metadata = `,"metadata":{"flyfleet_wire":"1"}`
		}
		m := l.machine("refuses", plain(metadata), flyapi.StateStarted, false)
		l.on(faults.Rule{Method: "POST", Path: "**/exec", Times: -1, Status: 500, Body: `{"error":"unknown: something about a program"}`})
		outcome, err := l.engine.Swap(t.Context(), target(m, "refuses"))
		if declared {
			wants(t, outcome, err, swap.Failed, swap.CodeAPI)
			if outcome.Written {
				t.Error("written without having asked")
			}
			continue
		}
		wants(t, outcome, err, swap.Swapped, "")
		if outcome.Gate != swap.GateChecks || len(outcome.Warnings) != 1 {
			t.Errorf("outcome %+v", outcome)
		}
	}
}

func TestColdMachineIsVerifiedAndColdAgain(t *testing.T) {
	l := newLab(t)
	for _, state := range []string{flyapi.StateStopped, flyapi.StateSuspended} {
		m := l.machine("verify-"+state, plain(""), state, false)
		tg := target(m, "verify-"+state)
		tg.OnCold = swap.ColdVerify
		outcome, err := l.engine.Swap(t.Context(), tg)
		wants(t, outcome, err, swap.Swapped, "")
		if after := l.get("verify-"+state, m.ID); after.State != flyapi.StateStopped || outcome.Gate != swap.GateProbe {
			t.Errorf("%s, outcome %+v", after.State, outcome)
		}
	}
	l.must(l.Faults.ScriptExec(newDigest, none.Answer{ExitCode: 1}))
	m := l.machine("verify-bad", plain(""), flyapi.StateStopped, false)
	tg := target(m, "verify-bad")
	tg.OnCold, tg.GateTimeout = swap.ColdVerify, 50*time.Millisecond
	outcome, err := l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Failed, swap.CodeProbe)
	if after := l.get("verify-bad", m.ID); after.State != flyapi.StateStopped {
		t.Errorf("left %s", after.State)
	}
}

// A bad image costs three machines, not all.
func TestBreakerRefusesBeforeAnyWrite(t *testing.T) {
	l := newLab(t)
	l.Faults.FailPull(newDigest, "")
	for _, app := range []string{"b1", "b2", "b3"} {
		outcome, err := l.engine.Swap(t.Context(), target(l.machine(app, plain(""), flyapi.StateStopped, false), app))
		wants(t, outcome, err, swap.Failed, swap.CodeReverted)
	}
	m := l.machine("b4", plain(""), flyapi.StateStopped, false)
	outcome, err := l.engine.Swap(t.Context(), target(m, "b4"))
	wants(t, outcome, err, swap.Skipped, swap.CodeBreaker)
	if n := len(l.tape.find(func(taped) bool { return true })); n > 0 {
		t.Errorf("%d calls after the breaker had opened", n)
	}
	tg := target(m, "b4")
	tg.Image = "registry.fly.io/tenant@sha256:" + strings.Repeat("3", 64)
	outcome, err = l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Swapped, "") // another image is another story
}

func TestOwnerOfTheImageIsAsked(t *testing.T) {
	l := newLab(t)
	for _, tc := range []struct {
		owner string
		as    swap.Owner
		force bool
		want  swap.Status
	}{
		{"terraform", swap.OwnerRollout, false, swap.Skipped},
		{"terraform", "", false, swap.Skipped},
		{"terraform", swap.OwnerRollout, true, swap.Swapped},
		{"terraform", swap.OwnerTerraform, false, swap.Swapped},
		{"rollout", swap.OwnerTerraform, false, swap.Skipped},
		{"rollout", swap.OwnerRollout, false, swap.Swapped},
		{"someone", swap.OwnerRollout, false, swap.Skipped},
		{"", swap.OwnerTerraform, false, swap.Swapped},
	} {
		app := strings.Join([]string{"owned", tc.owner, string(tc.as), map[bool]string{true: "f", false: "n"}[tc.force]}, "-")
		m := l.machine(app, plain(`,"metadata":{"flyfleet_image_owner":"`+tc.owner+`"}`), flyapi.StateStopped, false)
		tg := target(m, app)
		tg.As, tg.Force = tc.as, tc.force
		outcome, err := l.engine.Swap(t.Context(), tg)
		code := swap.Code("")
		if tc.want == swap.Skipped {
			code = swap.CodeOwned
		}
		wants(t, outcome, err, tc.want, code)
		if tc.force && len(outcome.Warnings) == 0 {
			t.Errorf("%s: forced without a word", app)
		}
	}
}

func TestMachineOfAnotherFleetIsLeftAlone(t *testing.T) {
	l := newLab(t)
	m := l.machine("foreign", plain(`,"metadata":{"flyfleet_fleet":"theirs"}`), flyapi.StateStopped, false)
	tg := target(m, "foreign")
	tg.Fleet = "ours"
	outcome, err := l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Skipped, swap.CodeForeign)
}

func TestImageChangedMeanwhileIsAConflict(t *testing.T) {
	l := newLab(t)
	m := l.machine("moved", plain(""), flyapi.StateStopped, false)
	tg := target(m, "moved")
	tg.From = "registry.fly.io/tenant@sha256:" + strings.Repeat("9", 64)
	outcome, err := l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Skipped, swap.CodeConflict)
	tg.Overwrite = true
	outcome, err = l.engine.Swap(t.Context(), tg)
	wants(t, outcome, err, swap.Swapped, "")
}

// A caller that gives up right after the update was sent is told so, the lease is not left behind, and the next run finds
// the work done.
func TestGivingUpAfterTheUpdateLeavesNoLeaseAndNoSecondVersion(t *testing.T) {
	l := newLab(t)
	m := l.machine("killed", plain(""), flyapi.StateStarted, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.tape.hook(func(c taped) {
		if c.method == "POST" && strings.HasSuffix(c.path, m.ID) {
			cancel()
		}
	})
	outcome, err := l.engine.Swap(ctx, target(m, "killed"))
	wants(t, outcome, err, swap.Failed, swap.CodeCanceled)
	if !outcome.Written {
		t.Errorf("outcome %+v", outcome)
	}
	l.tape.hook(nil)
	l.rest("killed", m.ID, flyapi.StateStarted)
	if got := l.get("killed", m.ID); got.Nonce != "" {
		t.Error("the lease was left behind")
	}
	l.tape.clear()
	outcome, err = l.engine.Swap(t.Context(), target(m, "killed"))
	wants(t, outcome, err, swap.Unchanged, "")
}

// A caller that gives up while it waits for commands has changed nothing.
func TestGivingUpWhileDrainingChangesNothing(t *testing.T) {
	l := newLab(t)
	m := l.machine("killed", plain(""), flyapi.StateStarted, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.tape.hook(func(c taped) {
		if strings.Contains(c.sent, "--quiesce") {
			cancel()
		}
	})
	outcome, err := l.engine.Swap(ctx, target(m, "killed"))
	wants(t, outcome, err, swap.Skipped, swap.CodeCanceled)
	if outcome.Written || len(l.tape.updates(m.ID)) > 0 || len(l.tape.execs("--resume")) != 1 {
		t.Errorf("outcome %+v, %d resumes", outcome, len(l.tape.execs("--resume")))
	}
}

func TestBadTargetIsRefusedWithoutACall(t *testing.T) {
	l := newLab(t)
	for _, tg := range []swap.Target{
		{App: "a", Machine: "m"},
		{App: "a", Image: newImage},
		{App: "a", Machine: "m", Image: "r@sha256:short"},
		{App: "a", Machine: "m", Image: newImage, Busy: "later"},
	} {
		outcome, err := l.engine.Swap(t.Context(), tg)
		wants(t, outcome, err, swap.Failed, swap.CodeInvalid)
	}
	if n := len(l.tape.find(func(taped) bool { return true })); n > 0 {
		t.Errorf("%d calls", n)
	}
}
