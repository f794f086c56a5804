package pump

import (
	"testing"
	"time"
)

func TestWriterIsFastByWhatItWritesInAWhile(t *testing.T) {
	const page = 4 << 10
	for name, c := range map[string]struct {
		bytes int64
		every time.Duration
		fast  bool
	}{
		"page by page, at once":     {page, 10 * time.Microsecond, true},
		"a full pipe, now and then": {64 << 10, time.Second, true},
		"lines":                     {80, 50 * time.Microsecond, false},
		"pages, slowly":             {page, 10 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			now := time.Unix(1, 0)
			for range 100 {
				now = now.Add(c.every)
				p.note(now, c.bytes)
			}
			if p.fast != c.fast {
				t.Errorf("fast is %v", p.fast)
			}
		})
	}
	var p pace
	p.note(time.Unix(1, 0), 1<<20)
	p.note(time.Unix(2, 0), page)
	if p.fast {
		t.Error("a writer that was fast once stays so")
	}
}

func TestPipeIsLeftToFillForAsLongAsItsWriterNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int64 // every half millisecond
		least time.Duration
		most  time.Duration
	}{
		"a gigabyte a second":  {512 << 10, 200 * time.Microsecond, 280 * time.Microsecond},
		"ten megabytes":        {5 << 10, time.Millisecond, time.Millisecond},
		"a kilobyte, not fast": {1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p pace
			now := time.Unix(1, 0)
			for i := range 200 {
				now = now.Add(500 * time.Microsecond)
				p.note(now, c.bytes)
				if d := p.gather(); i > 100 && d > c.most {
					t.Fatalf("waits %s", d)
				}
			}
			if d := p.gather(); d < c.least || d > c.most {
				t.Errorf("waits %s", d)
			}
		})
	}
}
