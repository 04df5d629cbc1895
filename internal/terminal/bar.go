package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/specgo/spec/internal/cellwidth"
)

// Bar is a line on a terminal that shows how far some work is and how long the rest may take. It appears
// when the work takes long enough for a person to wonder, and only on a terminal. Its methods may be
// called by several goroutines, and on nil.
type Bar struct {
	w     io.Writer
	label string
	width func() int
	now   func() time.Time

	mu    sync.Mutex
	start time.Time
	last  time.Time
	shown bool
}

// NewBar returns a bar on w, nil if w is not a terminal that understands it. The label is shown before the bar.
func NewBar(w io.Writer, label string) *Bar {
	if !Styles(w) {
		return nil
	}
	return newBar(w, label, func() int { return Width(w) }, time.Now)
}

func newBar(w io.Writer, label string, width func() int, now func() time.Time) *Bar {
	return &Bar{w: w, label: Line(label, 40), width: width, now: now, start: now()}
}

const (
	barPatience = 500 * time.Millisecond // before it appears
	barInterval = 100 * time.Millisecond // between two drawings
	barForecast = time.Second            // before a time left is worth telling
	barCells    = 30                     // most cells of the bar itself
)

// Set draws the bar with done of total (the unit does not matter) and a word on what is being done.
func (b *Bar) Set(done, total int64, what string) {
	if b == nil || total <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if now.Sub(b.start) < barPatience || now.Sub(b.last) < barInterval {
		return
	}
	b.last, b.shown = now, true
	share := min(1, max(0, float64(done)/float64(total)))
	after := fmt.Sprintf(" %3.0f %%", 100*share)
	if spent := now.Sub(b.start); spent >= barForecast && share > 0.01 {
		left := time.Duration(float64(spent) * (1 - share) / share)
		after += ", " + Left(left) + " left"
	}
	width := b.width() - 1 // a full line would wrap on some terminals
	cells := min(barCells, width-cellwidth.Of(b.label+after)-3)
	line := b.label
	if cells >= 5 {
		full := int(share * float64(cells))
		line += " [" + strings.Repeat("#", full) + strings.Repeat(".", cells-full) + "]"
	}
	line += after
	if what = Line(what, 0); what != "" {
		line += "  " + what
	}
	fmt.Fprintf(b.w, "\r\x1b[K%s", cellwidth.Cut(line, width))
}

// Progress is Set as a function of bytes, for loaders.
func (b *Bar) Progress(done, total int64) { b.Set(done, total, "") }

// Restart sets the label, and counts the time from now.
func (b *Bar) Restart(label string) {
	if b == nil {
		return
	}
	b.Clear()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.label, b.start, b.last = Line(label, 40), b.now(), time.Time{}
}

// Clear removes the bar from the terminal.
func (b *Bar) Clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.shown = false
	}
}

// Left formats a duration as people say it: 8s, 2m05s, 1h02m.
func Left(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
}
