package serve

import (
	"encoding/json"
	"math"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
)

// request is a body, read. It knows no model: texts are not tokens yet. Each part belongs to what a form may ask.
type request struct {
	tables tables
	client *client // who asks
	model  string

	// keeps what is computed for prompts that begin alike apart, also from the same client's other requests
	cacheSalt string

	conversation
	completion
	gap
	tokenizing
	vectors

	bounds
	delivery
	tokenChoice
	spec     Speculation
	metadata json.RawMessage // of the Responses API: comes back in the answer
}

// conversation is what a chat template renders, and what the answer may be.
type conversation struct {
	messages     []chat.Message
	instructions string // of the Responses API: the system message
	tools        []tool
	choice       toolChoice
	single       bool // at most one call
	kwargs       map[string]any
	think        bool // reasoning is told apart in Ollama's answers
	thinkGiven   bool
	genTail      bool // of apply-template: end where the answer begins
}

// completion is prompts to continue, or texts to embed.
type completion struct {
	prompts []prompt
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
	extra       []snippet
}

// tokenizing is a text or tokens to be turned into the other.
type tokenizing struct {
	content string
	tokens  []int32
	special bool // add the tokens that the vocabulary asks for
	parse   bool // control tokens in the text become their ids
	pieces  bool
}

// vectors is the form of embeddings.
type vectors struct {
	pooling string
	base64  bool
	dims    int
}

// bounds is how many answers there are, and what ends them.
type bounds struct {
	n         int
	maxTokens int // 0: as many as fit
	maxField  string
	stop      []string
	ignoreEOS bool
}

// delivery is what answers have beside their text, and how they come.
type delivery struct {
	stream, wantUsage bool
	logprobs          bool
	top               int // alternatives of each token
	topField          string
	wantTokens        bool // ids with the texts
	returnTokens      bool // in the whole answer too
	wantTimings       bool // with each chunk
	trace             bool // what was drafted and accepted
}

// tokenChoice says how a token is chosen, and what it must follow.
type tokenChoice struct {
	sampling   engine.Sampling
	seeded     bool
	window     bool // the penalty window was given as 0: penalties are off
	greedy     bool // top_p was 0
	bans       []int32
	constraint constraintSource
}

// prompt is a text or its token ids.
type prompt struct {
	text  string
	ids   []int32
	given bool // ids are
}

// tool is a function that the model may call.
type tool struct {
	name       string
	parameters json.RawMessage // a JSON Schema; nil: none given
	strict     bool
	raw        json.RawMessage // as templates get it
	given      json.RawMessage // as the request has it
}

// toolChoice says whether a call is wanted.
type toolChoice struct {
	mode string // auto, none, required
	name string // of the function that must be called
}

// constraintSource is the grammar that the answer must follow, as the request gave it.
type constraintSource struct {
	kind   string // "" for none, json, schema, gbnf
	source []byte
	field  string // that gave it
}

// newRequest holds the server's defaults.
func (s *Server) newRequest() *request {
	r := &request{tables: s.tables, client: s.anyone}
	r.n, r.sampling, r.genTail, r.parse = 1, s.o.Sampling, true, true
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
func (r *tokenChoice) setConstraint(c constraintSource) *Error {
	if r.constraint.kind != "" {
		return badField(c.field, "%s gives a grammar already", r.constraint.field)
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
