package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// took is a time, or the difference of two.
type took struct{ wall, processor float64 } // seconds

// pairs times both programs in turn.
func (o *options) pairs(ctx context.Context, typ string) error {
	w, err := newWriter(o.model(typ))
	if err != nil {
		return err
	}
	var texts []string
	for range 1 + o.timed {
		texts = append(texts, w.text(o.tokens))
	}
	if err := w.check(texts[0], o.tokens); err != nil {
		return err
	}
	one, all := filepath.Join(o.dir, "one.txt"), filepath.Join(o.dir, "all.txt")
	for name, list := range map[string][]string{one: texts[:1], all: texts} {
		if err := os.WriteFile(name, []byte(strings.Join(list, "\n")), 0o644); err != nil {
			return err
		}
	}
	t, b := strconv.Itoa(o.threads), strconv.Itoa(max(o.batch, o.tokens))
	spec := func(file string) []string {
		return []string{o.spec, "embed", "-m", o.model(typ), "-t", t, "-f", file}
	}
	peer := func(file string) []string {
		if o.peerIsSpec {
			return append([]string{o.peer}, spec(file)[1:]...)
		}
		return []string{o.peer, "-m", o.model(typ), "-t", t, "-tb", t, "-b", b, "-ub", b, "-c", b, "--pooling", "mean",
			"--embd-output-format", "raw", "-f", file}
	}
	var ours, theirs []took
	for i := range o.rounds {
		sides := []struct {
			command func(string) []string
			took    *[]took
		}{{spec, &ours}, {peer, &theirs}}
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		for _, s := range sides {
			var d [2]took
			for j, file := range []string{one, all} {
				d[j], err = o.time(ctx, s.command(file), []int{1, len(texts)}[j])
				for tries := 1; errors.Is(err, errVectors) && tries < 3; tries++ {
					fmt.Fprintf(os.Stderr, "%v; it runs again\n", err)
					d[j], err = o.time(ctx, s.command(file), []int{1, len(texts)}[j])
				}
				if err != nil {
					return err
				}
			}
			*s.took = append(*s.took, took{(d[1].wall - d[0].wall) / float64(o.timed),
				(d[1].processor - d[0].processor) / float64(o.timed)})
		}
	}
	fmt.Printf("%s, %d threads, texts of %d tokens, %d pairs: median [quartiles]\n", typ, o.threads, o.tokens, o.rounds)
	print := func(name string, of func(took) float64) {
		var a, b, ratio []float64
		for i := range ours {
			a, b = append(a, 1e3*of(ours[i])), append(b, 1e3*of(theirs[i]))
			ratio = append(ratio, of(theirs[i])/of(ours[i]))
		}
		fmt.Printf("  %-14s spec %s ms, peer %s ms, peer/spec %s\n", name, quartiles(a), quartiles(b), quartiles(ratio))
	}
	print("wall", func(t took) float64 { return t.wall })
	print("processor time", func(t took) float64 { return t.processor })
	return nil
}

// errVectors means that a program did not print all vectors; that run does not count.
var errVectors = errors.New("not all vectors are printed")

// time runs a command that must print a line of numbers for each text.
func (o *options) time(ctx context.Context, args []string, texts int) (took, error) {
	var out, failed bytes.Buffer
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdout, c.Stderr = &out, &failed
	begin := time.Now()
	err := c.Run()
	wall := time.Since(begin)
	if err != nil {
		return took{}, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lastLine(failed.String()))
	}
	vectors := 0
	for line := range strings.Lines(out.String()) {
		if len(strings.Fields(line)) > 100 {
			vectors++
		}
	}
	if vectors != texts {
		return took{}, fmt.Errorf("%w: %d of %d texts: %s", errVectors, vectors, texts, strings.Join(args, " "))
	}
	s := c.ProcessState
	return took{wall.Seconds(), (s.UserTime() + s.SystemTime()).Seconds()}, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// quartiles prints a list's median and quartiles.
func quartiles(list []float64) string {
	list = slices.Sorted(slices.Values(list))
	at := func(share float64) float64 {
		x := share * float64(len(list)-1)
		i := int(x)
		return list[i] + (x-float64(i))*(list[min(i+1, len(list)-1)]-list[i])
	}
	return fmt.Sprintf("%.2f [%.2f to %.2f]", at(0.5), at(0.25), at(0.75))
}
