package gateway_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/journal/journalv1"
	"github.com/flyfleet/terraform-provider-flyfleet/runtime/store"
)

// A thousand clients that are dropped and come back at random get every entry exactly once, and what the gateway holds for
// them stays within its bound.
func TestCrowdThatIsDroppedAndResumed(t *testing.T) {
	const clients, sessions, entries = 1000, 10, 20
	r := newRig(t)
	f := r.face()
	var ids []string
	for range sessions {
		ids = append(ids, f.session(r.acme))
	}
	e, err := r.store.Register(t.Context(), "here", "test")
	r.ok(err)
	for _, id := range ids {
		f.submit(r.acme, id, "say: x")
	}
	claims, err := r.store.Claim(t.Context(), e, sessions)
	r.ok(err)
	if len(claims) != sessions {
		t.Fatalf("%d claims", len(claims))
	}

	runtime.GC()
	var before, during runtime.MemStats
	runtime.ReadMemStats(&before)
	var connected atomic.Int64
	var crowd sync.WaitGroup
	failed := make(chan error, clients)
	for n := range clients {
		crowd.Go(func() { failed <- f.roam(ids[n%sessions], uint64(n), entries, &connected) })
	}
	r.soon("all are there", func() bool { return connected.Load() >= clients })
	for after := int64(1); after < entries; after++ {
		for _, claim := range claims {
			_, err := r.store.Commit(t.Context(), claim, store.Step{After: after, Entries: []journal.Entry{{
				Submission: claim.Submission.ID,
				Body:       &journalv1.Body{Body: &journalv1.Body_ModelDelta{ModelDelta: &journalv1.ModelDelta{Text: "word"}}},
			}}})
			r.ok(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&during)
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 200<<20 {
		t.Errorf("the heap, clients' own part and all, grew by %d MiB", grown>>20)
	}
	crowd.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// roam reads a session to an entry over connections that it drops at random.
func (f *face) roam(session string, seed uint64, upto int64, connected *atomic.Int64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	client := &http.Client{Transport: f.Client().Transport}
	last, seq := "", int64(0)
	for first := true; seq < upto; first = false {
		w, err := f.connectTo(client, f.acme, session, "", last)
		if err != nil {
			return err
		}
		if first {
			connected.Add(1)
		}
		for range 1 + random.IntN(8) {
			e := w.next()
			if e == nil {
				w.close()
				return errors.New("a stream ended")
			}
			if e.GetEntry().GetSeq() != seq+1 {
				w.close()
				return fmt.Errorf("entry %d after %d", e.GetEntry().GetSeq(), seq)
			}
			if seq++; seq == upto {
				break
			}
		}
		if w.last != "" {
			last = w.last
		}
		w.close()
	}
	return nil
}
