package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/plan"
	"github.com/specgo/spec/internal/strictjson"
)

// A results file has one JSON object a line: first what was measured and where, then each cell as soon as it is
// complete, and the memory's bandwidth before and after each session of measuring. A line that a kill left half
// written is dropped.
const schema = 1

// A results file is of one of two kinds, by which its name begins.
const (
	ofModes = "results" // of -quick and -full
	ofSweep = "sweep"   // of -sweep
)

// errOther is the error of a results file from another commit or machine.
var errOther = errors.New("the results file is from another commit or machine")

// header is the first line.
type header struct {
	Schema int `json:"schema"`
	// the last that touches asm, tensor, engine or speculative, tests aside; with "+" there were changes on top
	Commit  string `json:"commit"`
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	System  string `json:"system"`
	Go      string `json:"go"`
	Machine string `json:"machine"` // for people
	Date    string `json:"date"`
}

// line is one of the others: exactly one field is set.
type line struct {
	Header *header `json:"results,omitempty"`
	Memory *memory `json:"memory,omitempty"`
	Cell   *cell   `json:"cell,omitempty"`
}

// memory is the bandwidth that all threads together measured.
type memory struct {
	Column string  `json:"col"`
	When   string  `json:"when"` // before or after
	GBps   float64 `json:"gbps"`
	Date   string  `json:"date"`
}

// cell is what is measured at once: all settings of an experiment on one prompt, run in turn with plain decoding.
type cell struct {
	key
	Runs    []run            `json:"runs,omitempty"`
	Rows    []bench.Row      `json:"rows,omitempty"`
	Plan    *plan.Prediction `json:"plan,omitempty"`
	Chances []chance         `json:"chances,omitempty"`
	Groups  []group          `json:"groups,omitempty"`
	Series  []series         `json:"series,omitempty"`
	Receipt *receipt         `json:"receipt,omitempty"`
	GBps    float64          `json:"gbps,omitempty"` // memory, measured between the passes of Rows

	Took      float64 `json:"took,omitempty"` // seconds
	Quiet     *quiet  `json:"quiet,omitempty"`
	Disturbed string  `json:"disturbed,omitempty"` // why its times do not count; "": they do
	Tries     int     `json:"tries,omitempty"`
}

// series are the times of many runs of one setting on one prompt, in seconds. The passes are the first run's.
type series struct {
	Setting string    `json:"s"`
	Tokens  int       `json:"n"`
	Target  int       `json:"tp,omitempty"`
	Draft   int       `json:"dp,omitempty"`
	Differs bool      `json:"differs,omitempty"`
	Seconds []float64 `json:"t"`
}

// key identifies a cell.
type key struct {
	Experiment  string  `json:"x"`
	Column      string  `json:"col"` // kernel set and threads: "avx512/2"
	Temperature float32 `json:"temp,omitempty"`
	Set         string  `json:"set,omitempty"`
	Prompt      string  `json:"prompt,omitempty"`
	Drafter     string  `json:"drafter,omitempty"`
	Repeat      int     `json:"rep,omitempty"`
}

// run is one text. Times are in seconds.
type run struct {
	Setting   string  `json:"s"`
	Tokens    int     `json:"n"`
	Seconds   float64 `json:"t,omitempty"` // prefill left out
	Before    float64 `json:"b,omitempty"` // plain decoding's seconds per token before and
	After     float64 `json:"a,omitempty"` // after it
	Rounds    int     `json:"r,omitempty"`
	Target    int     `json:"tp,omitempty"` // passes
	Draft     int     `json:"dp,omitempty"`
	Drafted   int     `json:"d,omitempty"` // tokens
	Accepted  int     `json:"y,omitempty"`
	Drafting  float64 `json:"td,omitempty"` // seconds
	Verifying float64 `json:"tv,omitempty"`
	Differs   bool    `json:"differs,omitempty"` // from plain decoding's text, although that is promised

	DraftedAt  []int `json:"dat,omitempty"` // rounds that drafted a 1st, 2nd, ... token
	AcceptedAt []int `json:"yat,omitempty"` // rounds that accepted it
	Lengths    []int `json:"len,omitempty"` // tokens drafted, by round
	Drafts     []int `json:"h,omitempty"`   // rounds that drafted 0, 1, 2, ... tokens
}

// chance is a token with its probability in the target's and the draft model's distribution, and in what is drawn
// from after a rejection: the positive part of p - q, divided by its sum over all tokens.
type chance struct {
	Text     string  `json:"text"`
	P        float64 `json:"p"`
	Q        float64 `json:"q"`
	Residual float64 `json:"residual"`
}

// runOf keeps four digits of the times; of experiments that only count none, but what was drafted by position and
// round.
func runOf(s compare.Setting, r *compare.Timed, x *experiment) run {
	out := run{
		Setting: s.String(), Tokens: len(r.IDs), Seconds: digits(r.Seconds), Before: digits(r.Before), After: digits(r.After),
		Rounds: r.Stats.Rounds, Target: r.Stats.TargetPasses, Draft: r.Stats.DraftPasses, Drafted: r.Stats.Drafted,
		Accepted: r.Stats.Accepted,
		Drafting: digits(r.Stats.Draft), Verifying: digits(r.Stats.Verify),
	}
	if x.counts {
		out.Seconds, out.Before, out.After, out.Drafting, out.Verifying = 0, 0, 0, 0, 0
		if s.Schedule == "oracle" {
			out.Lengths = r.Lengths
		}
		if s.DraftMax >= byPosition {
			out.DraftedAt, out.AcceptedAt = r.Stats.DraftedAt, r.Stats.AcceptedAt
		}
		if x.name == rank {
			out.DraftedAt, out.AcceptedAt = nil, nil
			for _, n := range r.Lengths {
				for len(out.Drafts) <= n {
					out.Drafts = append(out.Drafts, 0)
				}
				out.Drafts[n]++
			}
		}
	}
	return out
}

// byPosition is the draft length from which on acceptance is kept by position.
const byPosition = 10

// digits rounds to four significant digits.
func digits(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return y
}

// speedup over plain decoding around the run, and the formula's.
func (r *run) speedup() (ratio, formula float64) {
	return compare.Capped((r.Before+r.After)/2, r.Seconds, r.Tokens, r.Rounds, r.Drafting)
}

// results are a file's contents.
type results struct {
	header
	memory []memory
	cells  []cell
	whole  int64 // bytes up to the end of the last whole line
}

// readResults reads a file. Where there is none, fs.ErrNotExist.
func readResults(name string) (*results, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := &results{}
	lines := bufio.NewReader(bytes.NewReader(text))
	for n := 1; ; n++ {
		b, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break // what a kill left of a line
		}
		if err != nil {
			return nil, err
		}
		var l line
		if err := strictjson.Unmarshal(b, &l); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		r.whole += int64(len(b))
		switch {
		case l.Header != nil && n == 1:
			r.header = *l.Header
		case l.Memory != nil && n > 1:
			r.memory = append(r.memory, *l.Memory)
		case l.Cell != nil && n > 1:
			r.put(*l.Cell)
		default:
			return nil, fmt.Errorf("%s: line %d: neither a first line, nor memory, nor a cell", name, n)
		}
	}
	if r.whole == 0 {
		return r, nil
	}
	if r.Schema != schema {
		return nil, fmt.Errorf("%s: schema %d, this program writes %d", name, r.Schema, schema)
	}
	return r, nil
}

// put adds a cell. One that was disturbed is replaced by a later measurement of the same.
func (r *results) put(c cell) {
	if i := slices.IndexFunc(r.cells, func(old cell) bool { return old.key == c.key }); i >= 0 {
		r.cells[i] = c
		return
	}
	r.cells = append(r.cells, c)
}

// journal appends to a results file.
type journal struct {
	file  *os.File
	done  map[key]bool
	tries map[key]int // of cells that were disturbed each time, and are to be measured again
	cells []cell
}

// openJournal continues the file, or begins it. A file of another commit, CPU, system or Go release is refused.
func openJournal(name string, h header) (*journal, error) {
	old, err := readResults(name)
	if errors.Is(err, fs.ErrNotExist) {
		old, err = &results{}, nil
	}
	if err != nil {
		return nil, err
	}
	if old.whole > 0 {
		for _, x := range []struct{ what, was, is string }{
			{"commit", old.Commit, h.Commit}, {"CPU", old.CPU, h.CPU}, {"cores", fmt.Sprint(old.Cores), fmt.Sprint(h.Cores)},
			{"system", old.System, h.System}, {"Go", old.Go, h.Go},
		} {
			if x.was != x.is {
				return nil, fmt.Errorf("%s: %w: %s %s, here %s", name, errOther, x.what, x.was, x.is)
			}
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, done: map[key]bool{}, tries: map[key]int{}}
	for _, c := range old.cells {
		j.note(c)
	}
	err = f.Truncate(old.whole)
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil && old.whole == 0 {
		err = j.write(line{Header: &h})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// write appends one line, in one piece.
func (j *journal) write(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(b, '\n'))
	return err
}

// add appends a cell.
func (j *journal) add(c cell) error {
	if j.done[c.key] {
		return fmt.Errorf("cell %+v is measured twice", c.key)
	}
	j.note(c)
	return j.write(line{Cell: &c})
}

// note marks a cell as done, or as one that was disturbed.
func (j *journal) note(c cell) {
	j.cells = append(slices.DeleteFunc(j.cells, func(old cell) bool { return old.key == c.key }), c)
	if j.tries[c.key] = c.Tries; c.Disturbed == "" || c.Tries >= mostTries {
		j.done[c.key] = true
		delete(j.tries, c.key)
	}
}

func (j *journal) close() error { return j.file.Close() }

// columns are the kernel sets and threads of the cells, in order.
func (r *results) columns() (list []string) {
	for _, c := range r.cells {
		if !slices.Contains(list, c.Column) {
			list = append(list, c.Column)
		}
	}
	return list
}
