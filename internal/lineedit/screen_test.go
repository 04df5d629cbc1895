package lineedit

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/internal/cellwidth"
)

// A screen is a terminal of the tests: what is written to it, it shows in cells.
type screen struct {
	width, height int
	cells         [][]string // "" is the second cell of a wide character
	row, column   int
	scrolled      int
}

func newScreen(width, height int) *screen {
	s := &screen{width: width, height: height}
	for range height {
		s.cells = append(s.cells, s.blank())
	}
	return s
}

func (s *screen) blank() []string {
	row := make([]string, s.width)
	for i := range row {
		row[i] = " "
	}
	return row
}

// write takes what a program writes; what it does not know is an error.
func (s *screen) write(out string) error {
	for len(out) > 0 {
		switch c := out[0]; {
		case c == '\r':
			s.column, out = 0, out[1:]
		case c == '\n':
			if s.row++; s.row == s.height {
				s.row--
				s.scrolled++
				s.cells = append(s.cells[1:], s.blank())
			}
			out = out[1:]
		case strings.HasPrefix(out, "\x1b["):
			n := 2
			for out[n] < 0x40 {
				n++
			}
			if err := s.control(out[2:n], out[n]); err != nil {
				return err
			}
			out = out[n+1:]
		case c < ' ' || c == 0x7f:
			return fmt.Errorf("a control character %q", c)
		default:
			n := cellwidth.Cluster([]byte(out))
			w := cellwidth.OfCluster([]byte(out[:n]))
			if !utf8.ValidString(out[:n]) || w == 0 && s.column == 0 {
				return fmt.Errorf("%q at column %d", out[:n], s.column)
			}
			if s.column+w > s.width-1 {
				return fmt.Errorf("%q reaches the last column", out[:n])
			}
			for i := range w {
				s.cells[s.row][s.column+i] = ""
			}
			if w > 0 {
				s.cells[s.row][s.column] = out[:n]
			}
			s.column += w
			out = out[n:]
		}
	}
	return nil
}

func (s *screen) control(parameter string, final byte) error {
	n, _ := strconv.Atoi(parameter)
	n = max(1, n)
	switch final {
	case 'A':
		if s.row -= n; s.row < 0 {
			return fmt.Errorf("%d rows above the screen", -s.row)
		}
	case 'B':
		if s.row += n; s.row >= s.height {
			return fmt.Errorf("below the screen")
		}
	case 'C':
		if s.column += n; s.column >= s.width {
			return fmt.Errorf("right of the screen")
		}
	case 'K':
		copy(s.cells[s.row][s.column:], s.blank())
	case 'J':
		copy(s.cells[s.row][s.column:], s.blank())
		for i := s.row + 1; i < s.height; i++ {
			s.cells[i] = s.blank()
		}
	default:
		return fmt.Errorf("an unknown sequence %q%c", parameter, final)
	}
	return nil
}

// lines are the rows without the spaces at their ends, up to the last one that holds something.
func (s *screen) lines() string {
	var all []string
	for _, row := range s.cells {
		all = append(all, strings.TrimRight(strings.Join(row, ""), " "))
	}
	return strings.TrimRight(strings.Join(all, "\n"), "\n")
}
