package gateway_test

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/flyfleet/terraform-provider-flyfleet/runtime/gateway/runtimev1"
)

// Pages of any size are together the whole, and the last one says that it is the last.
func TestPagesOfEntriesAreTheWhole(t *testing.T) {
	r := newRig(t)
	f := r.face()
	session := f.session(r.acme)
	stop := r.executor()
	f.settled(r.acme, f.submit(r.acme, session, "say: hello").GetSubmissionId())
	stop()
	pages := func(size int32) (seqs []int64, pages int) {
		for after := int64(0); ; {
			got, err := f.client(r.acme).ListEntries(t.Context(), connect.NewRequest(&runtimev1.ListEntriesRequest{
				SessionId: session, AfterSeq: after, PageSize: size,
			}))
			r.ok(err)
			pages++
			for _, e := range got.Msg.GetEntries() {
				seqs = append(seqs, e.GetSeq())
			}
			if after = got.Msg.GetNextAfterSeq(); after == 0 {
				return seqs, pages
			}
			if pages > 100 {
				t.Fatalf("no end with pages of %d", size)
			}
		}
	}
	all, _ := pages(0)
	if len(all) < 4 {
		t.Fatalf("entries %v", all)
	}
	for size := 1; size <= len(all)+1; size++ {
		seqs, n := pages(int32(size))
		for i, seq := range seqs {
			if seq != int64(i)+1 {
				t.Errorf("pages of %d: %v", size, seqs)
				break
			}
		}
		if len(seqs) != len(all) || n != (len(all)+size-1)/size {
			t.Errorf("%d pages of %d hold %d entries of %d", n, size, len(seqs), len(all))
		}
	}
}
