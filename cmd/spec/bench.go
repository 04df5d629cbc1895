package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/specgo/spec/cmd/spec/internal/bench"
	"github.com/specgo/spec/cmd/spec/internal/synth"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
	"github.com/specgo/spec/testdata"
)

var benchCommand = command{
	name:  "bench",
	does:  "tokens per second here, beside what the memory allows",
	usage: "[-m FILE | --shape NAME --type TYPE] [-p N,N] [-n N] [-t N] [-r N] [--quick] [--json]",
	about: `Measures this machine's memory, then passes of the model: decoding, verification of several tokens at once, prefill,
and batches of sequences. Times are medians; prompts are random tokens; batches are sampled at temperature 0.8.

"of memory" is the bytes that a pass must read, over its time and the measured bandwidth: all weights once, as they
are packed (an embedding only where it serves as the output matrix), and the keys and values of earlier positions.
"decodes" compares with decoding at an empty context: decode and verify by the time of a pass, prefill and batch by
the tokens per second.

With --shape the weights are random and made in memory: what a model of that size would do here, before its download.`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		b := newBenchmark()
		flags := append(b.flags(),
			choiceFlag("--shape", &b.shape, synth.Shapes(), "random weights of this shape instead of a file"),
			choiceFlag("--type", &b.typ, synth.Types(), "how these weights are stored (default q8_0)"),
			countsFlag("-p, --n-prompt", &b.o.Prefill, 1, "tokens of prompts; 0 is none (default 16,128,512)"),
			intFlag("-n, --n-gen", &b.o.Decode, 0, math.MaxInt32, "tokens to decode in a repeat (default 32)"),
			flag{names("-d, --n-depth"), "N,N", "tokens before those that are decoded (default 0,2048, or what the model's context holds)", func(v string) error {
				b.deep = true
				return parseCounts(&b.o.Contexts, 0, v)
			}},
			countsFlag("--verify", &b.o.Verify, 1, "tokens of a verification pass; 0 is none (default 1,2,3,4,6,8,12,16)"),
			countsFlag("--batch", &b.o.Batches, 1, "sequences decoded together; 0 is none (default 1,4,16,64)"),
			intFlag("--sample", &b.o.Sampled, 1, math.MaxInt32, "tokens that each of them samples (default 100)"),
			intFlag("-r, --repetitions", &b.o.Repeats, 1, math.MaxInt32, "repeats (default 5); a row stops after ten seconds"),
			choiceFlag("--kv", &b.o.KV, []string{"f16", "f32", "q8_0"}, "how keys and values are stored (default f16)"),
			switchFlag("--quick", &b.quick, true, "fewer rows and repeats: -p 128 -n 16 --verify 1,2,4,8,16 --batch 1,16 --sample 20 -r 2"),
			switchFlag("--json", &b.json, true, "write JSON"),
			textFlag("--cpuprofile", &b.profile, "FILE", "write a profile of all this, for go tool pprof"))
		return flags, b.run
	},
}

// benchmark is the command's flags, and what it finds out.
type benchmark struct {
	modelFlags
	o           bench.Options
	deep        bool // -d was given
	shape, typ  string
	quick, json bool
	profile     string
	memory      int // bytes to measure the memory with
}

func newBenchmark() *benchmark {
	return &benchmark{memory: 1 << 30, o: bench.Options{
		Prefill:  []int{16, 128, 512},
		Contexts: []int{0, 2048},
		Verify:   []int{1, 2, 3, 4, 6, 8, 12, 16},
		Batches:  []int{1, 4, 16, 64},
		Decode:   32,
		Sampled:  100,
		Repeats:  5,
		Budget:   10 * time.Second,
	}}
}

// report is what "spec bench --json" prints.
type report struct {
	Schema    int         `json:"schema"`
	CPU       string      `json:"cpu"`
	SIMD      string      `json:"simd"`
	Threads   int         `json:"threads"`
	Model     string      `json:"model"`
	Bytes     int64       `json:"bytes"`
	Bandwidth float64     `json:"bandwidth_gbps"`
	Rows      []bench.Row `json:"rows"`
}

func countsFlag(n string, p *[]int, low int, help string) flag {
	return flag{names(n), "N,N", help, func(v string) error { return parseCounts(p, low, v) }}
}

// parseCounts reads "16,128,512". Where zero means nothing to do (low is 1), "0" is the empty list.
func parseCounts(p *[]int, low int, v string) error {
	*p = nil
	if v == "0" && low > 0 {
		return nil
	}
	for part := range strings.SplitSeq(v, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < low || n > math.MaxInt32 {
			return fmt.Errorf("not a list of numbers from %d up", low)
		}
		*p = append(*p, n)
	}
	return nil
}

func (b *benchmark) run(ctx context.Context, p *program) error {
	switch {
	case b.shape != "" && b.model != "":
		return usagef("-m and --shape exclude each other")
	case b.typ != "" && b.shape == "":
		return usagef("--type goes with --shape")
	}
	if b.quick {
		b.o.Prefill, b.o.Decode, b.o.Verify, b.o.Batches, b.o.Sampled, b.o.Repeats = []int{128}, 16, []int{1, 2, 4, 8, 16}, []int{1, 16}, 20, 2
	}
	rt, err := b.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	m, file, err := b.load(ctx, p, rt)
	if err != nil {
		return err
	}
	defer m.Close()
	if b.o.Weights, err = weightBytes(file, b.weights); err != nil {
		return err
	}
	if most := m.Config().Context - b.o.Decode; !b.deep && most > 0 {
		for i, c := range b.o.Contexts {
			b.o.Contexts[i] = min(c, most)
		}
	}
	// Its own workers sleep while the model's run, and the other way round.
	reader, err := tensor.NewRuntime(tensor.Options{Threads: rt.Threads()})
	if err != nil {
		return err
	}
	defer reader.Close()
	b.o.Memory = func() (float64, error) {
		gbps, err := reader.ReadBandwidth(b.memory)
		return gbps * 1e9, err
	}
	rows, bandwidth, err := b.measure(ctx, p, m)
	if err != nil {
		return err
	}
	out := report{1, cpuName(), rt.SIMD(), rt.Threads(), m.Config().Name, m.Bytes(), bandwidth / 1e9, rows}
	if b.json {
		return printJSON(p.stdout, out)
	}
	return out.print(p.stdout, m)
}

// load makes or reads the model. The file is for its header only.
func (b *benchmark) load(ctx context.Context, p *program, rt *engine.Runtime) (*engine.Model, *gguf.File, error) {
	if b.shape == "" {
		f, err := openGGUF(b.model)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		m, err := b.open(ctx, p, rt, b.model, "target", testdata.Target())
		return m, f, err
	}
	s, err := synth.FindShape(b.shape)
	if err != nil {
		return nil, nil, err
	}
	if b.typ == "" {
		b.typ = "q8_0"
	}
	r, err := synth.Random(s, b.typ)
	if err != nil {
		return nil, nil, err
	}
	f, err := gguf.Open(r, r.Size(), b.shape)
	if err != nil {
		return nil, nil, err
	}
	m, err := engine.New(ctx, rt, r, r.Size(), engine.Options{Name: b.shape, Weights: b.weights})
	return m, f, err
}

// weightBytes is what a pass reads of a model whose matrices are in the given type, or as in the file.
func weightBytes(f *gguf.File, weights string) (sum int64, err error) {
	_, untied := f.Tensor("output.weight")
	for _, t := range f.Tensors {
		switch {
		case strings.HasPrefix(t.Name, "position_embd"), t.Name == "token_embd.weight" && untied:
		case !wide(t):
			sum += 4 * int64(t.Elements())
		default:
			typ, err := tensorType(t.Type)
			if err != nil {
				return 0, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
			}
			if weights != "" {
				if to, err := tensor.ParseType(weights); err == nil {
					if fit, ok := tensor.Fitting(to, int(t.Dims[0])); ok {
						typ = fit
					}
				}
			}
			const panelRows = 16
			sum += int64((t.Dims[1]+panelRows-1)/panelRows) * int64(typ.PanelBytes(int(t.Dims[0])))
		}
	}
	return sum, nil
}

// measure runs the passes, under a profile if one is wanted.
func (b *benchmark) measure(ctx context.Context, p *program, m *engine.Model) ([]bench.Row, float64, error) {
	if b.profile != "" {
		f, err := os.Create(b.profile)
		if err != nil {
			return nil, 0, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, 0, err
		}
		defer pprof.StopCPUProfile()
	}
	say := func(bench.Row) {}
	if isTerminal(p.stderr) {
		say = func(r bench.Row) {
			fmt.Fprintf(p.stderr, "\r\x1b[K%s of %d: %.1f tokens/s", r.Kind, r.Tokens, r.TokensPerSecond)
		}
		defer fmt.Fprint(p.stderr, "\r\x1b[K")
	}
	return bench.Run(ctx, m, b.o, say)
}

// cpuName is what the processor calls itself.
func cpuName() string {
	if name := strings.TrimSpace(cpuid.CPU.BrandName); name != "" {
		return name
	}
	return runtime.GOARCH
}

// seedExperiment is what the experiment that this project grew out of got from batches of one to 64 sequences.
const seedExperiment = "the experiment that this grew out of: 418 to 16,266 tokens/s, 39x"

// print writes the table.
func (r *report) print(out io.Writer, m *engine.Model) error {
	fmt.Fprintf(out, "%s, %s kernels, %d threads; memory %.1f GB/s\n", r.CPU, r.SIMD, r.Threads, r.Bandwidth)
	fmt.Fprintf(out, "%s: %s, %.2f billion parameters, %s, %.0f MB\n\n", r.Model, m.Config().Architecture,
		float64(m.Parameters())/1e9, m.WeightTypes(), float64(r.Bytes)/1e6)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ttokens\tcontext\ttokens/s\tms a pass\t+-\tof memory\tdecodes\t")
	var one, most bench.Row
	cached := false
	for _, row := range r.Rows {
		cached = cached || row.BandwidthFraction > 1.25 // not just a busy moment while the memory was measured
		compared := "-"
		if row.RatioToDecode > 0 {
			compared = fmt.Sprintf("%.2f", row.RatioToDecode)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.0f %%\t%s\t\n", row.Kind, row.Tokens, row.Context, row.TokensPerSecond,
			1e3*row.PassSeconds, 1e3*row.StdDev, 100*row.BandwidthFraction, compared)
		if row.Kind == "batch" {
			if one.Tokens == 0 || row.Tokens < one.Tokens {
				one = row
			}
			if row.Tokens > most.Tokens {
				most = row
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if cached {
		fmt.Fprintln(out, "\nMore than 100 % of memory: the caches hold much of this model.")
	}
	if most.Tokens > one.Tokens {
		_, err := fmt.Fprintf(out, "\n%d to %d sequences: %.0f to %.0f tokens/s, %.1fx (%s from 1 to 64)\n", one.Tokens, most.Tokens,
			one.TokensPerSecond, most.TokensPerSecond, most.TokensPerSecond/one.TokensPerSecond, seedExperiment)
		return err
	}
	return nil
}
