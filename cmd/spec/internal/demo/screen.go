package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// A smaller terminal gets the two texts one above the other.
const (
	narrow = 80
	short  = 20
)

// show is where the two texts appear.
type show interface {
	begin(name, prompt string)
	token(text string, drafted bool, n int)
	end(s speculative.Stats)
}

// Styles of a character: who wrote it.
const (
	own = iota
	accepted
	given
)

var paint = [...]string{own: "", accepted: "\x1b[32m", given: "\x1b[2m"}

const off = "\x1b[0m"

// scroll writes the texts one after the other, as on paper.
type scroll struct {
	out      io.Writer
	color    bool
	terminal bool
	ends     bool // the last byte ended a line
}

func (s *scroll) begin(name, prompt string) {
	fmt.Fprintf(s.out, "--- %s\n", name)
	s.write(prompt, given)
}

func (s *scroll) token(text string, drafted bool, _ int) { s.write(text, style(drafted)) }

func (s *scroll) write(text string, style int) {
	if text == "" {
		return
	}
	s.ends = strings.HasSuffix(text, "\n")
	if s.terminal {
		text = terminal.Text(text)
	}
	if s.color && paint[style] != "" {
		text = paint[style] + text + off
	}
	io.WriteString(s.out, text)
}

func (s *scroll) end(st speculative.Stats) {
	if !s.ends {
		fmt.Fprintln(s.out)
	}
	fmt.Fprintf(s.out, "--- %d tokens in %.2f s, %.1f tokens/s\n\n", st.Generated, writing(st), rate(st))
	s.ends = true
}

func style(drafted bool) int {
	if drafted {
		return accepted
	}
	return own
}

// screen shows the texts side by side, in a frame that is drawn over itself: the only control
// sequences are colors, "up so many lines" and "erase to the end of the line".
type screen struct {
	out    io.Writer
	color  bool
	width  int // of a column
	most   int // rows of text
	rows   int // of them in use, growing
	column [2]column
	now    int // the column that is written
	drawn  bool
	last   time.Time
	buf    strings.Builder
}

type cell struct {
	r     rune
	style int
}

type column struct {
	name   string
	lines  [][]cell
	tokens int
	start  time.Time // of the first token
	figure string
}

func newScreen(out io.Writer, width, height int, color bool) *screen {
	const around = 13 // lines above and below the frame that are to stay in sight
	s := &screen{out: out, color: color, width: min((width-5)/2, 72), most: min(height-around, 32), now: -1}
	s.column[0].name, s.column[1].name = "plain", "speculative"
	return s
}

func (s *screen) begin(name, prompt string) {
	s.now++
	c := &s.column[s.now]
	c.name, c.lines = name, [][]cell{nil}
	s.add(c, prompt, given)
	c.figure = "reading the prompt"
	s.draw()
}

func (s *screen) token(text string, drafted bool, n int) {
	c := &s.column[s.now]
	if c.start.IsZero() {
		c.start = time.Now()
	}
	c.tokens = n
	s.add(c, text, style(drafted))
	if now := time.Now(); now.Sub(s.last) > 40*time.Millisecond {
		if t := now.Sub(c.start).Seconds(); t > 0.2 {
			c.figure = fmt.Sprintf("%5.1f tokens/s  %5.2f s", float64(n)/t, t)
		}
		s.last = now
		s.draw()
	}
}

func (s *screen) end(st speculative.Stats) {
	s.column[s.now].figure = fmt.Sprintf("%5.1f tokens/s  %5.2f s", rate(st), writing(st))
	s.draw()
}

// add appends text to a column, folded at its width.
func (s *screen) add(c *column, text string, style int) {
	const tab = 4
	for _, r := range text {
		last := &c.lines[len(c.lines)-1]
		switch {
		case r == '\n':
			c.lines = append(c.lines, nil)
			continue
		case r == '\t':
			for n := tab - len(*last)%tab; n > 0 && len(*last) < s.width; n-- {
				*last = append(*last, cell{' ', style})
			}
			continue
		case r < ' ' || r >= 0x7f && r < 0xa0:
			r = '·'
		}
		if len(*last) == s.width {
			c.lines = append(c.lines, nil)
			last = &c.lines[len(c.lines)-1]
		}
		*last = append(*last, cell{r, style})
	}
}

// draw writes the frame, over the one before it.
func (s *screen) draw() {
	b := &s.buf
	b.Reset()
	if s.drawn {
		fmt.Fprintf(b, "\x1b[%dA", s.rows+2)
	}
	s.drawn = true
	s.rows = min(s.most, max(s.rows, len(s.column[0].lines), len(s.column[1].lines)))
	s.row(func(c *column) string { return fmt.Sprintf("%-13s%s", c.name, c.figure) })
	line := strings.Repeat("─", s.width+1)
	b.WriteString("\r" + line + "┼" + line + "\x1b[K\n")
	for i := range s.rows {
		b.WriteByte('\r')
		s.line(&s.column[0], i)
		b.WriteString(" │ ")
		s.line(&s.column[1], i)
		b.WriteString("\x1b[K\n")
	}
	io.WriteString(s.out, b.String())
}

func (s *screen) row(text func(*column) string) {
	cut := func(c *column) string { t := text(c); return t[:min(len(t), s.width)] }
	fmt.Fprintf(&s.buf, "\r%-*s │ %s\x1b[K\n", s.width, cut(&s.column[0]), cut(&s.column[1]))
}

// line writes row i of a column, of which the last lines are in sight.
func (s *screen) line(c *column, i int) {
	i += max(0, len(c.lines)-s.rows)
	var cells []cell
	if i < len(c.lines) {
		cells = c.lines[i]
	}
	now := own
	for _, x := range cells {
		if s.color && x.style != now {
			if paint[now] != "" {
				s.buf.WriteString(off)
			}
			s.buf.WriteString(paint[x.style])
			now = x.style
		}
		s.buf.WriteRune(x.r)
	}
	if paint[now] != "" {
		s.buf.WriteString(off)
	}
	if c == &s.column[0] {
		s.buf.WriteString(strings.Repeat(" ", s.width-len(cells)))
	}
}
