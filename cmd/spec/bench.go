package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/internal/units"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/tensor"
)

var benchCommand = command{
	name: "bench",
	does: "tokens per second on this machine, beside what its memory allows",
	usage: "[-m FILE | --shape NAME --type TYPE [--layers N] | --limits] [-p N,N] [-n N] [-t N] [-r N] [--quick] " +
		"[--kernels A,B] [-o FORMAT]",
	about: `Measures this machine's memory bandwidth, then passes of the model: decoding, verification of several tokens at once, prefill, batches of sequences, and with -md the steps of a draft model or head. Times are medians; prompts are random tokens, or those of a text (-f); batches are sampled at temperature 0.8.

"of memory" is the bytes that a pass must read, over its time and the measured bandwidth: all weights once, as they are packed (an embedding only where it serves as the output matrix; of experts those of one token), and the keys and values of earlier positions. "vs decode" compares with decoding at an empty context: decode and verify by the time of a pass, prefill and batch by the tokens per second.

Of an encoder the vectors of texts are measured, of -p tokens each alone, and of --batch texts of 128 tokens together.

With --kernels A,B the model is open on every kernel set at once, and the repeats of all rows are done on each in turn: what happens on the machine meanwhile favors none. Of each row and set there is the median of the repeats with its interval (95 %, bootstrap), and how much faster it is than the first set, by the pairs of one repeat.

With --shape the weights are random and made in memory: the speed of a model of that shape, before its download.

With --limits there is no model: it measures what this machine's memory, caches and multiplying instructions can do at most, and beside that what the kernels reach: products with every weight type (or that of --type) for decoding, verifying 8 and 16 tokens and a prompt of 128; attention of 1 and 8 tokens after 4096 others (or those of -d) with every type of cache (or that of --kv); and operations on activations. "reached" is the time that the slowest of the needed parts takes at least, over the time measured. The fastest of -r repeats counts on both sides.`,
	new: func() job { return newBenchmark() },
}

// Bounds of what may be asked for: beyond them nothing new is measured.
const (
	maxVerify  = speculative.MaxDraft + 1 // tokens of a verification pass: a draft and the token before it
	maxBatch   = 4096                     // sequences
	maxRepeats = 1 << 20
)

// measured is how many bytes the memory's bandwidth is measured with.
const measured = 1 << 30

// benchmark is the command's options.
type benchmark struct {
	modelFlags
	cache      kvFlags
	o          bench.Options
	deep       bool // -d was given
	shape, typ string
	layers     int // of the shape; 0: all
	quick      bool
	own        []string // flags that were given, of those whose defaults --quick or a short context changes
	machine    bool     // without a model: limits
	limits     bench.Limits
	text       string // file whose tokens are taken instead of random ones
	read       string // what it holds
	results    resultFlags
	profile    string
	draft      string
	kernels    []string // that are measured in turn; none: the best one, alone
}

func newBenchmark() *benchmark {
	return &benchmark{results: asText, o: bench.Options{
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

func (b *benchmark) flags() []group {
	return []group{
		{"model", append(b.modelRows(),
			draftRow("a draft model or head, whose steps are measured too",
				func(file string) error { b.draft = file; return nil }).or("the MTP block in the model's file, if it has one").
				when(b.ofModel),
			intFlag("--draft-vocab", &b.o.DraftVocab, 0, math.MaxInt32, "its steps have the logits of so many tokens alone").
				or("0: all").when(b.ofModel),
			choiceFlag("--shape", &b.shape, synth.Shapes(), "random weights of this shape instead of a file"),
			valueFlag("--type", "TYPE", "how these weights are stored: "+strings.Join(synth.Types(), ", "),
				func(v string) (err error) {
					b.typ, err = choose(synth.Types(), v)
					return err
				}).or("q8_0").takes(synth.Types()...).when(func() bool { return b.shape != "" }),
			intFlag("--layers", &b.layers, 1, math.MaxInt32,
				"only so many layers of the shape: a model that is larger than memory").
				when(func() bool { return b.shape != "" }))},
		{"cache", b.cache.rows()},
		{"measurement", []flag{
			b.given(countsFlag("-p, --n-prompt", &b.o.Prefill, 1, math.MaxInt32, "tokens of prompts; 0 is none").
				or("16,128,512")),
			b.given(intFlag("-n, --n-gen", &b.o.Decode, 0, math.MaxInt32, "tokens to decode in a repeat").or("32")),
			valueFlag("-d, --n-depth", "N,N", "tokens before those that are decoded", func(v string) error {
				b.deep = true
				return parseCounts(&b.o.Contexts, 0, math.MaxInt32, v)
			}).or("0,2048, or what the model's context holds"),
			b.given(countsFlag("--verify", &b.o.Verify, 1, maxVerify, "tokens of a verification pass; 0 is none").
				or("1,2,3,4,6,8,12,16").env("SPEC_BENCH_VERIFY").unlike()),
			b.given(countsFlag("--batch", &b.o.Batches, 1, maxBatch, "sequences decoded together; 0 is none").
				or("1,4,16,64")),
			b.given(intFlag("--sample", &b.o.Sampled, 1, math.MaxInt32, "tokens that each of them samples").or("100")),
			b.given(intFlag("-r, --repetitions", &b.o.Repeats, 1, maxRepeats, "repeats; a row stops after ten seconds").
				or("5")),
			switchFlag("--quick", &b.quick, true, "fewer rows and repeats: -p 128 -n 16 --verify 1,2,4,8,16 --batch 1,16 "+
				"--sample 20 -r 2"),
			switchFlag("--limits", &b.machine, true, "what this machine can do at most, and what of it the kernels reach"),
			fileFlag("-f, --file", &b.text, "FILE",
				"take the tokens of this text instead of random ones: which experts they choose is then a text's").when(b.ofModel),
			kernelsRow(&b.kernels, &b.modelFlags).when(b.ofModel),
			fileFlag("--cpuprofile", &b.profile, "FILE", "write a CPU profile of all this, for go tool pprof").when(b.ofModel),
		}},
		{"output", b.results.rows("SPEC_BENCH_OUTPUT")},
		withoutEffect(ignoredRows(), ignoredModes()),
	}
}

// modelRows are the flags of a model. Threads and memory nodes are the machine's too, and random weights have no file.
func (b *benchmark) modelRows() []flag {
	list := b.modelFlags.rows()
	for i, f := range list {
		switch {
		case f.sets() == fieldModel:
			list[i] = f.when(func() bool { return b.ofModel() && b.shape == "" })
		case f.names[0] != "-t" && f.names[0] != "--numa":
			list[i] = f.when(b.ofModel)
		}
	}
	return list
}

func (b *benchmark) check() (err error) {
	switch {
	case b.shape != "" && b.model != "":
		return usagef("-m and --shape exclude each other")
	case b.typ != "" && b.shape == "" && !b.machine:
		return usagef("--type goes with --shape or --limits")
	case b.layers > 0 && b.shape == "":
		return usagef("--layers goes with --shape")
	}
	if b.quick {
		b.hurry()
	}
	if b.o.KV, err = b.cache.kvType(); err == nil && b.machine {
		b.limits, err = b.checkLimits()
	}
	return err
}

// given has a flag leave its name when it is set. But for -r they are of a model's passes.
func (b *benchmark) given(f flag) flag {
	if f.names[0] != "-r" {
		f = f.when(b.ofModel)
	}
	set := f.set
	f.set = func(v string) error {
		b.own = append(b.own, f.names[0])
		return set(v)
	}
	return f
}

// ofModel reports whether a model is measured, not the machine alone.
func (b *benchmark) ofModel() bool { return !b.machine }

// hurry sets what --quick has other values for, but for what was given.
func (b *benchmark) hurry() {
	for _, x := range []struct {
		flag string
		set  func()
	}{
		{"-p", func() { b.o.Prefill = []int{128} }}, {"-n", func() { b.o.Decode = 16 }},
		{"--verify", func() { b.o.Verify = []int{1, 2, 4, 8, 16} }}, {"--batch", func() { b.o.Batches = []int{1, 16} }},
		{"--sample", func() { b.o.Sampled = 20 }}, {"-r", func() { b.o.Repeats = 2 }},
	} {
		if !slices.Contains(b.own, x.flag) {
			x.set()
		}
	}
}

// fit brings the rows down to the model's context where they were not asked for, and refuses what does not
// fit into it, or batches that do not fit into memory.
func (b *benchmark) fit(m *engine.Model) error {
	c := m.Config()
	if !slices.Contains(b.own, "-p") && (c.Layers == 0 || c.EncoderLayers == 0) {
		b.o.Prefill = within(b.o.Prefill, c.Context)
	}
	if c.Layers == 0 { // an encoder, which decodes nothing
		for _, n := range b.o.Prefill {
			if n > c.Context {
				return fmt.Errorf("-p %d: the model takes texts of %d tokens", n, c.Context)
			}
		}
		return nil
	}
	if !b.deep {
		b.o.Contexts = within(b.o.Contexts, max(0, c.Context-b.o.Decode))
	}
	if !slices.Contains(b.own, "--sample") {
		b.o.Sampled = max(1, min(b.o.Sampled, c.Context-bench.BatchPrompt))
	}
	over := func(flag string, n int) error {
		return fmt.Errorf("%s %d: the model has a context of %d tokens", flag, n, c.Context)
	}
	if b.o.Decode > c.Context {
		return over("-n", b.o.Decode)
	}
	for _, n := range b.o.Prefill {
		if n > c.Context && c.EncoderLayers == 0 {
			return over("-p", n)
		}
	}
	for _, n := range b.o.Verify {
		if n > c.Context {
			return over("--verify", n)
		}
	}
	for _, n := range b.o.Contexts {
		if b.o.Decode > 0 && n > c.Context-b.o.Decode {
			return fmt.Errorf("-d %d and -n %d: the model has a context of %d tokens", n, b.o.Decode, c.Context)
		}
	}
	if len(b.o.Batches) > 0 && b.o.Sampled > c.Context-bench.BatchPrompt {
		return fmt.Errorf("--sample %d, after prompts of %d: the model has a context of %d tokens", b.o.Sampled,
			bench.BatchPrompt, c.Context)
	}
	one := float64(bench.BatchPrompt+b.o.Sampled)*float64(bench.PositionBytes(m, b.o.KV)) + 4*float64(c.Vocab)
	for _, n := range b.o.Batches {
		if need, have := float64(n)*one, float64(machineMemory()); have > 0 && need > have {
			return fmt.Errorf("--batch %d: %s of keys, values and logits, this machine has %s of memory", n,
				size(int64(need)), size(int64(have)))
		}
	}
	return nil
}

// within brings numbers down to the most that fits, and leaves out what is then there twice.
func within(list []int, most int) []int {
	list = slices.Clone(list)
	for i, n := range list {
		list[i] = min(n, most)
	}
	return slices.Compact(list)
}

// report is what "spec bench --json" prints.
type report struct {
	Schema int `json:"schema"`
	results.Origin
	Model     string      `json:"model"`
	Bytes     int64       `json:"bytes"`
	Bandwidth float64     `json:"bandwidth_gbps"`
	Rows      []bench.Row `json:"rows" csv:"-"`
}

func countsFlag(n string, p *[]int, low, high int, help string) flag {
	return valueFlag(n, "N,N", help, func(v string) error { return parseCounts(p, low, high, v) })
}

// parseCounts reads "16,128,512". Where zero means nothing to do (low is 1), "0" is the empty list.
func parseCounts(p *[]int, low, high int, v string) error {
	*p = nil
	if v == "0" && low > 0 {
		return nil
	}
	for part := range strings.SplitSeq(v, ",") {
		n, err := wholeNumber(part, low, high)
		if err != nil {
			return fmt.Errorf("not a list of numbers from %d to %d", low, high)
		}
		*p = append(*p, n)
	}
	return nil
}

func (b *benchmark) run(ctx context.Context, p *program) error {
	if b.profile != "" {
		if err := output.Distinct(b.profile, append(filesOf(b.model, b.draft), b.text)...); err != nil {
			return err
		}
	}
	if b.machine {
		return b.runLimits(ctx, p)
	}
	if err := b.readText(ctx); err != nil {
		return err
	}
	if len(b.kernels) > 0 {
		return b.inTurn(ctx, p)
	}
	rt, err := b.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	m, file, draft, err := b.open(ctx, p, rt)
	if err != nil {
		return err
	}
	defer m.Close()
	defer draft.Close()
	b.o.Draft, b.o.DraftText = draft, speculative.DraftText
	origin, stop, err := b.prepare(ctx, p, rt, m, file)
	if err != nil {
		return err
	}
	defer stop()
	rows, bandwidth, err := b.measure(ctx, p, m)
	if err != nil {
		return err
	}
	out := report{1, origin, m.Config().Name, m.Bytes(), bandwidth / 1e9, rows}
	if done, err := writeForPrograms(&b.results, p.stdout, out, rows); done {
		return err
	}
	if b.results.format == "md" {
		return out.markdown(p.stdout, benchTitle(m))
	}
	return out.text(p.stdout, benchTitle(m), terminal.Width(p.stdout))
}

// benchTitle is the line about the model.
func benchTitle(m *engine.Model) string {
	c := m.Config()
	return fmt.Sprintf("%s: %s, %s parameters, %s, %s", terminal.Line(c.Name, longestName), c.Architecture,
		units.Count(m.Parameters()), m.WeightTypes(), size(m.Bytes()))
}

// open opens the model in a runtime, and what drafts for it: nil, if nothing does. The file is for its header only.
func (b *benchmark) open(ctx context.Context, p *program, rt *engine.Runtime) (m *engine.Model, file *gguf.File,
	draft *engine.Model, err error) {
	if m, file, err = b.load(ctx, p, rt); err != nil {
		return nil, nil, nil, err
	}
	switch {
	case b.draft != "":
		draft, err = b.openDraft(ctx, p, rt, m, b.draft, "draft", nil)
	case b.model != "" && m.HasMTP():
		draft, err = b.openMTP(ctx, p, rt, m)
	}
	if err != nil {
		m.Close()
	}
	return m, file, draft, err
}

// prepare completes the options for a model, and says what the results are of; stop ends what measures the memory.
func (b *benchmark) prepare(ctx context.Context, p *program, rt *engine.Runtime, m *engine.Model, file *gguf.File) (
	origin results.Origin, stop func(), err error) {
	if err := b.fit(m); err != nil {
		return origin, nil, err
	}
	if b.o.Weights, b.o.Encoder, err = weightBytes(file, b.weights); err != nil {
		return origin, nil, err
	}
	// Its own workers sleep while the model's run, and the other way round.
	reader, err := tensor.NewRuntime(tensor.Options{Threads: rt.Threads()})
	if err != nil {
		return origin, nil, err
	}
	b.o.Memory = func() (float64, error) {
		gbps, err := reader.ReadBandwidth(cmp.Or(p.measured, measured))
		return gbps * 1e9, err
	}
	if origin, err = b.benched(ctx, p, rt); err == nil {
		err = b.encodeText(m, &origin)
	}
	if err != nil {
		reader.Close()
	}
	return origin, reader.Close, err
}

// needs is what the passes take at most: the contexts are there at once, or the sequences of a batch, and a pass has
// logits of every token that it verifies or that a batch samples.
func (b *benchmark) needs() engine.Sessions {
	s := engine.Sessions{Count: 1, KV: cmp.Or(b.o.KV, engine.DefaultKV), Heads: true, DraftVocab: b.o.DraftVocab,
		DraftText: speculative.DraftText}
	for _, n := range b.o.Contexts {
		s.Tokens += n + b.o.Decode
	}
	s.Tokens = max(s.Tokens, slices.Max(append([]int{1}, b.o.Prefill...)))
	batch, each := slices.Max(append([]int{1}, b.o.Batches...)), bench.BatchPrompt+b.o.Sampled
	rows := max(batch, slices.Max(append([]int{1}, b.o.Verify...)))
	if int64(batch)*int64(each) > int64(s.Tokens) {
		s.Count, s.Tokens = batch, each
	}
	s.Rows = (rows + s.Count - 1) / s.Count
	return s
}

// load makes or reads the model. The file is for its header only.
func (b *benchmark) load(ctx context.Context, p *program, rt *engine.Runtime) (*engine.Model, *gguf.File, error) {
	if b.shape == "" {
		if err := modelFile(b.model, byFlag); err != nil && b.model != "" {
			return nil, nil, err
		}
		f, err := openGGUF(b.model)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		if b.beside = b.draftFiles(); kindOf(f) != engine.KindEncoder {
			b.sessions = b.needs()
		}
		m, err := b.target(ctx, p, rt)
		return m, f, err
	}
	s, err := synth.FindShape(b.shape)
	if err != nil {
		return nil, nil, err
	}
	if b.typ == "" {
		b.typ = "q8_0"
	}
	if b.layers > s.Layers {
		return nil, nil, usagef("--layers %d: %s has %d", b.layers, b.shape, s.Layers)
	}
	if b.layers > 0 {
		s.Layers = b.layers
		s.Name = fmt.Sprintf("%s, %d layers", s.Name, s.Layers)
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

// weightBytes is what a pass of one token reads of a model whose matrices are in the given type, or as in the file;
// of an encoder-decoder model one of the decoder, and what the encoder reads for an input. A tensor of three
// dimensions holds a matrix for each expert, and a token reads those that it is sent to.
func weightBytes(f *gguf.File, weights string) (pass, encoder int64, err error) {
	arch, _ := f.String("general.architecture")
	used, _ := f.Uint64(arch + ".expert_used_count") // 0 where there are none
	_, untied := f.Tensor("output.weight")
	lookedUp := untied || kindOf(f) == engine.KindEncoder
	for _, t := range f.Tensors {
		sum := &pass
		if strings.HasPrefix(t.Name, "enc.") || strings.HasSuffix(t.Name, ".cross_attn_k.weight") ||
			strings.HasSuffix(t.Name, ".cross_attn_v.weight") {
			sum = &encoder
		}
		switch {
		case strings.HasPrefix(t.Name, "position_embd"), t.Name == "token_embd.weight" && lookedUp:
		case !wide(t):
			*sum += 4 * int64(t.Elements())
		default:
			typ, err := tensorType(t.Type)
			if err != nil {
				return 0, 0, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
			}
			if weights != "" {
				if to, err := tensor.ParseType(weights); err == nil {
					if fit, ok := tensor.Fitting(to, int(t.Dims[0])); ok {
						typ = fit
					}
				}
			}
			matrices := int64(1)
			if len(t.Dims) == 3 {
				matrices = int64(min(used, t.Dims[2]))
			}
			*sum += matrices * packedBytes(typ, t.Dims[0], t.Dims[1])
		}
	}
	return pass, encoder, nil
}

// wide reports whether a tensor is a matrix, as most of the bytes are.
func wide(t gguf.Tensor) bool {
	return len(t.Dims) >= 2 && strings.HasSuffix(t.Name, ".weight") &&
		!strings.HasSuffix(t.Name, "norm.weight") && !strings.HasPrefix(t.Name, "position_embd")
}

// remembering is a writer that remembers its first error.
type remembering struct {
	w   io.Writer
	err error
}

func (r *remembering) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// measure runs the passes.
func (b *benchmark) measure(ctx context.Context, p *program, m *engine.Model) (
	rows []bench.Row, rate float64, err error) {
	say, done := b.progress(p)
	defer done()
	err = b.profiled(ctx, func() (err error) {
		rows, rate, err = bench.Run(ctx, m, b.o, func(r bench.Row) { say("", r) })
		return err
	})
	return rows, rate, err
}

// progress tells a terminal of each row, of a kernel set where several are measured.
func (b *benchmark) progress(p *program) (say func(kernels string, r bench.Row), done func()) {
	if !terminal.Styles(p.stderr) {
		return func(string, bench.Row) {}, func() {}
	}
	return func(kernels string, r bench.Row) {
		fmt.Fprintf(p.stderr, "\r\x1b[K%s%s of %d: %.1f tokens/s", kernels, r.Kind, r.Tokens, r.TokensPerSecond)
	}, func() { fmt.Fprint(p.stderr, "\r\x1b[K") }
}

// profiled calls f, under a profile if one is wanted.
func (b *benchmark) profiled(ctx context.Context, f func() error) (err error) {
	if b.profile == "" {
		return f()
	}
	file, err := output.Create(ctx, b.profile, nil)
	if err != nil {
		return err
	}
	defer file.Abort()
	w := &remembering{w: file} // pprof drops errors
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	defer func() {
		pprof.StopCPUProfile()
		if err == nil && w.err == nil {
			w.err = file.Commit()
		}
		err = errors.Join(err, w.err)
	}()
	return f()
}

// benched is the origin of the results: random weights have a name and no hash.
func (b *benchmark) benched(ctx context.Context, p *program, rt *engine.Runtime) (results.Origin, error) {
	if b.shape == "" {
		return b.origin(ctx, p, rt, b.draftFiles()...)
	}
	o := results.Here()
	o.SIMD, o.Threads = rt.SIMD(), rt.Threads()
	o.Models = append(o.Models, results.File{Name: "random weights of " + b.shape + " in " + b.typ})
	if b.draft == "" {
		return o, nil
	}
	draft, err := b.hashed(ctx, p, b.draft, "", nil)
	o.Models = append(o.Models, draft)
	return o, err
}

func (b *benchmark) draftFiles() []string {
	if b.draft == "" {
		return nil
	}
	return []string{b.draft}
}

// readText reads the text of -f, before any work is done.
func (b *benchmark) readText(ctx context.Context) error {
	if b.text == "" {
		return nil
	}
	file, err := openInput(ctx, b.text)
	if err != nil {
		return err
	}
	b.read, err = readText(ctx, &source{from: file, name: b.text})
	return err
}

// encodeText makes tokens of the text of -f, and notes its hash.
func (b *benchmark) encodeText(m *engine.Model, o *results.Origin) error {
	if b.text == "" {
		return nil
	}
	tok, err := tokenizerOf(m, fmt.Sprintf("-f %s: %s", b.text, m.Name()))
	if err != nil {
		return err
	}
	if b.o.Text = tok.Encode(b.read, bpe.EncodeOptions{}); len(b.o.Text) == 0 {
		return fmt.Errorf("-f %s: no tokens", b.text)
	}
	o.Prompts = append(o.Prompts, results.TextFile(filepath.Base(b.text), []byte(b.read)))
	return nil
}
