package speculative

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// embedded is one of the embedded models, whose texts have receipts.
type embedded struct {
	name   string
	reader func() *strings.Reader
}

var theTarget, theDraft = embedded{"target", testdata.Target}, embedded{"draft", testdata.Draft}

// fingerprints are those that were read, by name.
var fingerprints = map[string]engine.Fingerprint{}

// file is the model's fingerprint, which is read once.
func (e embedded) file(t testing.TB) engine.Fingerprint {
	t.Helper()
	x, ok := fingerprints[e.name]
	if !ok {
		r := e.reader()
		f, err := gguf.Open(r, r.Size(), e.name)
		if err != nil {
			t.Fatal(err)
		}
		if x, err = engine.ReadFingerprint(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		fingerprints[e.name] = x
	}
	return x
}

// opened are the models that open has opened, which nobody closes: by name, kernels and weights.
var opened = map[[3]string]*engine.Model{}

// open opens the model with some kernels, those of this machine by default, once.
func (e embedded) open(t testing.TB, simd, weights string) *engine.Model {
	t.Helper()
	if sets := asm.Available(); simd == "" {
		simd = sets[len(sets)-1]
	}
	key := [3]string{e.name, simd, weights}
	if m := opened[key]; m != nil {
		return m
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1, SIMD: simd})
	if err != nil {
		t.Fatal(err)
	}
	r := e.reader()
	m, err := engine.New(context.Background(), rt, r, r.Size(), engine.Options{Name: e.name, Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	opened[key] = m
	return m
}

// targetFile is the fingerprint of the embedded target.
func targetFile(t testing.TB) engine.Fingerprint { return theTarget.file(t) }

// openTarget opens the embedded target with some kernels, those of this machine by default, once.
func openTarget(t testing.TB, simd, weights string) *engine.Model {
	return theTarget.open(t, simd, weights)
}

// everyPenalty is a Sampling with every option on, in a way that each of them decides some token of the test's text: of
// the two banned sequences one in the target's, the other in the draft model's.
func everyPenalty() engine.Sampling {
	return engine.Sampling{
		Temperature: 0.9, TopK: 30, TopP: 0.93, MinP: 0.01, RepeatPenalty: 1.15, FrequencyPenalty: 0.1,
		PresencePenalty: 0.2, PenaltyLastN: 24,
		LogitBias: map[int32]float32{8: 4, 11: float32(math.Inf(-1))}, Banned: []int32{15, 16},
		BannedSequences: [][]int32{{264, 13}, {3818, 8}}, Seed: 1 << 63, Infill: sampling.Infill{Ends: []int32{5}},
		Unpenalized: []int32{13},
	}
}

const receiptPrompt = "// Max returns the greater of two numbers.\nfunc Max(a, b int) int {\n"

// receiptCases are texts of the embedded pair, by what is particular to them.
var receiptCases = []struct {
	name     string
	sampling engine.Sampling
	kv       string
	end      End
	drafts   bool
	options  func(o *Options)
}{
	{"greedy", engine.Sampling{}, "", EndLength, false, nil},
	{"greedy with drafts", engine.Sampling{RepeatPenalty: 1.2, BannedSequences: [][]int32{{198, 263}, {13, 79}}},
		"q8_0", EndLength, true, nil},
	{"match", engine.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, Seed: 3}, "f16", EndLength, true, nil},
	{"everything", everyPenalty(), "f32", EndLength, true, nil},
	{"steps", steps(engine.Sampling{Temperature: 0.9, Seed: 8}), "", EndLength, true, nil},
	{"mirostat", mirostat(engine.Sampling{Temperature: 0.9, Seed: 9}), "", EndLength, true, nil},
	{"infill", engine.Sampling{Temperature: 0.9, Seed: 2, Order: []sampling.Step{sampling.StepInfill,
		sampling.StepTemperature}, Infill: sampling.Infill{Ends: []int32{198, 266}}}, "", EndLength, true, nil},
	{"stop string", engine.Sampling{Temperature: 0.8, Seed: 4}, "", EndStop, true,
		func(o *Options) { o.Stop, o.MaxTokens = []string{"}\n"}, 0 }},
	{"shown stop string", engine.Sampling{Temperature: 0.8, Seed: 4}, "", EndStop, true,
		func(o *Options) { o.Stop, o.ShownStop, o.MaxTokens = []string{"}\n", "never"}, 1, 0 }},
	{"end of text", engine.Sampling{Temperature: 0.8, Seed: 5}, "", EndOfText, true, func(o *Options) {
		o.EOG, o.MaxTokens = func(id int32) bool { return id == 198 || id == 266 }, 0
	}},
	{"context", engine.Sampling{Temperature: 0.8, Seed: 6}, "", EndContext, true, func(o *Options) { o.MaxTokens = 0 }},
	{"stairs", engine.Sampling{}, "", EndLength, true, func(o *Options) {
		o.Verifier, o.Schedule = Stairs(StairsOptions{}), Constant(ConstantOptions{Length: 4})
	}},
}

// receipts are those that writeReceipts returned first, by model and kernel set: the same texts every time. Nobody
// changes them.
var receipts = map[[2]string][]*Receipt{}

// writeReceipts writes the texts of receiptCases with a model on some kernels, those of this machine by default, and
// their receipts. The embedded draft model drafts.
func writeReceipts(t *testing.T, of embedded, simd string) (all []*Receipt) {
	t.Helper()
	if sets := asm.Available(); simd == "" {
		simd = sets[len(sets)-1]
	}
	key := [2]string{of.name, simd}
	if all = receipts[key]; all != nil {
		return all
	}
	m, file, draft := of.open(t, simd, ""), of.file(t), theDraft.open(t, simd, "")
	for _, c := range receiptCases {
		how := engine.SessionOptions{KV: c.kv}
		if c.end == EndContext {
			how.Context = 90
		}
		s, err := m.NewSession(how)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{MaxTokens: 70, Tokenizer: m.Tokenizer()}
		if c.options != nil {
			c.options(&o)
		}
		if c.sampling.Infill.Ends != nil {
			c.sampling.Infill.Pieces = m.Tokenizer()
		}
		var drafter Drafter
		if c.drafts {
			drafter = Tree(session(t, draft, 0), TreeOptions{})
		}
		d := New(s, drafter, o)
		ids, text := collect(t, d, m.Tokenizer().Encode(receiptPrompt, bpe.EncodeOptions{AddSpecial: true}), c.sampling)
		x, err := d.Receipt(ReceiptOptions{Fingerprint: file, KV: c.kv})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if x.End != c.end || !slices.Equal(x.Tokens, ids) || x.Text != text {
			t.Fatalf("%s: end %s, tokens %v, text %q; written were %v, %q", c.name, x.End, x.Tokens, x.Text, ids, text)
		}
		all = append(all, x)
	}
	receipts[key] = all
	return all
}

// read is the receipt after a journey as JSON.
func read(t *testing.T, r *Receipt) *Receipt {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadReceipt(bytes.NewReader(data))
	if err != nil || !reflect.DeepEqual(r, back) {
		t.Fatalf("read back: %+v, was %+v: %v", back, r, err)
	}
	return back
}

// What one set of kernels writes every other confirms, in few passes.
func TestReceiptsAcrossKernels(t *testing.T) {
	sets := asm.Available()
	written := writeReceipts(t, theTarget, sets[len(sets)-1])
	file := targetFile(t)
	for k, simd := range sets {
		m := openTarget(t, simd, "")
		for i, r := range written {
			if (i+k)%4 > 0 && k < len(sets)-1 && !testkit.IsLong(t) { // the writer's kernels confirm all
				continue
			}
			c, err := Confirm(t.Context(), m, file, read(t, r))
			passes := (len(r.Prompt)-2)/prefillChunk + 1 + (len(r.Tokens)-1)/confirmRows + 1
			if err != nil || c.Tokens != len(r.Tokens) || c.Passes > passes {
				t.Errorf("%s on %s: %d of %d tokens in %d passes, most %d: %v", receiptCases[i].name, simd, c.Tokens,
					len(r.Tokens), c.Passes, passes, err)
			}
		}
	}
}

// TestLongReceiptsAcrossKernels: every receipt on every kernel set.
func TestLongReceiptsAcrossKernels(t *testing.T) {
	testkit.Long(t)
	TestReceiptsAcrossKernels(t)
}

var updateReceipts = flag.Bool("update-receipts", false, "write testdata/receipt-*.json")

// The committed receipts were written on amd64 with AVX-512 kernels and drafts; every machine confirms them. A
// failure on a change of arithmetic or of sampling means: engine.NumericRules is to be raised, and the receipts
// written again.
func TestCommittedReceipts(t *testing.T) {
	names := map[string]string{"greedy with drafts": "greedy", "everything": "match"}
	if *updateReceipts {
		for i, r := range writeReceipts(t, theTarget, "avx512") {
			if name := names[receiptCases[i].name]; name != "" {
				data, _ := json.MarshalIndent(r, "", " ")
				if err := os.WriteFile("testdata/receipt-"+name+".json", append(data, '\n'), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	m, file := openTarget(t, "", ""), targetFile(t)
	for _, name := range names {
		data, err := os.ReadFile("testdata/receipt-" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		r, err := ReadReceipt(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := Confirm(t.Context(), m, file, r); err != nil || c.Tokens != 70 {
			t.Errorf("%s: %d tokens: %v", name, c.Tokens, err)
		}
	}
}

// Every kind of tampering is noticed, and named: with the embedded draft model, which takes the least time.
func TestReceiptTampering(t *testing.T) {
	written, file, m := writeReceipts(t, theDraft, ""), theDraft.file(t), theDraft.open(t, "", "")
	index := func(name string) *Receipt {
		for i := range receiptCases {
			if receiptCases[i].name == name {
				return written[i]
			}
		}
		t.Fatal(name)
		return nil
	}
	tamper := func(of, what, field string, at int, change func(r *Receipt)) {
		t.Helper()
		r := read(t, index(of))
		change(r)
		_, err := Confirm(t.Context(), m, file, r)
		var d *Mismatch
		if !errors.As(err, &d) || !errors.Is(err, ErrNotConfirmed) || d.Field != field || at >= 0 && d.Position != at {
			t.Errorf("%s, %s: %v, want a mismatch of %s at %d", of, what, err, field, at)
			return
		}
		if field == "token_ids" && d.Position >= 0 {
			if d.Position < len(r.Prompt) || d.WrittenID != r.Tokens[d.Position-len(r.Prompt)] || d.ExpectedID == d.WrittenID {
				t.Errorf("%s, %s: %+v", of, what, d)
			}
			if was := index(of).Tokens[d.Position-len(r.Prompt)]; at >= 0 && d.ExpectedID != was {
				t.Errorf("%s, %s: should have been %d, was %d", of, what, d.ExpectedID, was)
			}
		}
	}
	for i, c := range receiptCases {
		kinds := 0
		turn := func() bool { // each receipt has a third of the kinds, each kind a third of the receipts
			kinds++
			return testkit.IsLong(t) || (i+kinds)%3 == 0
		}
		for _, at := range []int{0, 1, len(written[i].Tokens) / 2, len(written[i].Tokens) - 1} { // one token, anywhere
			if turn() {
				tamper(c.name, fmt.Sprint("token ", at), "token_ids", len(written[i].Prompt)+at,
					func(r *Receipt) { r.Tokens[at] = (r.Tokens[at] + 1) % 4096 })
			}
		}
		if turn() {
			tamper(c.name, "a token outside the vocabulary", "token_ids", len(written[i].Prompt)+2,
				func(r *Receipt) { r.Tokens[2] = 4096 * 4096 })
		}
		if turn() {
			tamper(c.name, "prompt", "token_ids", -1, func(r *Receipt) { r.Prompt[len(r.Prompt)-1] = 40 })
		}
		if turn() {
			tamper(c.name, "a token less", "end_reason", -1, func(r *Receipt) { r.Tokens = r.Tokens[:len(r.Tokens)-1] })
		}
		if turn() {
			tamper(c.name, "text", "text", -1, func(r *Receipt) { r.Text += "x" })
		}
		if turn() {
			forged := read(t, written[i])
			forged.Text = "forged"
			var d *Mismatch
			if _, err := Confirm(t.Context(), m, file, forged); !errors.As(err, &d) || d.Written != cut80("forged") ||
				d.Expected != cut80(written[i].Text) {
				t.Errorf("%s: a forged text: %v", c.name, err)
			}
		}
		if turn() {
			tamper(c.name, "end", "end_reason", -1, func(r *Receipt) { r.End = EndCancel })
		}
		for _, end := range []End{EndLength, EndOfText, EndContext, EndStop, "never"} {
			if turn() && end != c.end {
				tamper(c.name, "end "+string(end), "end_reason", -1, func(r *Receipt) { r.End = end })
			}
		}
	}
	tamper("match", "seed", "token_ids", -1, func(r *Receipt) { r.Sampling.Seed++ })
	for what, change := range map[string]func(s *ReceiptSampling){
		"seed":               func(s *ReceiptSampling) { s.Seed-- },
		"temperature":        func(s *ReceiptSampling) { s.Temperature = 0.5 },
		"greedy":             func(s *ReceiptSampling) { s.Temperature = 0 },
		"top-k":              func(s *ReceiptSampling) { s.TopK = 2 },
		"top-p":              func(s *ReceiptSampling) { s.TopP = 0.3 },
		"min-p":              func(s *ReceiptSampling) { s.MinP = 0.5 },
		"repeat penalty":     func(s *ReceiptSampling) { s.RepeatPenalty = 1 },
		"frequency penalty":  func(s *ReceiptSampling) { s.FrequencyPenalty = 2 },
		"presence penalty":   func(s *ReceiptSampling) { s.PresencePenalty = 3 },
		"penalty window":     func(s *ReceiptSampling) { s.PenaltyLastN = -1 },
		"bias":               func(s *ReceiptSampling) { s.LogitBias[0].Bias = 9 },
		"no bias":            func(s *ReceiptSampling) { s.LogitBias = nil },
		"no banned sequence": func(s *ReceiptSampling) { s.BannedSequences = nil },
		"another ban":        func(s *ReceiptSampling) { s.Banned = append(s.Banned, index("everything").Tokens[60]) },
		"unpenalized":        func(s *ReceiptSampling) { s.Unpenalized = nil },
		"no bans":            func(s *ReceiptSampling) { s.Banned = nil },
	} {
		tamper("everything", what, "token_ids", -1, func(r *Receipt) { change(&r.Sampling) })
	}
	for what, change := range map[string]func(s *ReceiptSampling){
		"typical-p": func(s *ReceiptSampling) { s.TypicalP = 0.3 }, "sigma": func(s *ReceiptSampling) { s.TopNSigma = 0.3 },
		"dynatemp": func(s *ReceiptSampling) { s.Dynatemp.Range = 0 },
		"xtc":      func(s *ReceiptSampling) { s.XTC.Probability = 1 },
		"dry":      func(s *ReceiptSampling) { s.DRY = sampling.DRY{Multiplier: 20, AllowedLength: 1} },
		"order":    func(s *ReceiptSampling) { s.Order = s.Order[:1] },
		"no top":   func(s *ReceiptSampling) { s.Order = nil; s.TopK = 1 },
	} {
		tamper("steps", what, "token_ids", -1, func(r *Receipt) { change(&r.Sampling) })
	}
	tamper("infill", "ends", "token_ids", -1, func(r *Receipt) { r.Sampling.Infill = []int32{4095} })
	tamper("infill", "samplers", "token_ids", -1, func(r *Receipt) { r.Sampling.Order = r.Sampling.Order[1:] })
	tamper("mirostat", "tau", "token_ids", -1, func(r *Receipt) { r.Sampling.Mirostat.Tau = 0.1 })
	tamper("mirostat", "version", "token_ids", -1, func(r *Receipt) { r.Sampling.Mirostat.Version = 0 })
	tamper("greedy with drafts", "banned sequence", "token_ids", -1, func(r *Receipt) { r.Sampling.BannedSequences = nil })
	tamper("greedy with drafts", "penalty", "token_ids", -1, func(r *Receipt) { r.Sampling.RepeatPenalty = 1 })
	tamper("match", "budget", "end_reason", -1, func(r *Receipt) { r.Max++ })
	tamper("match", "smaller budget", "token_ids", -1, func(r *Receipt) { r.Max-- })
	tamper("stop string", "other stop string", "end_reason", -1, func(r *Receipt) { r.Stop = []string{"never"} })
	tamper("stop string", "earlier stop string", "token_ids", -1, func(r *Receipt) { r.Stop = append(r.Stop, r.Text[:3]) })
	tamper("shown stop string", "not shown", "text", -1, func(r *Receipt) { r.Shown = 0 })
	tamper("end of text", "end tokens", "end_reason", -1, func(r *Receipt) { r.EOG = []int32{4095} })
	tamper("end of text", "more end tokens", "token_ids", -1, func(r *Receipt) { r.EOG = append(r.EOG, r.Tokens[1]) })
	tamper("context", "larger context", "end_reason", -1, func(r *Receipt) { r.Context++ })
	tamper("greedy", "model", "model_sha256", -1, func(r *Receipt) { r.Model.Model = "0" + r.Model.Model[1:] })
	tamper("greedy", "tokenizer", "tokenizer_sha256", -1,
		func(r *Receipt) { r.Model.Tokenizer = "0" + r.Model.Tokenizer[1:] })
	tamper("greedy", "weights", "weights", -1, func(r *Receipt) { r.Model.Weights = "q4_0" })
	tamper("greedy", "types", "weight_types", -1, func(r *Receipt) { r.Model.Types = "q4_0" })
	tamper("greedy", "factors", "rope_factors", -1, func(r *Receipt) { r.Model.Rope = "rope_factors_long.weight" })

	// One more token than the text has, and the model's own at that.
	r := read(t, index("end of text"))
	longer := New(session(t, m, 0), nil, Options{
		MaxTokens: len(r.Tokens) + 1, Tokenizer: m.Tokenizer(), EOG: func(int32) bool { return false }})
	s, _ := r.Sampling.sampling()
	ids, _ := collect(t, longer, r.Prompt, s)
	tamper("end of text", "a token more", "token_ids", -1, func(r *Receipt) { r.Tokens = ids })

	// Another storage of the cache, or weights converted, give other logits somewhere.
	// its text and this one's differ where two logits are close
	tamper("greedy with drafts", "cache", "token_ids", -1, func(r *Receipt) {
		x := New(session(t, m, 0), nil, Options{MaxTokens: r.Max})
		s, _ := r.Sampling.sampling()
		// q8_0 and f16 agree on this text: any token will do
		if ids, _ := collect(t, x, r.Prompt, s); slices.Equal(ids, r.Tokens) {
			r.Tokens[9]++
		}
		r.Model.KV = "f16"
	})
	converted := theDraft.open(t, "", "q4_0")
	if c, err := Confirm(t.Context(), converted, file, index("greedy")); !errors.Is(err, ErrNotConfirmed) {
		t.Errorf("converted weights: %v, %v", c, err)
	}
}

// TestLongReceiptTampering: each place and each other end of every receipt.
func TestLongReceiptTampering(t *testing.T) {
	testkit.Long(t)
	TestReceiptTampering(t)
}

// A model of which one byte differs is refused by its fingerprint, and by its tokens where the fingerprint is forged.
func TestReceiptOfATamperedModel(t *testing.T) {
	written := writeReceipts(t, theTarget, "")
	data, err := os.ReadFile("../testdata/go-target.q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(data), int64(len(data)), "tampered")
	if err != nil {
		t.Fatal(err)
	}
	norm, ok := f.Tensor("output_norm.weight")
	if !ok {
		t.Fatal("no output_norm.weight")
	}
	data[norm.Offset+4*100+3] ^= 0x80 // the sign of one weight
	file, err := engine.ReadFingerprint(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.New(t.Context(), openTarget(t, "", "").Runtime(), bytes.NewReader(data), int64(len(data)),
		engine.Options{Name: "tampered"})
	if err != nil {
		t.Fatal(err)
	}
	var d *Mismatch
	if _, err := Confirm(t.Context(), m, file, written[0]); !errors.As(err, &d) || d.Field != "model_sha256" {
		t.Errorf("another model: %v", err)
	}
	forged := *written[3]
	forged.Model.Model, forged.Model.Tokenizer = file.Model, file.Tokenizer
	if _, err := Confirm(t.Context(), m, file, &forged); !errors.As(err, &d) || d.Field != "token_ids" {
		t.Errorf("another model, hash forged: %v", err)
	}
}

// A token that is none is nobody's choice, also where nothing can be chosen; what follows it is not confirmed either.
func TestReceiptOfNoToken(t *testing.T) {
	m, r := openTarget(t, "", ""), read(t, writeReceipts(t, theTarget, "")[0])
	for id := range int32(m.Config().Vocab) {
		r.Sampling.Banned = append(r.Sampling.Banned, id)
	}
	r.Tokens, r.End = append([]int32{-1}, r.Tokens[:9]...), EndCancel
	r.Text = r.replay(m.Tokenizer()).text
	var d *Mismatch
	if c, err := Confirm(t.Context(), m, targetFile(t), r); !errors.As(err, &d) || d.Field != "token_ids" ||
		d.Position != len(r.Prompt) || d.ExpectedID != -1 {
		t.Errorf("%q, of which %d tokens are confirmed: %v", r.Text, c.Tokens, err)
	}
}

// Every field of engine.Sampling is part of a receipt, or refused by its name.
func TestReceiptHoldsEveryOption(t *testing.T) {
	s := everyPenalty()
	delete(s.LogitBias, 11) // -Inf becomes a ban
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		name, one := v.Type().Field(i).Name, engine.Sampling{}
		if v.Field(i).IsZero() {
			continue // TestReceiptRefusals has it
		}
		reflect.ValueOf(&one).Elem().Field(i).Set(v.Field(i))
		r, err := newReceiptSampling(one)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		data, _ := json.Marshal(r)
		var back ReceiptSampling
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		got, err := back.sampling()
		if err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", one) {
			t.Errorf("%s: %+v became %+v, %v", name, one, got, err)
		}
	}
}

// anything is a constraint.
type anything struct{ sampling.Constraint }

// foreignVerifier is one from outside.
type foreignVerifier struct{ Verifier }

func TestReceiptRefusals(t *testing.T) {
	m, file := openTarget(t, "", ""), targetFile(t)
	prompt := m.Tokenizer().Encode(receiptPrompt, bpe.EncodeOptions{AddSpecial: true})
	part, err := m.NewSession(engine.SessionOptions{Layers: 2})
	if err != nil {
		t.Fatal(err)
	}
	var refused *Receipt
	for want, x := range map[string]struct {
		target Sequence
		o      Options
	}{
		"rejection verification":   {session(t, m, 0), Options{Verifier: Rejection()}},
		"block verification":       {session(t, m, 0), Options{Verifier: Block()}},
		"foreignVerifier":          {session(t, m, 0), Options{Verifier: foreignVerifier{Match()}}},
		"2 of the model's 6":       {part, Options{}},
		"not the model's":          {session(t, m, 0), Options{Tokenizer: openTarget(t, "", "q4_0").Tokenizer()}},
		"whose model is not known": {newFake(t, 4096, 100, random(1)), Options{}},
	} {
		x.o.MaxTokens = 4
		d := New(x.target, nil, x.o)
		if r, err := d.Receipt(ReceiptOptions{Fingerprint: file}); r != nil || !errors.Is(err, ErrReceipt) ||
			!strings.Contains(err.Error(), "no text") {
			t.Errorf("before a text: %v, %v", r, err)
		}
		collect(t, d, prompt, engine.Sampling{Temperature: 0.5})
		if refused, err = d.Receipt(ReceiptOptions{Fingerprint: file}); refused != nil || !errors.Is(err, ErrReceipt) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, refused, err)
		}
	}

	if _, err := newReceiptSampling(engine.Sampling{Constraint: anything{}}); !errors.Is(err, ErrReceipt) ||
		!strings.Contains(err.Error(), "Sampling.Constraint ") {
		t.Errorf("a constraint: %v", err)
	}
	d := New(session(t, m, 0), nil, Options{MaxTokens: 4})
	collect(t, d, prompt, infill(engine.Sampling{}))
	if r, err := d.Receipt(ReceiptOptions{Fingerprint: file}); r != nil || !errors.Is(err, ErrReceipt) {
		t.Errorf("texts of tokens that are not the model's: %v, %v", r, err)
	}
	if _, err := newReceiptSampling(engine.Sampling{ConstraintFrom: 3}); err != nil {
		t.Errorf("the beginning of no constraint: %v", err)
	}

	good := writeReceipts(t, theTarget, "")[0]
	for name, change := range map[string]func(r *Receipt){
		"prompt":        func(r *Receipt) { r.Prompt[3] = -1 },
		"context":       func(r *Receipt) { r.Context = len(r.Prompt) + len(r.Tokens) - 2 },
		"too large":     func(r *Receipt) { r.Context = 1 << 30 },
		"budget":        func(r *Receipt) { r.Max = -1 },
		"stop":          func(r *Receipt) { r.Stop = []string{""} },
		"shown":         func(r *Receipt) { r.Shown = 1 },
		"cache":         func(r *Receipt) { r.Model.KV = "f8" },
		"temperature":   func(r *Receipt) { r.Sampling.Temperature = -1 },
		"banned":        func(r *Receipt) { r.Sampling.Banned = []int32{1 << 30} },
		"two biases":    func(r *Receipt) { r.Sampling.LogitBias = []TokenBias{{1, 1}, {1, 2}} },
		"schema":        func(r *Receipt) { r.Schema = 0 },
		"numeric rules": func(r *Receipt) { r.NumericRules++ },
	} {
		r := read(t, good)
		change(r)
		if _, err := Confirm(t.Context(), m, file, r); !errors.Is(err, ErrReceipt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Confirm(ctx, m, file, good); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Confirm(t.Context(), m, file, good, nil); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(),
		"adapters[0]") {
		t.Error("no adapter:", err)
	}
	if _, err := Confirm(t.Context(), nil, file, good); !errors.Is(err, ErrOptions) {
		t.Errorf("no model: %v", err)
	}
}

// What this program and another reader of JSON could take for different claims is no receipt, and neither is one of
// another version. Each forgery says something else than the receipt to one of the two.
func TestReceiptForgeriesAreRefused(t *testing.T) {
	data, err := json.Marshal(writeReceipts(t, theTarget, "")[0])
	if err != nil {
		t.Fatal(err)
	}
	good := string(data)
	if _, err := ReadReceipt(strings.NewReader(" " + good + "\n")); err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in %s", old, good)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":               {"", "unexpected end"},
		"no JSON":               {"x", "invalid character"},
		"cut":                   {good[:len(good)/2], "unexpected end"},
		"null":                  {"null", "null"},
		"two":                   {good + good, "after top-level value"},
		"trailing bytes":        {good + "\x00", "after top-level value"},
		"a byte order mark":     {"\ufeff" + good, "invalid character"},
		"schema":                {with(`"schema":1`, `"schema":2`), "schema 2"},
		"numeric rules":         {with(`"numeric_rules":2`, `"numeric_rules":7`), "numeric rules"},
		"no prompt":             {`{"schema":1,"numeric_rules":2,"n_context":5}`, "no prompt"},
		"an unknown name":       {with(`"schema"`, `"more":1,"schema"`), `unknown name "more"`},
		"an unknown inner name": {with(`"top_k"`, `"top_n":1,"top_k"`), `sampling: unknown name "top_n"`},
		"a name in capitals":    {with(`"text"`, `"Text"`), `unknown name "Text"`},
		"capitals beside it":    {with(`"text"`, `"TEXT":"forged","text"`), `unknown name "TEXT"`},
		"capitals inside":       {with(`"seed"`, `"SEED":"7","seed"`), `sampling: unknown name "SEED"`},
		"a letter that folds":   {with(`"sampling"`, `"ſampling":{},"sampling"`), `unknown name "ſampling"`},
		"a name twice":          {with(`"text"`, `"text":"forged","text"`), `"text" stands twice`},
		"tokens twice":          {with(`"token_ids"`, `"token_ids":[1],"token_ids"`), `"token_ids" stands twice`},
		"a name twice, escaped": {with(`"text"`, `"t\u0065xt":"forged","text"`), `"text" stands twice`},
		"an inner name twice":   {with(`"seed"`, `"seed":"7","seed"`), `sampling: "seed" stands twice`},
		"a model twice": {with(`"model_sha256"`, `"model_sha256":"x","model_sha256"`),
			`model: "model_sha256" stands twice`},
		"a name twice in a list": {with(`"logit_bias":[`, `"logit_bias":[{"token_id":1,"token_id":2,"bias":1}`),
			`"token_id" stands twice`},
		"text not UTF-8":        {with(`"text":"`, "\"text\":\"\xff"), "not UTF-8"},
		"half a surrogate pair": {with(`"text":"`, `"text":"\ud800`), "text: half of a surrogate pair"},
		"a null number":         {with(`"top_k":`, `"top_k":null,"ignored":`), "top_k: null"},
		"a null text":           {with(`"text":"`, `"text":null,"ignored":"`), "text: null"},
		"a fraction of a token": {with(`"prompt_token_ids":[`, `"prompt_token_ids":[1.5,`), "1.5"},
		"a token beyond int32":  {with(`"prompt_token_ids":[`, `"prompt_token_ids":[4294967297,`), "4294967297"},
	} {
		_, err := ReadReceipt(strings.NewReader(c.text))
		if !errors.Is(err, ErrReceipt) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	long := io.MultiReader(strings.NewReader(good), io.LimitReader(blanks{}, ReceiptLimit))
	if _, err := ReadReceipt(long); !errors.Is(err, ErrReceipt) ||
		!strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("too long: %v", err)
	}
}

// blanks is white space without end.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// FuzzReadReceipt: what is taken for a receipt says the same after it is written and read again, and its names are the
// writer's.
func FuzzReadReceipt(f *testing.F) {
	for _, name := range []string{"greedy", "match"} {
		data, err := os.ReadFile("testdata/receipt-" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema":1,"numeric_rules":2,"n_context":9,"prompt_token_ids":[1],"TEXT":"x","text":"y"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadReceipt(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrReceipt) {
				t.Fatal(err)
			}
			return
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadReceipt(bytes.NewReader(text))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%s: %v", text, err)
		}
		var named map[string]json.RawMessage
		if err := json.Unmarshal(data, &named); err != nil {
			t.Fatal(err)
		}
		for name := range named {
			if !bytes.Contains(text, []byte(`"`+name+`":`)) && name != "encoder_token_ids" {
				t.Fatalf("the name %q", name)
			}
		}
	})
}

// A text that was cut short has a receipt too: what was written is the model's.
func TestReceiptOfACutText(t *testing.T) {
	m, file := openTarget(t, "", ""), targetFile(t)
	d := New(session(t, m, 0), nil, Options{MaxTokens: 50, Tokenizer: m.Tokenizer()})
	n := 0
	for range d.Generate(t.Context(), m.Tokenizer().Encode(receiptPrompt, bpe.EncodeOptions{AddSpecial: true}),
		engine.Sampling{Temperature: 1, Seed: 2}) {
		if n++; n == 12 {
			break
		}
	}
	r, err := d.Receipt(ReceiptOptions{Fingerprint: file})
	if err != nil || r.End != EndCancel || len(r.Tokens) != 12 {
		t.Fatalf("%+v, %v", r, err)
	}
	if c, err := Confirm(t.Context(), m, file, read(t, r)); err != nil || c.Tokens != 12 {
		t.Errorf("%+v, %v", c, err)
	}
}
