package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/specgo/spec/internal/doctor"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/tensor"
)

var doctorCommand = command{
	name:  "doctor",
	does:  "examine this machine, and say what to change so that models run faster",
	usage: "[--json]",
	about: `Examines the processor and the kernels that are selected for it, the bandwidth of the memory beside what the processor can read, huge pages, the frequency governor, the limits of the control group (containers), memory nodes and the load, and says what to change. It changes nothing itself. Measuring takes a gigabyte of memory for a second or two.`,
	new:   func() job { return &examining{} },
}

// examining is the command's options.
type examining struct {
	json    bool
	threads int
}

func (e *examining) flags() []group {
	return []group{{"the machine", []flag{threadsRow(&e.threads)}}, {"output", []flag{jsonRow(&e.json)}}}
}

// doctorReport is the output as JSON.
type doctorReport struct {
	Schema    int              `json:"schema"`
	Version   string           `json:"version"`
	Kernels   string           `json:"kernels"`
	Threads   int              `json:"n_threads"`
	Bandwidth float64          `json:"memory_gb_per_second"`
	Findings  []doctor.Finding `json:"findings"`
}

func (e *examining) run(_ context.Context, p *program) error {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: max(e.threads, 0), SIMD: p.env("SPEC_SIMD")})
	if err != nil {
		return err
	}
	defer rt.Close()
	m := doctor.Machine{
		Kernels: rt.SIMD(), Threads: rt.Threads(), CPUs: runtime.NumCPU(), MustBe: p.env("SPEC_SIMD"),
	}
	if m.Bandwidth, err = rt.ReadBandwidth(cmp.Or(p.measured, measured)); err != nil {
		return err
	}
	list := doctor.Examine(os.DirFS("/"), m)
	if e.json {
		return printJSON(p.stdout, doctorReport{1, results.Version(), m.Kernels, m.Threads, m.Bandwidth, list})
	}
	changes := 0
	for _, f := range list {
		if _, err := fmt.Fprintf(p.stdout, "%-8s %s: %s\n", f.State, f.Subject, f.Found); err != nil {
			return err
		}
		if f.Advice == "" {
			continue
		}
		changes++
		if _, err := fmt.Fprintf(p.stdout, "%-8s -> %s\n", "", f.Advice); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.stdout, "%d to change\n", changes)
	return err
}
