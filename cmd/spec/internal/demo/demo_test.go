package demo

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/testdata"
)

func section(r *strings.Reader) *io.SectionReader { return io.NewSectionReader(r, 0, r.Size()) }

// run demonstrates on a pair that is enlarged by little.
func run(t *testing.T, change func(*Options)) (string, Result) {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var out bytes.Buffer
	o := Options{
		Target: section(testdata.Target()), Draft: section(testdata.Draft()),
		Large:  synth.Shape{HiddenSize: 512, Layers: 7, Heads: 8, KVHeads: 2, FeedForward: 1024},
		Prompt: Prompt, Tokens: 40, Sampling: engine.Sampling{Temperature: 0.7, Seed: 1}, Out: &out,
		Length: 4, // whatever else the machine does
	}
	if change != nil {
		change(&o)
	}
	r, err := Run(context.Background(), rt, o)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), r
}

func TestOneAboveTheOther(t *testing.T) {
	out, r := run(t, nil)
	parts := strings.Split(out, "---")
	if len(parts) != 5 {
		t.Fatalf("%d parts in\n%s", len(parts), out)
	}
	plain, speculated := strings.TrimPrefix(parts[1], " plain"), strings.TrimPrefix(parts[3], " speculative")
	if plain != speculated || !strings.HasPrefix(plain, "\n"+Prompt) || len(plain) < len(Prompt)+40 {
		t.Errorf("the texts are\n%s\nand\n%s", plain, speculated)
	}
	if strings.Contains(out, "\x1b") {
		t.Error("control sequences where there is no terminal")
	}
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "added weights only cost time") {
		t.Error("it does not say what the added weights are")
	}
	if r.Plain.Generated != 40 || r.Speculated.Generated != 40 || r.Speculated.Accepted == 0 ||
		r.Speculated.TargetPasses >= 40 || r.Ratio <= 0 {
		t.Errorf("%+v", r)
	}
}

// The frame is drawn over itself: played back, what is left are two equal columns.
func TestSideBySide(t *testing.T) {
	out, _ := run(t, func(o *Options) { o.Width, o.Height, o.Color = 100, 40, true })
	rows := played(out)
	left, right := "", ""
	for _, row := range rows {
		if l, r, ok := strings.Cut(row, "│"); ok {
			left += strings.TrimSpace(l) + "\n"
			right += strings.TrimSpace(r) + "\n"
		}
	}
	_, left, _ = strings.Cut(left, "\n") // the figures differ
	_, right, _ = strings.Cut(right, "\n")
	if left != right || !strings.Contains(left, "WriteFile") {
		t.Errorf("left\n%s\nright\n%s", left, right)
	}
	for _, row := range rows {
		if n := len([]rune(row)); n > 120 {
			t.Errorf("a row of %d characters: %s", n, row)
		}
	}
	if last := rows[len(rows)-2]; !strings.Contains(last, "measured speedup") {
		t.Errorf("the last line is %q", last)
	}
}

// played does what a terminal does with "up", "erase to the end" and colors.
func played(s string) []string {
	s = regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(s, "")
	rows, at := []string{""}, 0
	for s != "" {
		if m := regexp.MustCompile("^\x1b\\[([0-9]+)A").FindStringSubmatch(s); m != nil {
			n := 0
			for _, d := range m[1] {
				n = 10*n + int(d-'0')
			}
			at -= n
			s = s[len(m[0]):]
			continue
		}
		if rest, ok := strings.CutPrefix(s, "\x1b[K"); ok {
			s = rest
			continue
		}
		switch s[0] {
		case '\n':
			if at++; at == len(rows) {
				rows = append(rows, "")
			}
		case '\r':
			rows[at] = ""
		default:
			rows[at] += s[:1]
		}
		s = s[1:]
	}
	return rows
}

func TestFolding(t *testing.T) {
	s := newScreen(io.Discard, 80, 24, false)
	c := &column{lines: [][]cell{nil}}
	s.add(c, "a\tb\x1b"+strings.Repeat("x", s.width)+"\n世", own)
	var lines []string
	for _, l := range c.lines {
		var b strings.Builder
		for _, x := range l {
			b.WriteRune(x.r)
		}
		lines = append(lines, b.String())
	}
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "a   b·xx") ||
		len([]rune(lines[0])) != s.width || lines[2] != "世" {
		t.Errorf("%q", lines)
	}
}
