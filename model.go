package spec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/speculative/lookup"
	"github.com/specgo/spec/tensor"
)

// Options configure a [Model]. The zero value is a good choice.
type Options struct {
	Name string // of the model, in messages; "": the file's, without its folder

	Load Load // how the files are loaded, for Open
	// Hub, a *hub.Client of package hub, finds models of the Hugging Face Hub, which Open is given as
	// hf://OWNER/NAME[:QUANTIZATION]. It downloads only where its field Download says so. nil: such names are refused.
	Hub Hub

	// Context is the most tokens of a sequence, prompt and answer; 0 or more than the model's: the model's. A prompt that
	// fills it is refused.
	Context    int
	KV         string // storage of keys and values, as engine.SessionOptions has it
	StateBytes int64  // of copies of recurrent layers' states of a sequence, as engine.SessionOptions has it

	// Parallel is how many sequences there may be at once; further ones wait. 0 is any number. Their passes are shared,
	// and what prompts have in common is computed once. 1 is one sequence, which is kept from one request to the next;
	// requests take turns. One that is made in the loops over the events of so many others waits until its context ends.
	Parallel int
	Memory   Memory
	Stored   *Stored // where computed prompts are kept beyond the Model; nil: nowhere. Not with Parallel 1
	NoCache  bool    // compute the whole sequence anew for every token: the same text, slowly. With Parallel 1

	Template string           // the chat template; "": that of the model's file
	Clock    func() time.Time // what templates read the date from; nil: time.Now
	Stops    []string         // texts that end an answer under Template, which are no tokens
	// ToolFallback offers tools in plain JSON under a template that does not, or whose syntax of calls is unknown.
	ToolFallback bool

	Speculation speculative.Choice // where a request does not say otherwise
	// DraftVocab are the tokens of the target's vocabulary that draft models of the same vocabulary, draft heads and the
	// drafter "self" compute logits of, as speculative.DraftVocab lists them: a draft then multiplies with their rows of
	// the output matrix alone, and proposes none of the others. nil: all. The text is the same. Draft heads that know some
	// tokens alone keep their own list.
	DraftVocab []int32
	// DraftText is how many tokens of a text itself drafts may have beside DraftVocab, as engine.DraftFormOptions has it.
	// 0: speculative.DraftText, negative: none.
	DraftText int

	// Experience is what was learned of passes and acceptance, for all requests; nil: the model's own.
	Experience *speculative.Experience

	// Texts are indexes of other texts, of the target's vocabulary, which drafts look up in. They are the caller's to
	// close, when the model is closed.
	Texts []*lookup.Index
	// Own is how many bytes of what the model wrote itself drafts look up in: of the answers of requests with the same
	// Salt, each Salt by itself, the oldest dropped first. 0: none is kept.
	Own int64

	Limits Limits

	// Around, if set, is given the sequence of the target in the hands of each answer, and returns the one that is used:
	// it may watch passes and change their logits. Of the abilities that it hides (see [speculative.Shared]) the
	// sequence's own are used, unless it has all of them itself. Texts of a sequence that hides some have no receipt, for
	// they need not be the model's.
	Around func(Sequence) Sequence
}

// Memory bounds what sequences take, in bytes. A field that is 0 has its default.
type Memory struct {
	// KV and DraftKV bound keys, values and recurrent states of all sequences of the target and of the draft. A sequence
	// that finds no room is computed again later, with the same text. 0 is no bound.
	KV, DraftKV int64
	// Cache bounds sequences that are kept after their requests, of the target with its draft, for prompts that begin
	// alike: what is worth least goes first. 0 is DefaultCacheBytes, negative none.
	Cache int64
	// Kept bounds what is kept together with what other models keep; nil: Cache does by itself.
	Kept *Kept
	// DraftForm is the most bytes that the target's draft form may take, the model in fewer bits with which the drafter
	// "self" drafts. It is made when a text first drafts with it; where it would take more that drafter is refused. 0 is
	// no bound if Options.Speculation chooses that drafter, else nothing: a request cannot ask for the memory.
	DraftForm int64
	// Text is the most bytes of the activations of a text that goes through an embedding model or a reranker whole, beyond
	// those of other passes; a longer text is refused. 0 is no bound.
	Text int64
	// Rows is the most rows of logits that a pass has of a sequence of the target, as speculative.Options has it. It is a
	// bound beside those that requests ask for, such as Request.Speculation.Max: it cuts drafts and refuses no request,
	// for drafts are proposals. 0 is no bound.
	Rows int
	// PromptDelay is how many passes longer than usual a pass may take for parts of long prompts while others generate;
	// 0 is 2.
	PromptDelay float64
}

// Kept bounds what several models keep of finished sequences together. What is worth least of all of it goes first:
// worth is the work of the tokens that would have to be computed again, for each byte, and age. A Model belongs to it
// from New to Close.
type Kept = shared.Kept

// NewKept is a bound of so many bytes for [Memory].Kept.
func NewKept(bytes int64) *Kept { return shared.NewKept(bytes) }

// DefaultCacheBytes is what the zero value of [Memory].Cache stands for.
const DefaultCacheBytes = 1 << 30

// Limits bound what a request may cost beside its tokens. A field that is zero has its default.
type Limits struct {
	Grammar  grammar.Limits // of grammars and schemas, and of texts under them
	Template chat.Limits    // of one rendering of a conversation
	// Input is the most tokens of a prompt of an encoder-decoder model, which the context does not bound; 0, and more
	// than that, is engine.MaxInput.
	Input int
}

// Sequence is a sequence of the target's tokens in the hands of one answer.
type Sequence interface {
	speculative.Segmented
	Tokens() []int32
	Model() *engine.Model
}

// Parts are what a [Model] is made of: models that the caller has loaded.
type Parts struct {
	Target *engine.Model
	Draft  *engine.Model // a draft model, or a draft head for Target; nil: none
	// Drafts are more of them: what they propose is verified together with Draft's, as a tree. Options.Parallel is 1.
	Drafts []*engine.Model
	// Adapters are for Target, each with its scale where a request does not say otherwise. At most engine.MaxAdapters
	// have another scale than 0 at once.
	Adapters []engine.ScaledAdapter

	Tokenizer *bpe.Tokenizer // nil: the target's
	Close     func()         // called by Model.Close; nil: nothing to do
}

// Model is a model with its draft, its tokenizer and its chat template, ready to write texts. It is safe for
// concurrent use.
type Model struct {
	name    string
	parts   Parts
	tok     *bpe.Tokenizer
	context int
	most    mostTokens
	ends    []int32 // tokens that end a text

	template    *chat.Template // nil: none
	templateErr error          // why not
	stops       []string

	toolFallback bool // of the template

	target  sequences
	drafts  []*draft
	alone   *alone // where texts take turns; nil: they do not
	form    draftForm
	session engine.SessionOptions
	around  func(Sequence) Sequence

	adapters adapters

	choice     speculative.Choice
	experience *speculative.Experience
	vocabulary *grammar.Vocabulary
	breakers   func() [][]int32 // tokens of DefaultBreakers
	panicked   atomic.Pointer[func(any, []byte)]

	texts []*lookup.Index
	own   *lookup.Recent // nil: it is not kept
}

// mostTokens are bounds of texts, and of parts of them, that the context does not bound, or not alone.
type mostTokens struct {
	input int // of an encoder's
	whole int // of one that goes through the layers whole
	rows  int // Memory.Rows
}

// draft is a model that drafts.
type draft struct {
	model   *engine.Model
	form    *engine.DraftForm // with the draft vocabulary; nil: all tokens
	foreign error             // why its vocabulary is another one; nil if it is the same
	own     sequences         // nil: those of the model look at the target's
}

// alone is what is kept from one text to the next where texts take turns. It belongs to whoever has the target.
type alone struct {
	each    []speculative.Choice // that the drafter was made for
	salt    string               // likewise
	set     engine.AdapterSet    // of the target, likewise
	target  Sequence             // likewise: it is another one after texts with other adapters
	drafter speculative.Drafter
	lent    map[*draft]*engine.Session // of draft heads that look at the target's cache
}

// ErrOptions is wrapped by errors about [Options] and [Parts].
var ErrOptions = errors.New("spec: options")

// checkBounds refuses negative bounds.
func (o *Options) checkBounds() error {
	for _, b := range []struct {
		name string
		n    int64
	}{
		{"Own", o.Own}, {"Memory.KV", o.Memory.KV}, {"Memory.DraftKV", o.Memory.DraftKV}, {"Memory.Text", o.Memory.Text},
		{"Memory.Rows", int64(o.Memory.Rows)}, {"Context", int64(o.Context)}, {"Parallel", int64(o.Parallel)},
		{"StateBytes", o.StateBytes}, {"Limits.Input", int64(o.Limits.Input)},
	} {
		if b.n < 0 {
			return fmt.Errorf("%w: %s: a negative bound", ErrOptions, b.name)
		}
	}
	if d := o.Memory.PromptDelay; !(d >= 0) {
		return fmt.Errorf("%w: Memory.PromptDelay: %v passes", ErrOptions, d)
	}
	return nil
}

// New makes a model of loaded parts.
func New(p Parts, o Options) (*Model, error) {
	if p.Target == nil {
		return nil, fmt.Errorf("%w: no target", ErrOptions)
	}
	if err := o.checkBounds(); err != nil {
		return nil, err
	}
	if slices.Contains(o.Stops, "") {
		return nil, fmt.Errorf("%w: an empty text in Stops", ErrOptions)
	}
	if _, err := tensor.ParseKVType(o.KV); err != nil {
		return nil, fmt.Errorf("%w: KV: %w", ErrOptions, err)
	}
	if err := o.Speculation.Check(0); err != nil { // requests have their own temperatures
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	m := &Model{
		name: cmp.Or(o.Name, filepath.Base(p.Target.Name())), parts: p, tok: cmp.Or(p.Tokenizer, p.Target.Tokenizer()),
		context: p.Target.Config().Context, stops: o.Stops, toolFallback: o.ToolFallback, around: o.Around,
		choice: o.Speculation, experience: cmp.Or(o.Experience, &speculative.Experience{}),
	}
	if m.tok == nil {
		return nil, fmt.Errorf("%s: no tokenizer in the file, so no text can be generated", m.name)
	}
	for i, x := range o.Texts {
		if x == nil {
			return nil, fmt.Errorf("%w: Texts[%d] is nil", ErrOptions, i)
		}
		if err := x.Fits(lookup.Vocabulary(m.tok)); err != nil {
			return nil, err
		}
	}
	if m.texts = o.Texts; o.Own > 0 {
		m.own = lookup.NewRecent(o.Own)
	}
	if o.Context > 0 {
		m.context = min(m.context, o.Context)
	}
	m.most.whole, m.most.rows = m.context, o.Memory.Rows
	if d := p.Target.Describe(); o.Memory.Text > 0 {
		m.most.whole = sort.Search(m.context, func(n int) bool { return d.TextBytes(n+1) > o.Memory.Text })
	}
	if m.most.input = engine.MaxInput; o.Limits.Input > 0 {
		m.most.input = min(m.most.input, o.Limits.Input)
	}
	for id := range int32(m.tok.Size()) {
		if m.tok.IsEOG(id) {
			m.ends = append(m.ends, id)
		}
	}
	if err := m.form.of(p.Target, o); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	m.adapters.list = slices.Clone(p.Adapters)
	if _, err := m.adapterSet(nil); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	} else if len(p.Adapters) > 0 && p.Adapters[0].Adapter.Model() != p.Target { // which all are of one
		return nil, fmt.Errorf("%w: adapters of another model than the target", ErrOptions)
	}
	m.breakers = sync.OnceValue(func() [][]int32 { return Breakers(m.tok, DefaultBreakers()) })
	m.vocabulary = grammar.NewVocabulary(m.tok, grammar.VocabularyOptions{
		Limits: o.Limits.Grammar, Encode: func(text string) []int32 {
			return m.tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true})
		},
	})
	if err := m.setSequences(o); err != nil {
		m.closeSequences()
		return nil, err
	}
	m.setTemplate(o)
	return m, nil
}

// setSequences makes what the target's and the draft's sequences come from.
func (m *Model) setSequences(o Options) error {
	p := m.parts
	m.session = engine.SessionOptions{Context: m.context, KV: o.KV, StateBytes: o.StateBytes}
	if o.NoCache && o.Parallel != 1 {
		return fmt.Errorf("%w: NoCache is for one sequence at a time: Options.Parallel is 1", ErrOptions)
	}
	if slices.Contains(p.Drafts, nil) {
		return fmt.Errorf("%w: a model of Drafts is nil", ErrOptions)
	}
	if len(p.Drafts) > 0 && (p.Draft == nil || o.Parallel != 1) {
		return fmt.Errorf("%w: several draft models are for one sequence at a time: Options.Parallel is 1", ErrOptions)
	}
	if m.session.NoCache = o.NoCache; o.Parallel == 1 {
		m.alone = &alone{lent: map[*draft]*engine.Session{}}
	}
	own := p.Draft // with keys and values of its own
	if own != nil && sharesCache(own) {
		own = nil
	}
	if err := m.checkStored(o); err != nil {
		return err
	}
	cache, draftCache := cacheShares(cmp.Or(o.Memory.Cache, DefaultCacheBytes), p.Target, own, o.KV)
	make := func(model *engine.Model, most int, how engine.SessionOptions, bytes int64, cache cacheShare) sequences {
		if m.alone != nil {
			return newSingle(model, how)
		}
		return &scheduled{shared.New(model, shared.Options{Sessions: most,
			KVBytes: bytes, CacheBytes: cache.bytes, Kept: o.Memory.Kept, Work: cache.work, Delay: o.Memory.PromptDelay,
			Panicked: m.tellPanic, Stored: o.stored(model),
		}), how}
	}
	m.target = make(p.Target, o.Parallel, m.session, o.Memory.KV, cache)
	if p.Draft == nil {
		return nil
	}
	for _, model := range append([]*engine.Model{p.Draft}, p.Drafts...) {
		d, err := m.newDraft(model)
		if err != nil {
			return err
		}
		how := m.session
		how.Context = min(m.context, model.Config().Context)
		if d.foreign != nil {
			how.Context = model.Config().Context // its tokens are others
		}
		how.Form = d.form
		if !sharesCache(model) { // sequences of the others are made for the target's
			d.own = make(model, 0, how, o.Memory.DraftKV, draftCache)
		}
		m.drafts = append(m.drafts, d)
	}
	return nil
}

// sharesCache reports whether a draft model is a head that looks at its target's cache.
func sharesCache(m *engine.Model) bool { return m.Head() != nil && m.Head().SharesCache }

// newDraft refuses a model that cannot draft for the target.
func (m *Model) newDraft(model *engine.Model) (*draft, error) {
	tok := model.Tokenizer()
	if tok == nil {
		return nil, fmt.Errorf("%s: no tokenizer in the draft model's file, so nothing shows what its tokens mean",
			model.Name())
	}
	d := &draft{model: model, foreign: m.tok.Compatible(tok)}
	switch {
	case d.foreign != nil && model.Head() != nil:
		return nil, fmt.Errorf("%s: the draft head is for another model: %w", model.Name(), d.foreign)
	case model.Head() != nil && m.session.NoCache:
		return nil, fmt.Errorf("%w: %s: a draft head, which needs its cache: not with NoCache", ErrOptions, model.Name())
	case d.foreign == nil:
		var err error
		if d.form, err = model.NewDraftVocab(context.Background(), m.form.tokens, m.form.text); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// ErrNoTemplate is wrapped by errors about a model without a chat template.
var ErrNoTemplate = errors.New("no chat template")

// setTemplate parses the chat template. Without one, texts can be continued and conversations cannot.
func (m *Model) setTemplate(o Options) {
	source := cmp.Or(o.Template, m.parts.Target.ChatTemplate())
	if source == "" {
		reason := m.name + " has no chat template, so how it was trained to converse is unknown"
		if m.parts.Target.Encodes() {
			reason = m.name + " is an encoder-decoder model without a chat template: it reads a prompt and writes a text, " +
				"and holds no conversation unless a template says how one is put to it"
		}
		m.templateErr = &RequestError{Field: "messages", Code: CodeNoTemplate, Err: ErrNoTemplate, Reason: reason}
		return
	}
	tools := "" // the file's template for them belongs to the file's
	if o.Template == "" {
		v, _ := m.parts.Target.Metadata("tokenizer.chat_template.tool_use")
		tools, _ = v.(string)
	}
	t, err := chat.New(source, chat.Options{
		BOS: m.tok.Token(m.tok.BOS()), EOS: m.tok.Token(m.tok.EOS()), Limits: o.Limits.Template, Tools: tools,
		ToolFallback: o.ToolFallback, Clock: o.Clock})
	if err != nil {
		m.templateErr = &RequestError{Field: "messages", Code: CodeNoTemplate, Err: err,
			Reason: fmt.Sprintf("the chat template of %s is not one that can be executed: %v", m.name, err)}
		return
	}
	m.template = t
}

// OnPanic sets what is told of each panic in a pass or in the goroutine of an answer; nil: nobody. The panic is the
// error of those whose pass or answer it was.
func (m *Model) OnPanic(f func(value any, stack []byte)) { m.panicked.Store(&f) }

func (m *Model) tellPanic(v any, stack []byte) {
	if f := m.panicked.Load(); f != nil && *f != nil {
		(*f)(v, stack)
	}
}

// Close ends the sequences and frees the models. No request may be under way.
func (m *Model) Close() {
	m.closeSequences()
	m.form.close()
	if m.parts.Close != nil {
		m.parts.Close()
	}
}

func (m *Model) closeSequences() {
	if m.target != nil {
		m.target.close()
	}
	for _, d := range m.drafts {
		if d.own != nil {
			d.own.close()
		}
		d.form.Close()
	}
}

// Name is what messages call the model.
func (m *Model) Name() string { return m.name }

// Target is the model that texts are of.
func (m *Model) Target() *engine.Model { return m.parts.Target }

// Draft is the draft model or draft head; nil: there is none.
func (m *Model) Draft() *engine.Model { return m.parts.Draft }

// Tokenizer turns texts into token ids and back.
func (m *Model) Tokenizer() *bpe.Tokenizer { return m.tok }

// Context is the most tokens of a sequence, prompt and answer.
func (m *Model) Context() int { return m.context }

// Template is the chat template, or why conversations are refused: an error that wraps [ErrNoTemplate], or is that
// of the template.
func (m *Model) Template() (*chat.Template, error) { return m.template, m.templateErr }

// Speculation is how texts speculate where a request does not say otherwise, as [Options] has it.
func (m *Model) Speculation() speculative.Choice { return m.choice }

// DraftVocab is that of [Options]: the tokens that drafts may have; nil: all.
func (m *Model) DraftVocab() []int32 { return m.form.tokens }

// Stats are figures of a model's sequences since it was made, and of what it holds now.
type Stats struct {
	Target, Draft shared.Stats // of shared passes; zero where there are none
	GrammarBytes  int          // of compiled grammars, their states and masks
	GrammarTexts  int          // texts under way that hold one
}

// Stats are the model's figures.
func (m *Model) Stats() Stats {
	s := Stats{Target: m.target.stats()}
	if len(m.drafts) > 0 && m.drafts[0].own != nil {
		s.Draft = m.drafts[0].own.stats()
	}
	s.GrammarBytes, s.GrammarTexts = m.vocabulary.Memory()
	return s
}

// Bytes is the memory of the weights, with those of the draft and of adapters.
func (m *Model) Bytes() int64 {
	n := m.parts.Target.Bytes()
	for _, a := range m.parts.Adapters {
		n += a.Adapter.Info().Bytes
	}
	for _, d := range m.drafts {
		n += d.model.Bytes()
		if d.form != nil {
			n += d.form.Bytes()
		}
	}
	if f := m.form.get(); f != nil {
		n += f.Bytes()
	}
	return n
}

// Load says how [Open] loads a model's files.
type Load struct {
	Draft   string // a draft model or draft head, as the model; "": an MTP block in the model's own file, if it has one
	NoDraft bool   // load nothing to draft with; Draft is "" then

	Adapters []AdapterFile // of the model; requests name them by their place here

	Runtime *engine.Runtime // of the passes; nil: one of its own, with as many threads as Threads says
	Threads int             // 0: the physical cores that the process may use
	Weights string          // conversion of the matrices, as engine.Options has it; "": as in the file

	// Memory is the most bytes of weights and activations of model and draft, as engine.Options has it: weights that do
	// not fit are read in every pass from a copy in the directory Cache. 0: no bound.
	Memory int64
	Cache  string

	// Fingerprint finds the fingerprint of a model's file, as engine.Options has it; nil: engine.ReadFingerprint where
	// Options.Stored needs it.
	Fingerprint func(context.Context, *gguf.File) (engine.Fingerprint, error)

	Progress func(done, total int64) // of weights that were read, file by file
}

// Hub finds the file of a path that names a model of another place, and leaves other paths as they are.
type Hub interface {
	Local(ctx context.Context, path string) (string, error)
}

// local is the file of a path.
func (o *Options) local(ctx context.Context, path string) (string, error) {
	switch {
	case o.Hub != nil:
		return o.Hub.Local(ctx, path)
	case strings.Contains(path, "://"):
		return "", fmt.Errorf("%w: %s is no file, and there is no Options.Hub to find it with", ErrOptions, path)
	}
	return path, nil
}

// Open loads a model from a GGUF file, with what drafts for it. It reads no environment, and only Options.Hub opens
// connections.
func Open(ctx context.Context, path string, o Options) (m *Model, err error) {
	l := o.Load
	switch {
	case l.NoDraft && l.Draft != "":
		return nil, fmt.Errorf("%w: Load.NoDraft, and a draft model: %s", ErrOptions, l.Draft)
	case l.Memory < 0:
		return nil, fmt.Errorf("%w: Load.Memory: a negative bound", ErrOptions)
	case l.Weights != "" && !slices.Contains(engine.WeightNames(), l.Weights):
		return nil, fmt.Errorf("%w: Load.Weights: %w: %q (there are %s)", ErrOptions, engine.ErrWeightType, l.Weights,
			strings.Join(engine.WeightNames(), ", "))
	}
	if path, err = o.local(ctx, path); err != nil {
		return nil, err
	}
	if l.Draft, err = o.local(ctx, l.Draft); err != nil {
		return nil, err
	}
	var free []func()
	release := func() {
		for i := range free {
			free[len(free)-1-i]()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	rt := l.Runtime
	if rt == nil {
		if rt, err = engine.NewRuntime(engine.RuntimeOptions{Threads: l.Threads}); err != nil {
			return nil, fmt.Errorf("%w: Load.Threads: %w", ErrOptions, err)
		}
		free = append(free, rt.Close)
	}
	how := engine.Options{Weights: l.Weights, Memory: l.Memory, Cache: l.Cache, Progress: l.Progress,
		Fingerprint: l.Fingerprint}
	if how.Fingerprint == nil && o.Stored != nil {
		how.Fingerprint = engine.ReadFingerprint
	}
	p := Parts{}
	if p.Target, err = engine.Open(ctx, rt, path, how); err != nil {
		return nil, err
	}
	free = append(free, p.Target.Close)
	if p.Target.Config().Layers == 0 && !p.Target.TakesTexts() {
		return nil, fmt.Errorf("%s: an encoder alone (%s), which writes no text and makes no vectors of texts", path,
			p.Target.Config().Architecture)
	}
	if p.Target.TargetLayers() != nil {
		return nil, fmt.Errorf("%s: a draft head, which is no model by itself", path)
	}
	if p.Adapters, err = openAdapters(ctx, p.Target, l.Adapters); err != nil {
		return nil, err
	}
	how.Target = p.Target
	if how.Memory > 0 {
		how.Memory = max(how.Memory-p.Target.Bytes(), 1)
	}
	switch {
	case l.NoDraft:
	case l.Draft != "":
		p.Draft, err = engine.Open(ctx, rt, l.Draft, how)
	case p.Target.HasMTP():
		how.MTP = true
		p.Draft, err = engine.Open(ctx, rt, path, how)
	}
	if err != nil {
		return nil, err
	}
	if p.Draft != nil {
		free = append(free, p.Draft.Close)
	}
	p.Close = release
	return New(p, o)
}
