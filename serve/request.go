package serve

import (
	"encoding/json"
	"math"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// request is a body, read. It knows no model: texts are not tokens yet. Each part belongs to what a form may ask.
type request struct {
	tables tables
	client *client // who asks
	large  bool    // its body: what comes before the answers is done in turn
	model  string

	// keeps what is computed for prompts that begin alike apart, also from the same client's other requests
	cacheSalt string
	lora      []spec.AdapterScale // nil: as the model has them

	conversation
	completion
	gap
	tokenizing
	vectors
	ranking
	managing
	filename string // of a slot's text

	bounds
	delivery
	tokenChoice
	previous spec.Prompt // an earlier answer
	predicts string      // the field that has it; "": there is none
	spec     speculative.Choice
	metadata json.RawMessage // of the Responses API: comes back in the answer
}

// conversation is what a chat template renders, and what the answer may be.
type conversation struct {
	messages     []chat.Message
	instructions string // of the Responses API: the system message
	tools        []tool
	choice       spec.ToolChoice
	allowed      allowedTools
	named        []namedTool // which must be among tools
	single       bool        // at most one call
	kwargs       map[string]any
	clock        time.Time // that the template reads
	think        bool      // reasoning is told apart in Ollama's answers
	thinkGiven   bool
	genTail      bool // of apply-template: end where the answer begins
	begun        bool // add_generation_prompt: true
	budget       int  // most tokens of reasoning; 0: any number
	softBudget   bool // which holds where it can
	goOn, whole  bool // continue_final_message: true, false
	mayGoOn      bool // the form's last message is continued where the assistant has begun it
	edits        bool // of the Messages API: context_management is there
}

// completion is prompts to continue, or texts to embed.
type completion struct {
	prompts []spec.Prompt
	wrap    bool   // of Ollama's generate: the prompt is a message, if the model has a template
	raw     bool   // not so
	system  string // the message in front of it
	echo    bool   // the answer begins with the prompt
}

// gap is fill-in-the-middle: the prompt is the beginning of the gap's line.
type gap struct {
	suffix      string // the text behind the gap
	infill      bool   // of /infill, also with an empty suffix
	inputPrefix string // of /infill, in front of the prompt
	extra       []spec.Snippet
	before      []spec.Prompt // input_prefix and input_suffix as ids, or texts and ids
	behind      []spec.Prompt
}

// tokenizing is texts or tokens to be turned into the other.
type tokenizing struct {
	content []spec.Prompt // texts and ids in a row
	tokens  []int32
	special bool // add the tokens that the vocabulary asks for
	parse   bool // control tokens in the text become their ids
	pieces  bool
}

// vectors is the form of embeddings.
type vectors struct {
	texts   string // the field that has the texts
	pooling string
	each    bool // the form holds a vector of each token
	base64  bool
	dims    int // that are kept; 0: all
	norm    spec.Norm
}

// managing is what becomes of a model.
type managing struct {
	from        string // the model that another one is made of
	ownTemplate string
	parameters  json.RawMessage
	unload      bool // keep_alive: 0
}

// bounds is how many answers there are, and what ends them.
type bounds struct {
	n         int
	maxTokens int  // 0: as many as fit
	none      bool // max_tokens: 0
	maxField  string
	stop      []string
	ignoreEOS bool
	minTokens int
	ends      []int32 // tokens that end an answer, too
	lines     spec.Lines
	showStop  bool // the text of stop that ended the answer is part of it
	slot      int  // that the text is left in; -1: any
	truncate  int  // tokens of a prompt that are left; 0: all
	whenFull  spec.Full
	keep      int // tokens
}

// delivery is what answers have beside their text, and how they come.
type delivery struct {
	stream, wantUsage bool
	logprobs          bool
	top               int  // alternatives of each token
	chosen            bool // of probabilities after filters
	topField          string
	promptTop         int           // alternatives of each token of the prompt, and 1; 0: none is told
	wantTokens        bool          // ids with the texts
	returnTokens      bool          // in the whole answer too
	wantTimings       bool          // with each chunk
	verbose           bool          // __verbose
	progress          bool          // of the prompt, in a stream
	trace             bool          // what was drafted and accepted
	ping              time.Duration // without an event, after which a stream has a comment; 0: never
	fields            []string      // of /completion: those that are wanted; nil: all
}

// tokenChoice says how a token is chosen, and what it must follow.
type tokenChoice struct {
	sampling    engine.Sampling
	anyOrder    bool // of keys, with a schema
	seeded      bool
	freeNewline bool // penalties leave it as it is
	greedy      bool // top_p was 0
	repeatNone  bool // dry_allowed_length was 0
	breakers    []string
	textBias    []textBias // in the order of the request: the last one counts
	textBans    []string
	bans        []int32
	constraint  spec.Constraint
	free        bool // the request says that there is no constraint
}

// textBias is the bias of all tokens of a text.
type textBias struct {
	text string
	bias float32
}

// tool is a function that the model may call.
type tool struct {
	spec.Tool
	given   json.RawMessage // as the request has it
	leftOut bool            // no function
}

// allowedTools are the tools that may be called; the zero value is all.
type allowedTools struct {
	names []string
	given json.RawMessage // tool_choice, as the request has it
}

// namedTool is the name of a tool, and the field that has it.
type namedTool struct{ field, name string }

// newRequest holds the server's defaults.
func (s *Server) newRequest() *request {
	r := &request{tables: s.tables, client: s.anyone}
	r.n, r.slot, r.sampling, r.genTail, r.parse, r.verbose = 1, -1, s.o.Sampling, true, true, s.o.Verbose
	r.whenFull, r.anyOrder, r.seeded = s.o.WhenFull, s.o.AnyOrder, s.o.Seeded
	r.ignoreEOS, r.norm = s.o.IgnoreEOS, s.o.Norm
	return r
}

// limits of fields that no model bounds.
const (
	maxStops    = 16
	maxStopText = 1 << 10 // bytes of one stop string
	maxTools    = 128
	maxSampling = 1e6 // greatest temperature, penalty and bias
	anyNumber   = math.MaxInt32
)

// setConstraint takes a grammar; two are refused.
func (r *tokenChoice) setConstraint(c spec.Constraint) *Error {
	if r.constraint.Kind != "" {
		return badField(c.Field, "%s gives a grammar already", r.constraint.Field)
	}
	r.constraint = c
	return nil
}

// setMax takes the greatest number of tokens; two fields must agree.
func (r *bounds) setMax(v value, unlimited bool) *Error {
	low := int64(1)
	if unlimited {
		low = -2 // of Ollama: -2 fills the context, as -1 does here
	}
	n, err := v.whole(low, anyNumber)
	if err != nil {
		return err
	}
	if n == 0 {
		return v.bad("must be at least 1, or -1 for as many as fit")
	}
	if r.maxField != "" && r.maxTokens != int(max(n, 0)) {
		return v.bad("contradicts %s", r.maxField)
	}
	r.maxTokens, r.maxField = int(max(n, 0)), v.path
	return nil
}

// readNoneOrMax reads the most tokens of an answer, where 0 asks for none. The prompt is computed all the same, with
// one token that is not shown.
func readNoneOrMax(r *request, v value) *Error {
	if n, err := v.whole(0, 0); err == nil && n == 0 {
		r.none, r.maxTokens, r.maxField = true, 1, v.path
		return nil
	}
	return r.setMax(v, true)
}
