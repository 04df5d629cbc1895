package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/testdata"
)

var synthCommand = command{
	name:  "synth",
	does:  "make models to measure with: the embedded pair enlarged, or random weights",
	usage: "WHAT OUT [--type TYPE]",
	about: `Writes a GGUF file. WHAT is one of

  ` + strings.Join(enlargements(), ", ") + `
      an embedded model enlarged to about that many parameters, in Q8_0: it computes what the embedded one computes, at the cost of its size, so a pair of them has the acceptance rate of the embedded pair; ` + largeHead + ` is the draft head for ` + synth.LargeTarget.Name + `
  ` + strings.Join(synth.Shapes(), ", ") + `
      random weights in the shape of that model, in TYPE, without a tokenizer

OUT appears when it is whole.`,
	new: func() job { return &synthesis{typ: "q8_0"} },
}

// enlargements are the names of the enlarged models.
func enlargements() []string {
	names := []string{synth.LargeTarget.Name}
	for _, s := range synth.LargeDrafts {
		names = append(names, s.Name)
	}
	return append(names, largeHead)
}

// largeHead is the embedded head, enlarged for the enlarged target.
const largeHead = "head-1b"

// synthesis is the options of synth.
type synthesis struct {
	what, out, typ string
	typed          bool
}

func (s *synthesis) flags() []group {
	return []group{{"files", []flag{
		fileFlag("-o, --output", &s.out, "OUT", "the file to write").orWord(),
		valueFlag("--type", "TYPE", "how random weights are stored: "+strings.Join(synth.Types(), ", "),
			func(v string) (err error) {
				s.typed = true
				s.typ, err = choose(synth.Types(), v)
				return err
			}).or("q8_0").takes(synth.Types()...),
	}}}
}

func (*synthesis) words() []string { return append(enlargements(), synth.Shapes()...) }

func (s *synthesis) operand(v string) error {
	switch {
	case s.what == "":
		s.what = v
	case s.out == "":
		s.out = v
	default:
		return errors.New("one argument too many: WHAT OUT")
	}
	return nil
}

func (s *synthesis) check() error {
	switch {
	case s.what == "":
		return usagef("WHAT is missing: %s, or a shape", strings.Join(enlargements(), ", "))
	case s.out == "":
		return usagef("OUT is missing: the file to write")
	}
	what, err := choose(s.words(), s.what)
	if err != nil {
		return usagef("%s is %v", shown(s.what), err)
	}
	s.what = what
	if s.typed && slices.Contains(enlargements(), s.what) {
		return usagef("--type: enlarged models are in q8_0; quantize converts them")
	}
	return nil
}

// make returns the file, of which nothing is computed before it is read.
func (s *synthesis) make() (*synth.File, error) {
	i := slices.Index(enlargements(), s.what)
	if i < 0 {
		shape, err := synth.FindShape(s.what)
		if err != nil {
			return nil, err
		}
		return synth.Random(shape, s.typ)
	}
	file, shape := testdata.Target(), synth.LargeTarget
	switch {
	case s.what == largeHead:
		file = testdata.Head()
		shape.Layers, shape.Name = 1, largeHead
	case i > 0:
		file, shape = testdata.Draft(), synth.LargeDrafts[i-1]
	}
	small, err := gguf.Open(file, file.Size(), "the embedded model")
	if err != nil {
		return nil, err
	}
	return synth.Enlarge(small, shape)
}

func (s *synthesis) run(ctx context.Context, p *program) error {
	if s.out == "-" && terminal.Is(p.stdout) {
		return fmt.Errorf("-o -: standard output is a terminal, not a file or pipe")
	}
	model, err := s.make()
	if err != nil {
		return err
	}
	stdout, _ := p.stdout.(*os.File)
	file, err := output.Create(ctx, s.out, stdout)
	if err != nil {
		return err
	}
	defer file.Abort()
	bar := terminal.NewBar(p.stderr, filepath.Base(s.out))
	defer bar.Clear()
	const piece = 8 << 20
	for at := int64(0); at < model.Size(); at += piece {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.Copy(file, io.NewSectionReader(model, at, min(piece, model.Size()-at))); err != nil {
			return err
		}
		bar.Set(at, model.Size(), "")
	}
	if err := file.Commit(); err != nil {
		return err
	}
	bar.Clear()
	_, err = fmt.Fprintf(p.stderr, "%s: %s, %s\n", terminal.Line(s.out, 0), s.what, size(model.Size()))
	return err
}
