package swap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/fleet/flyapi"
	"github.com/flyfleet/terraform-provider-flyfleet/fleet/swap"
)

// stranger is a platform that does what the local one does not: it loses leases, changes the cordon, reads stopped for
// a moment. It answers over HTTP's types through the real client, and is used inside synctest bubbles.
type stranger struct {
	mu                     sync.Mutex
	hold                   time.Duration // how long the answer under way is held back
	state, instance, image string
	cordoned, incomplete   bool
	checks, host           string
	asked                  []string
	execs                  int

	leaseGone bool                       // refreshes are refused
	onUpdate  func(s *stranger)          // what an update does besides
	onGet     func(s *stranger, get int) // before each answer to a GET
	probe     func(exec int) string      // the body of an exec answer
	gets      int

	refuse func(s *stranger, post int) string // the text of a 409 to an update, "" to take it
	posts  int
}

func (s *stranger) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	what := req.Method + " " + strings.TrimPrefix(req.URL.Path, "/v1/apps/a/machines/m1")
	s.mu.Lock()
	s.asked = append(s.asked, what)
	s.hold = 0
	status, body := s.answer(what, req)
	hold := s.hold
	s.mu.Unlock()
	time.Sleep(hold) // the bubble's clock
	rec := &http.Response{StatusCode: status, Header: http.Header{}, Request: req}
	rec.Body = readCloser{strings.NewReader(body)}
	return rec, nil
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func (s *stranger) answer(what string, req *http.Request) (int, string) {
	switch what {
	case "GET ":
		s.gets++
		if s.onGet != nil {
			s.onGet(s, s.gets)
		}
		return 200, s.view()
	case "POST ":
		s.posts++
		if s.refuse != nil {
			if text := s.refuse(s, s.posts); text != "" {
				return 409, fmt.Sprintf(`{"error":%q}`, text)
			}
		}
		s.instance, s.image = s.instance+"+", newDigest
		s.state = "replacing"
		view := s.view()
		s.state = "started"
		if s.onUpdate != nil {
			s.onUpdate(s)
		}
		return 200, view
	case "POST /lease":
		if s.leaseGone && req.Header.Get("fly-machine-lease-nonce") != "" {
			return 409, `{"status":"error","message":"machine ID m1 lease currently held by other, expires at 2026-01-02T03:04:05Z"}`
		}
		return 201, `{"status":"success","data":{"nonce":"n"}}`
	case "POST /exec":
		s.execs++
		if s.probe != nil {
			return 200, s.probe(s.execs)
		}
		if s.execs == 1 {
			return 200, probeLine(0, "closed")
		}
		return 200, probeLine(0, "")
	case "GET /wait":
		if !slices.Contains([]string{"started", "stopped", "suspended", "failed", "created"}, s.state) || (req.URL.Query().Get("state") == "started" && s.state != "started") {
			s.hold = time.Minute
			return 408, `{"error":"deadline_exceeded: machine failed to reach desired state"}`
		}
		return 200, `{"ok":true}`
	}
	return 200, `{"ok":true}`
}

func (s *stranger) view() string {
	checks := s.checks
	if checks == "" {
		checks = "[]"
	}
	return fmt.Sprintf(`{"id":"m1","name":"main","state":%q,"instance_id":%q,"host_status":%q,"cordoned":%v,"incomplete_config":%v,"checks":%s,
		"image_ref":{"registry":"r","repository":"t","digest":%q},"config":{"image":"r/t@%s","checks":{"alive":{}}}}`,
		s.state, s.instance, s.host, s.cordoned, s.incomplete, checks, s.image, s.image)
}

func (s *stranger) count(what string) int {
	n := 0
	for _, a := range s.asked {
		if a == what {
			n++
		}
	}
	return n
}

func strange(t *testing.T, change func(s *stranger)) (*stranger, func(swap.Target) (swap.Outcome, error)) {
	t.Helper()
	s := &stranger{state: "started", instance: "01", image: oldDigest, host: "ok", checks: `[{"name":"alive","status":"passing"}]`}
	change(s)
	c, err := flyapi.New(flyapi.Config{FlapsURL: "http://fly.test", Token: "t", Transport: s, Pace: flyapi.PaceOff})
	if err != nil {
		t.Fatal(err)
	}
	e := swap.New(c, swap.Options{})
	return s, func(tg swap.Target) (swap.Outcome, error) {
		tg.App, tg.Machine, tg.Image = "a", "m1", newImage
		return e.Swap(t.Context(), tg)
	}
}

// flyctl PR#2452: a lease that is lost ends the work, and is told apart from a caller that gave up.
func TestLostLeaseEndsTheSwapWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := strange(t, func(s *stranger) {
			s.leaseGone = true
			s.onUpdate = func(s *stranger) { s.state = "starting" } // long enough for a refresh
		})
		outcome, err := run(swap.Target{})
		wants(t, outcome, err, swap.Failed, swap.CodeLost)
		var lost *flyapi.LeaseLostError
		if !errors.As(err, &lost) || !outcome.Written || s.count("POST ") != 1 {
			t.Errorf("outcome %+v, error %v", outcome, err)
		}
	})
}

// Somebody without a lease was faster: when they set the image we wanted, nothing more is written; when they set something
// else, their word is kept and ours is set beside it; when it never ends, the refusal is told.
func TestOvertakenUpdateStartsFromAFreshLook(t *testing.T) {
	for name, tc := range map[string]struct {
		image  string
		every  bool
		status swap.Status
		code   swap.Code
		posts  int
	}{
		"to our image":      {newDigest, false, swap.Unchanged, "", 1},
		"to something else": {oldDigest, false, swap.Swapped, "", 2},
		"again and again":   {oldDigest, true, swap.Failed, swap.CodeAPI, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, run := strange(t, func(s *stranger) {
				s.refuse = func(s *stranger, post int) string {
					if post > 1 && !tc.every {
						return ""
					}
					s.instance, s.image = s.instance+"x", tc.image
					return "aborted: machine version is not current"
				}
			})
			outcome, err := run(swap.Target{})
			if outcome.Status != tc.status || outcome.Code != tc.code || (err == nil) != outcome.Done() || s.count("POST ") != tc.posts {
				t.Errorf("%s: %d updates, outcome %+v", name, s.count("POST "), outcome)
			}
			if tc.every && (outcome.Written || !strings.Contains(outcome.Reason, "not current")) {
				t.Errorf("%s: outcome %+v", name, outcome)
			}
		})
	}
}

func TestCordonThatAnUpdateChangedIsPutBack(t *testing.T) {
	for _, before := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, run := strange(t, func(s *stranger) {
				s.cordoned = before
				s.onUpdate = func(s *stranger) { s.cordoned = !before }
			})
			outcome, err := run(swap.Target{})
			wants(t, outcome, err, swap.Swapped, "")
			want, other := "POST /uncordon", "POST /cordon"
			if before {
				want, other = other, want
			}
			if s.count(want) != 1 || s.count(other) != 0 || len(outcome.Warnings) != 1 {
				t.Errorf("cordoned before %v: asked %v, warnings %v", before, s.asked, outcome.Warnings)
			}
		})
	}
}

// While it is replaced, a machine can read stopped for a moment; one that stays so is an error.
func TestMomentOfStoppedIsNoFailureAndStayingStoppedIs(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			_, run := strange(t, func(s *stranger) {
				s.onUpdate = func(s *stranger) { s.state = "stopped"; s.gets = 100 }
				s.onGet = func(s *stranger, get int) {
					if comesBack && get == 102 { // the second look at the new version
						s.state = "started"
					}
				}
			})
			outcome, err := run(swap.Target{})
			if comesBack {
				wants(t, outcome, err, swap.Swapped, "")
			} else {
				wants(t, outcome, err, swap.Failed, swap.CodeNotUp)
			}
		})
	}
}

func TestChecksThatDoNotPassFailTheSwap(t *testing.T) {
	for _, checks := range []string{`[{"name":"alive","status":"critical"}]`, `[]`} {
		synctest.Test(t, func(t *testing.T) {
			_, run := strange(t, func(s *stranger) {
				s.onUpdate = func(s *stranger) { s.checks = checks }
			})
			outcome, err := run(swap.Target{})
			wants(t, outcome, err, swap.Failed, swap.CodeChecks)
			if !outcome.Written || !strings.Contains(outcome.Reason, "check") {
				t.Errorf("outcome %+v", outcome)
			}
		})
	}
}

// Boots take their time: checks that turn good before it is over are good.
func TestChecksAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, run := strange(t, func(s *stranger) {
			s.onUpdate = func(s *stranger) { s.checks, s.gets = `[]`, 100 }
			s.onGet = func(s *stranger, get int) {
				if get == 110 {
					s.checks = `[{"name":"alive","status":"passing"}]`
				}
			}
		})
		outcome, err := run(swap.Target{})
		wants(t, outcome, err, swap.Swapped, "")
	})
}

// A revert that happens only while the checks are awaited is a revert all the same: the old version's checks pass.
func TestLateRevertIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, run := strange(t, func(s *stranger) {
			s.onUpdate = func(s *stranger) { s.gets = 100 }
			s.onGet = func(s *stranger, get int) {
				if get == 102 {
					s.instance, s.image = "01", oldDigest
				}
			}
		})
		outcome, err := run(swap.Target{})
		wants(t, outcome, err, swap.Failed, swap.CodeReverted)
	})
}

// A new instance that runs the old digest is a revert too, and so is the old instance.
func TestRevertByInstanceOrByDigest(t *testing.T) {
	for name, revert := range map[string]func(s *stranger){
		"old instance":               func(s *stranger) { s.instance, s.image = "01", oldDigest },
		"new instance, old image":    func(s *stranger) { s.image = oldDigest },
		"third instance, new image?": func(s *stranger) { s.instance = "03" },
	} {
		synctest.Test(t, func(t *testing.T) {
			_, run := strange(t, func(s *stranger) { s.onUpdate = revert })
			outcome, err := run(swap.Target{})
			if outcome.Code != swap.CodeReverted || err == nil {
				t.Errorf("%s: outcome %+v", name, outcome)
			}
		})
	}
}

// A missing host_status counts as away, as flyctl has it.
func TestHostThatIsNotOKIsNeverWrittenTo(t *testing.T) {
	for _, host := range []string{"unreachable", "unknown", ""} {
		synctest.Test(t, func(t *testing.T) {
			s, run := strange(t, func(s *stranger) { s.host = host })
			outcome, err := run(swap.Target{})
			wants(t, outcome, err, swap.Skipped, swap.CodeUnreachable)
			if len(s.asked) != 1 {
				t.Errorf("asked %v", s.asked)
			}
		})
	}
}

func TestIncompleteConfigIsNeverWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := strange(t, func(s *stranger) { s.incomplete = true })
		outcome, err := run(swap.Target{})
		wants(t, outcome, err, swap.Skipped, swap.CodeIncomplete)
		if len(s.asked) != 1 {
			t.Errorf("asked %v", s.asked)
		}
	})
}

func TestTransitionUnderWayIsWaitedForAndNotWrittenInto(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s, run := strange(t, func(s *stranger) {
				s.state = "starting"
				s.onGet = func(s *stranger, get int) {
					if ends && get == 2 {
						s.state = "started"
					}
				}
			})
			outcome, err := run(swap.Target{})
			if ends {
				wants(t, outcome, err, swap.Swapped, "")
				return
			}
			wants(t, outcome, err, swap.Skipped, swap.CodeUnsettled)
			if s.count("POST ") > 0 {
				t.Error("written into a transition")
			}
		})
	}
}

// A closed door opens by itself after 60 s: when getting to the update took too long, it is closed anew first.
func TestDoorIsClosedAnewWhenTheWayToTheUpdateWasLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := strange(t, func(s *stranger) {
			s.probe = func(int) string { return probeLine(0, "closed") }
			s.onGet = func(s *stranger, get int) {
				if get == 2 { // the look under the lease
					s.hold = 50 * time.Second
				}
			}
		})
		outcome, err := run(swap.Target{})
		wants(t, outcome, err, swap.Swapped, "")
		order := strings.Join(s.asked, ",")
		if at := strings.Index(order, "POST ,"); strings.Count(order[:at], "POST /exec") != 2 || strings.Count(order[:at], "DELETE /lease") != 1 {
			t.Errorf("asked %s", order)
		}
	})
}

// A machine that a request woke between question and lease is asked first.
func TestMachineThatWokeUpIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, run := strange(t, func(s *stranger) {
			s.state = "stopped"
			s.onGet = func(s *stranger, get int) {
				if get == 2 {
					s.state = "started"
				}
			}
		})
		outcome, err := run(swap.Target{})
		wants(t, outcome, err, swap.Swapped, "")
		order := strings.Join(s.asked, ",")
		if at := strings.Index(order, "POST ,"); !strings.Contains(order[:at], "POST /exec") {
			t.Errorf("asked %s", order)
		}
	})
}

func TestOutcomeAsJSON(t *testing.T) {
	b, err := json.Marshal(swap.Outcome{App: "a", Machine: "m", Status: swap.Skipped, Code: swap.CodeBusy, Reason: "r", Gate: swap.GateNone})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"app":"a","machine":"m","status":"skipped","code":"busy","reason":"r","written":false,"seconds":0}`; string(b) != want {
		t.Errorf("%s", b)
	}
}

var _ swap.API = (*flyapi.Client)(nil)

func TestErrorSaysWhetherSomethingWasWritten(t *testing.T) {
	for _, written := range []bool{true, false} {
		err := error(&swap.Error{Outcome: swap.Outcome{App: "a", Machine: "m", Status: swap.Failed, Reason: "because", Written: written}, Err: context.Canceled})
		if strings.Contains(err.Error(), "nothing was written") == written || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}
