package cp

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/flyfleet/terraform-provider-flyfleet/cmd/flyfleet/terminal"
)

// every is how often the bar is drawn at most.
const every = 100 * time.Millisecond

// meter draws one line of progress on a terminal, in place. Without a terminal it draws nothing.
type meter struct {
	mu    sync.Mutex
	on    *os.File
	begin time.Time
	last  time.Time
}

func newMeter(on *os.File) *meter { return &meter{on: on, begin: time.Now()} }

func (m *meter) tell(done, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on == nil || time.Since(m.last) < every {
		return
	}
	m.last = time.Now()
	cols, _ := terminal.Size(m.on)
	fmt.Fprintf(m.on, "\r\x1b[K%s", line(int(cols), done, total, time.Since(m.begin)))
}

// clear removes the line.
func (m *meter) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on != nil && !m.last.IsZero() {
		fmt.Fprint(m.on, "\r\x1b[K")
	}
}

// line is one state of the bar, narrower than the terminal so that it never wraps. An unknown total has no bar.
func line(cols int, done, total int64, took time.Duration) string {
	rate := ""
	if s := took.Seconds(); s > 0.5 && done > 0 {
		rate = "  " + size(int64(float64(done)/s)) + "/s"
		if total > done {
			left := time.Duration(float64(total-done) / float64(done) * float64(took))
			rate += "  " + left.Round(time.Second).String() + " left"
		}
	}
	if total <= 0 {
		return clip(size(done)+rate, cols-1)
	}
	text := fmt.Sprintf("%3d%%  %s of %s%s", min(100, done*100/total), size(done), size(total), rate)
	width := min(30, cols-len(text)-5)
	if width < 5 {
		return clip(text, cols-1)
	}
	full := int(min(done, total) * int64(width) / total)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "] " + text
}

func clip(text string, cols int) string { return text[:max(0, min(len(text), cols))] }

// size is a number of bytes for a person.
func size(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	unit := ""
	for _, unit = range units {
		if f /= 1024; f < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}
