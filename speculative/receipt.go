package speculative

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/strictjson"
)

// ReceiptSchema is the version of the JSON form of a [Receipt].
const ReceiptSchema = 1

var (
	// ErrReceipt is returned for a receipt that is damaged, of another version, or of a kind of text that cannot be
	// confirmed.
	ErrReceipt = errors.New("receipt")
	// ErrNotConfirmed is returned where a receipt's text is not what the model writes. The error is a [*Mismatch].
	ErrNotConfirmed = errors.New("not confirmed")
)

// Receipt is everything that determines a text, and the text: model, prompt, sampling parameters, bounds, tokens.
// Because a model's logits are the same on every machine (package engine) and noise is a function of seed, position
// and token, [Confirm] can check it anywhere, in one pass over the text. It holds for plain decoding and for verifiers
// that keep its text ([Greedy], [Match], [Stairs]).
//
// A receipt is a claim, not a signature: one that was changed is confirmed exactly if what it says now is true.
type Receipt struct {
	Schema       int          `json:"schema"`        // ReceiptSchema
	NumericRules int          `json:"numeric_rules"` // engine.NumericRules
	Model        ReceiptModel `json:"model"`

	Context  int             `json:"n_context"`  // most tokens of the sequence
	Max      int             `json:"max_tokens"` // most tokens of the text; 0: no bound
	Stop     []string        `json:"stop"`
	Shown    int             `json:"n_shown_stops,omitempty"` // so many of Stop, from the first, are part of the text
	EOG      []int32         `json:"end_token_ids"`           // tokens that end the text
	Sampling ReceiptSampling `json:"sampling"`

	Input  []int32 `json:"encoder_token_ids,omitempty"` // of an encoder-decoder model's encoder
	Prompt []int32 `json:"prompt_token_ids"`
	Tokens []int32 `json:"token_ids"`
	Text   string  `json:"text"` // of the tokens; "" without a tokenizer
	End    End     `json:"end_reason"`
}

// ReceiptModel says which model wrote a text, and the options that change its logits.
type ReceiptModel struct {
	Name      string `json:"name"`             // of the file, for people: not checked
	Model     string `json:"model_sha256"`     // engine.Fingerprint.Model
	Tokenizer string `json:"tokenizer_sha256"` // engine.Fingerprint.Tokenizer
	Weights   string `json:"weights"`          // engine.Options.Weights: "" as in the file
	Types     string `json:"weight_types"`     // that resulted
	KV        string `json:"kv_type"`          // engine.SessionOptions.KV
	Rope      string `json:"rope_factors"`     // the tensor of frequency factors in use

	Adapters []ReceiptAdapter `json:"adapters,omitempty"` // in the order of the set
}

// ReceiptAdapter is an adapter (LoRA) of the target's sequence.
type ReceiptAdapter struct {
	Adapter string  `json:"adapter_sha256"` // engine.Adapter.Fingerprint
	Scale   float32 `json:"scale"`
}

// ReceiptSampling is [engine.Sampling] in a form that JSON can hold. A bias of -Inf is a banned token.
type ReceiptSampling struct {
	Temperature      float32     `json:"temperature"`
	TopK             int         `json:"top_k"`
	TopP             float32     `json:"top_p"`
	MinP             float32     `json:"min_p"`
	RepeatPenalty    float32     `json:"repeat_penalty"`
	FrequencyPenalty float32     `json:"frequency_penalty"`
	PresencePenalty  float32     `json:"presence_penalty"`
	PenaltyLastN     int         `json:"penalty_last_n"`
	LogitBias        []TokenBias `json:"logit_bias"`
	Banned           []int32     `json:"banned_token_ids"`
	BannedSequences  [][]int32   `json:"banned_sequences"`
	Unpenalized      []int32     `json:"unpenalized_token_ids,omitempty"`

	Dynatemp  sampling.Dynatemp `json:"dynatemp,omitzero"`
	TypicalP  float32           `json:"typical_p,omitempty"`
	TopNSigma float32           `json:"top_n_sigma,omitempty"`
	XTC       sampling.XTC      `json:"xtc,omitzero"`
	Infill    []int32           `json:"infill_end_token_ids,omitempty"` // the texts of tokens are the model's
	Mirostat  sampling.Mirostat `json:"mirostat,omitzero"`
	DRY       sampling.DRY      `json:"dry,omitzero"`
	Order     []sampling.Step   `json:"samplers,omitzero"` // left out: the usual order
	MinTokens int               `json:"min_tokens,omitempty"`
	Ends      []int32           `json:"end_token_ids,omitempty"`

	Seed uint64 `json:"seed,string"` // a string: not every reader of JSON keeps 64 bits
}

// MaxTemperature is that of the sampling: at 0 neither noise nor seed decided anything.
func (r *ReceiptSampling) MaxTemperature() float32 {
	s := engine.Sampling{Temperature: r.Temperature, Dynatemp: r.Dynatemp}
	return s.MaxTemperature()
}

// TokenBias is what is added to a token's logit.
type TokenBias struct {
	ID   int32   `json:"token_id"`
	Bias float32 `json:"bias"`
}

// newReceiptSampling refuses what a receipt does not hold, by name.
func newReceiptSampling(s engine.Sampling) (ReceiptSampling, error) {
	if s.Constraint == nil {
		s.ConstraintFrom = 0 // is the prompt's length, which a receipt has
	}
	r := ReceiptSampling{
		Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP,
		RepeatPenalty: s.RepeatPenalty, FrequencyPenalty: s.FrequencyPenalty, PresencePenalty: s.PresencePenalty,
		PenaltyLastN: s.PenaltyLastN,
		Dynatemp:     s.Dynatemp, TypicalP: s.TypicalP, TopNSigma: s.TopNSigma, XTC: s.XTC, Mirostat: s.Mirostat, DRY: s.DRY,
		Order: slices.Clone(s.Order), MinTokens: s.MinTokens, Ends: slices.Clone(s.Ends), Infill: slices.Clone(s.Infill.Ends),
		Unpenalized: slices.Clone(s.Unpenalized),
		LogitBias:   []TokenBias{}, Banned: append([]int32{}, s.Banned...), BannedSequences: [][]int32{}, Seed: s.Seed,
	}
	for _, id := range slices.Sorted(maps.Keys(s.LogitBias)) {
		if x := s.LogitBias[id]; math.IsInf(float64(x), -1) {
			r.Banned = append(r.Banned, id)
		} else {
			r.LogitBias = append(r.LogitBias, TokenBias{id, x})
		}
	}
	for _, seq := range s.BannedSequences {
		r.BannedSequences = append(r.BannedSequences, slices.Clone(seq))
	}
	// What Sampling has and r does not have would silently be left out of the claim.
	v, held := reflect.ValueOf(s), reflect.TypeOf(r)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if _, ok := held.FieldByName(name); !ok && !v.Field(i).IsZero() {
			return r, fmt.Errorf("%w: Sampling.%s is not part of receipts", ErrReceipt, name)
		}
	}
	return r, nil
}

// sampling is the Sampling that r describes.
func (r *ReceiptSampling) sampling() (engine.Sampling, error) {
	s := engine.Sampling{
		Temperature: r.Temperature, TopK: r.TopK, TopP: r.TopP, MinP: r.MinP,
		RepeatPenalty: r.RepeatPenalty, FrequencyPenalty: r.FrequencyPenalty, PresencePenalty: r.PresencePenalty,
		PenaltyLastN: r.PenaltyLastN,
		Dynatemp:     r.Dynatemp, TypicalP: r.TypicalP, TopNSigma: r.TopNSigma, XTC: r.XTC, Mirostat: r.Mirostat, DRY: r.DRY,
		Order: r.Order, MinTokens: r.MinTokens, Ends: r.Ends, Infill: sampling.Infill{Ends: r.Infill},
		Unpenalized: r.Unpenalized,
		Banned:      r.Banned, BannedSequences: r.BannedSequences, Seed: r.Seed,
	}
	if len(r.LogitBias) > 0 {
		s.LogitBias = make(map[int32]float32, len(r.LogitBias))
	}
	for _, b := range r.LogitBias {
		if _, twice := s.LogitBias[b.ID]; twice {
			return s, fmt.Errorf("%w: two biases of token %d", ErrReceipt, b.ID)
		}
		s.LogitBias[b.ID] = b.Bias
	}
	return s, nil
}

// ReceiptOptions are what [Decoder.Receipt] is told.
type ReceiptOptions struct {
	Fingerprint engine.Fingerprint // of the target's file
	KV          string             // the target's engine.SessionOptions.KV
}

// Receipt returns the receipt of the text that Generate wrote last, also of one that was cut short. It refuses, by an
// error that wraps [ErrReceipt] and names the reason: texts of [Rejection] and [Block] and of verifiers from outside,
// whose tokens depend on the drafts; sampling options that receipts do not hold; a target whose model is not known or
// not computed to its last layer, or that may change its logits ([Altered]).
func (d *Decoder) Receipt(o ReceiptOptions) (*Receipt, error) {
	if d.stats.End == "" {
		return nil, fmt.Errorf("%w: no text was written", ErrReceipt)
	}
	if err := confirmable(d.verifier); err != nil {
		return nil, err
	}
	if a, ok := d.target.Sequence.(Altered); ok {
		return nil, fmt.Errorf("%w: a target that may change its model's logits: %s", ErrReceipt, a.Altered())
	}
	known, ok := d.target.Sequence.(Modeled)
	if !ok {
		return nil, fmt.Errorf("%w: a target whose model is not known", ErrReceipt)
	}
	m := known.Model()
	if part, ok := d.target.Sequence.(interface{ Layers() int }); ok && part.Layers() != m.Config().Layers {
		return nil, fmt.Errorf("%w: a target of %d of the model's %d layers", ErrReceipt, part.Layers(), m.Config().Layers)
	}
	adapted, ok := d.target.Sequence.(interface{ Adapters() engine.AdapterSet })
	if !ok {
		return nil, fmt.Errorf("%w: a target whose adapters are not known", ErrReceipt)
	}
	if d.stats.Prompt == 0 || len(d.sequence) < d.stats.Prompt {
		return nil, fmt.Errorf("%w: no text was written", ErrReceipt)
	}
	var input []int32
	if e := d.target.encoderOf(); e != nil {
		input = slices.Clone(e.Input())
	}
	s, err := newReceiptSampling(d.sampling)
	if err != nil {
		return nil, err
	}
	r := &Receipt{
		Schema: ReceiptSchema, NumericRules: engine.NumericRules,
		Model: ReceiptModel{
			Name: m.Config().Name, Model: o.Fingerprint.Model, Tokenizer: o.Fingerprint.Tokenizer,
			Weights: m.Weights(), Types: m.WeightTypes(), KV: o.KV, Rope: m.Config().RopeFactors,
			Adapters: receiptAdapters(adapted.Adapters()),
		},
		Context: d.target.Context(), Max: max(0, d.o.MaxTokens), Stop: append([]string{}, d.o.Stop...), EOG: []int32{},
		Shown:    d.o.ShownStop,
		Sampling: s,
		Input:    input, Prompt: slices.Clone(d.sequence[:d.stats.Prompt]),
		Tokens: append([]int32{}, d.sequence[d.stats.Prompt:]...), End: d.stats.End,
	}
	if r.Model.KV == "" {
		r.Model.KV = engine.DefaultKV
	}
	if d.o.EOG != nil {
		for id := range int32(d.target.Vocab()) {
			if d.o.EOG(id) {
				r.EOG = append(r.EOG, id)
			}
		}
	}
	tok := m.Tokenizer()
	if d.o.Tokenizer != nil && d.o.Tokenizer != tok {
		return nil, fmt.Errorf("%w: a tokenizer that is not the model's", ErrReceipt)
	}
	if slices.Contains(s.Order, sampling.StepInfill) && d.sampling.Infill.Pieces != sampling.Pieces(tok) {
		return nil, fmt.Errorf("%w: the step infill with texts of tokens that are not the model's", ErrReceipt)
	}
	r.Text = r.replay(tok).text
	return r, nil
}

// receiptAdapters is a set as receipts have it.
func receiptAdapters(set engine.AdapterSet) (list []ReceiptAdapter) {
	for i := range set.Len() {
		a := set.At(i)
		list = append(list, ReceiptAdapter{a.Adapter.Fingerprint(), a.Scale})
	}
	return list
}

// set finds a receipt's adapters among those that are there, all of which it must have.
func (r *ReceiptModel) set(there []*engine.Adapter) (engine.AdapterSet, error) {
	differs := func(written, expected string) (engine.AdapterSet, error) {
		return engine.AdapterSet{}, &Mismatch{Field: "adapters", Position: -1, Written: written, Expected: expected}
	}
	var list []engine.ScaledAdapter
	for _, x := range r.Adapters {
		i := slices.IndexFunc(there, func(a *engine.Adapter) bool { return a.Fingerprint() == x.Adapter })
		if i < 0 {
			return differs(fmt.Sprintf("%q", x.Adapter), "that of an adapter that is given")
		}
		if x.Scale == 0 {
			return engine.AdapterSet{}, fmt.Errorf("%w: an adapter with a scale of 0", ErrReceipt)
		}
		list = append(list, engine.ScaledAdapter{Adapter: there[i], Scale: x.Scale})
	}
	for _, a := range there {
		if !slices.ContainsFunc(r.Adapters, func(x ReceiptAdapter) bool { return x.Adapter == a.Fingerprint() }) {
			return differs("no such adapter", fmt.Sprintf("%q (%s)", a.Fingerprint(), a.Info().File))
		}
	}
	set, err := engine.NewAdapterSet(list...)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return set, err
}

// confirmable refuses verifiers whose text is not plain decoding's.
func confirmable(v Verifier) error {
	switch v.(type) {
	case *match, *stairs:
		return nil
	case *rejection:
		return fmt.Errorf("%w: rejection verification: its tokens depend on the drafts", ErrReceipt)
	case *block:
		return fmt.Errorf("%w: block verification: its tokens depend on the drafts", ErrReceipt)
	}
	return fmt.Errorf("%w: a text of verifier %T: whether its tokens depend on the drafts is not known", ErrReceipt, v)
}

// ReceiptLimit is the most bytes of a receipt's JSON: one of millions of tokens.
const ReceiptLimit = 64 << 20

// ReadReceipt reads a receipt's JSON, all of from. It refuses, by an error that wraps [ErrReceipt], other versions,
// more than [ReceiptLimit] bytes, and whatever another reader could read in another way: names in another case, twice
// in an object or unknown, null for what is never null, text that is not UTF-8, anything behind the object.
func ReadReceipt(from io.Reader) (*Receipt, error) {
	r := new(Receipt)
	if err := strictjson.Decode(from, ReceiptLimit, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return r, r.check()
}

// check refuses what no decoder writes.
func (r *Receipt) check() error {
	switch {
	case r.Schema != ReceiptSchema:
		return fmt.Errorf("%w: schema %d, known is %d", ErrReceipt, r.Schema, ReceiptSchema)
	case r.NumericRules != engine.NumericRules:
		return fmt.Errorf("%w: version %d of the numeric rules, this program has %d", ErrReceipt, r.NumericRules,
			engine.NumericRules)
	case len(r.Prompt) == 0:
		return fmt.Errorf("%w: no prompt", ErrReceipt)
	case r.Context < 1 || len(r.Prompt) > r.Context || len(r.Tokens) > r.Context-len(r.Prompt)+1:
		return fmt.Errorf("%w: %d tokens of prompt and %d of text, in a context of %d", ErrReceipt, len(r.Prompt),
			len(r.Tokens), r.Context)
	case r.Max < 0:
		return fmt.Errorf("%w: max_tokens %d", ErrReceipt, r.Max)
	case slices.Contains(r.Stop, ""):
		return fmt.Errorf("%w: empty stop string", ErrReceipt)
	case r.Shown < 0 || r.Shown > len(r.Stop):
		return fmt.Errorf("%w: %d shown stop strings of %d", ErrReceipt, r.Shown, len(r.Stop))
	}
	return nil
}

// Mismatch is the first difference between a receipt and what the model writes. It wraps [ErrNotConfirmed].
type Mismatch struct {
	Field    string // of the receipt's JSON: "model_sha256", "token_ids", "end_reason", …
	Position int    // in the sequence, of a token: the prompt's first one has position 0; -1 for other fields
	Written  string // what the receipt says
	Expected string // what it should have been; for a token its text, quoted

	WrittenID, ExpectedID int32 // of tokens; ExpectedID -1: no token can be chosen
}

func (e *Mismatch) Error() string {
	if e.Position >= 0 {
		return fmt.Sprintf("%v: %s, position %d: token %d %s, should be %d %s", ErrNotConfirmed, e.Field, e.Position,
			e.WrittenID, e.Written, e.ExpectedID, e.Expected)
	}
	return fmt.Sprintf("%v: %s: the receipt says %s, should be %s", ErrNotConfirmed, e.Field, e.Written, e.Expected)
}

func (e *Mismatch) Unwrap() error { return ErrNotConfirmed }
