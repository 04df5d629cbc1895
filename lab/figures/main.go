// Command figures measures the experiments that docs/PAPERS.md and docs/BENCHMARKS.md report, and renders their
// tables and charts:
//
//	go -C lab run ./figures [-quick|-full|-sweep|-plan] [-out DIR] [-results FILE]
//
// It enlarges the embedded pair in memory, runs each experiment with its settings in turn with plain decoding, each
// cell on all kernel sets and numbers of threads before the next one (a pair is open on all of them at once), and
// appends every result to results/results-MACHINE.jsonl, -sweep to results/sweep-MACHINE.jsonl, as soon as it is there;
// called again it continues. Then it renders all results files beside that one, each machine's of the commit that the
// tables name: charts to DIR/figures, tables between the marks in documents of DIR and in README.md beside DIR. -render
// only renders; -plan prints what the modes would measure and how long that takes. A cell during which other processes
// took more than 5 % of the CPUs is measured again, up to three times; then it is kept, marked, and left out of the
// tables. -budget 100s measures what fits 100 seconds. Neither git nor Go is needed where the binary was built with
//
//	commit=$(git log -1 --format=%h -- asm tensor engine speculative ':!*_test.go')
//	go build -ldflags "-X main.commit=$commit" ./figures
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/specgo/spec/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("figures", flag.ContinueOnError)
	quick := f.Bool("quick", false, "measure few prompts, to the end: about 10 minutes, as -plan says (the default)")
	full := f.Bool("full", false, "measure at most 120 minutes: 30 prompts in the main tables")
	sweeping := f.Bool("sweep", false, "measure the schedule auto against constant lengths, at most 75 minutes")
	planning := f.Bool("plan", false, "print what the modes measure and how long it takes, and measure nothing")
	render := f.Bool("render", false, "measure nothing")
	out := f.String("out", "../docs", "the documentation's folder")
	file := f.String("results", "", "the results file (default results/results-MACHINE.jsonl, of -sweep "+
		"results/sweep-MACHINE.jsonl)")
	budget := f.Duration("budget", 0, "measure no longer than this")
	simd := f.String("simd", "", "kernel sets, separated by commas (default: the CPU's best one, and avx2)")
	threads := f.String("t", "0", "numbers of threads, separated by commas (0: one for each core)")
	only := f.String("only", "", "experiments, separated by commas")
	machine := f.String("machine", "", "what the tables call this machine (default: its CPU)")
	if err := f.Parse(args); err != nil {
		return err
	}
	modes := 0
	for _, on := range []bool{*quick, *full, *sweeping, *planning, *render} {
		if on {
			modes++
		}
	}
	if f.NArg() > 0 || modes > 1 {
		return fmt.Errorf("usage: figures [-quick|-full|-sweep|-plan|-render] [flags]; not %q", args)
	}
	m, kind := quickMode, ofModes
	switch {
	case *full:
		m = fullMode
	case *sweeping:
		m, kind = sweepMode, ofSweep
	}
	folder := "results"
	if *file != "" {
		folder = filepath.Dir(*file)
	}
	if !*render {
		h, err := thisMachine(*machine)
		if err != nil {
			return err
		}
		if *file == "" {
			*file = filepath.Join(folder, kind+"-"+fileName(h.Machine)+".jsonl")
		}
		if *planning {
			columns, err := columnsOf(*simd, *threads)
			if err != nil {
				return err
			}
			old, err := readResults(*file)
			if errors.Is(err, fs.ErrNotExist) {
				old, err = &results{}, nil
			}
			if err != nil {
				return err
			}
			return printPlan(os.Stdout, experiments(), columns, old.cells)
		}
		if err := os.MkdirAll(filepath.Dir(*file), 0o755); err != nil {
			return err
		}
		l := &lab{ctx: ctx, log: os.Stderr, now: time.Now, measure: readBandwidth, load: readLoad,
			took: map[string]time.Duration{}}
		if *only != "" {
			l.only = strings.Split(*only, ",")
		}
		if *budget > 0 {
			l.deadline = time.Now().Add(*budget)
		} else if m != quickMode {
			l.deadline = time.Now().Add(bounds[m])
		}
		if l.columns, err = columnsOf(*simd, *threads); err != nil {
			return err
		}
		if l.journal, err = openJournal(*file, h); err != nil {
			return err
		}
		defer l.journal.close()
		err = l.run(experiments(), m)
		switch {
		case errors.Is(err, errBudget):
			fmt.Fprintln(os.Stderr, "figures:", err, "(call again to continue)")
		case err != nil:
			return err
		}
		if err := l.report(); err != nil {
			return err
		}
	}
	return renderAll(*out, folder)
}

// columnsOf lists kernel sets and threads, each with each.
func columnsOf(simd, threads string) (list []column, err error) {
	sets := strings.Split(simd, ",")
	if simd == "" {
		best, err := engine.NewRuntime(engine.RuntimeOptions{})
		if err != nil {
			return nil, err
		}
		sets = []string{best.SIMD()}
		best.Close()
		if strings.HasPrefix(sets[0], "avx") && sets[0] != "avx2" {
			sets = append(sets, "avx2")
		}
	}
	for n := range strings.SplitSeq(threads, ",") {
		count, err := strconv.Atoi(n)
		if err != nil {
			return nil, fmt.Errorf("-t %s: %w", threads, err)
		}
		for _, s := range sets {
			rt, err := engine.NewRuntime(engine.RuntimeOptions{SIMD: s, Threads: count})
			if err != nil {
				return nil, err
			}
			list = append(list, column{rt.SIMD(), rt.Threads()})
			rt.Close()
		}
	}
	return list, nil
}
