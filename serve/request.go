package serve

import (
	"encoding/json"
	"math"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
)

// request is a body, read. It knows no model: texts are not tokens yet.
type request struct {
	tables tables
	client *client // who asks
	model  string

	// keeps what is computed for prompts that begin alike apart, also from the same client's other requests
	cacheSalt string

	// What is asked, by the endpoint: a conversation, prompts, or texts to embed.
	messages []chat.Message
	tools    []tool
	choice   toolChoice
	single   bool // at most one call
	kwargs   map[string]any
	prompts  []prompt
	wrap     bool   // of Ollama's generate: the prompt is a message, if the model has a template
	raw      bool   // not so
	system   string // the message in front of it
	content  string // of tokenize
	tokens   []int32
	special  bool // of tokenize: add the tokens that the vocabulary asks for
	parse    bool // of tokenize: control tokens in the text become their ids
	pieces   bool
	pooling  string
	base64   bool
	dims     int
	suffix   string // the text behind a gap: fill-in-the-middle
	infill   bool   // of /infill, also with an empty suffix

	inputPrefix string // of /infill, in front of the prompt
	extra       []snippet
	genTail     bool // of apply-template: end where the answer begins

	// How much, and in which form.
	stream, wantUsage bool
	n                 int
	maxTokens         int // 0: as many as fit
	maxField          string
	stop              []string
	ignoreEOS         bool
	logprobs          bool
	top               int // alternatives of each token
	topField          string
	echo              bool
	wantTokens        bool // ids with the texts
	returnTokens      bool // in the whole answer too
	think             bool // reasoning is told apart in Ollama's answers
	thinkGiven        bool
	wantTimings       bool // with each chunk

	sampling   engine.Sampling
	seeded     bool
	window     bool // the penalty window was given as 0: penalties are off
	greedy     bool // top_p was 0
	bans       []int32
	constraint constraintSource
	spec       Speculation
	trace      bool

	instructions string
	metadata     json.RawMessage
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
	r := &request{tables: s.tables, client: s.anyone, n: 1, sampling: s.o.Sampling, genTail: true, parse: true}
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
func (r *request) setConstraint(c constraintSource) *Error {
	if r.constraint.kind != "" {
		return badField(c.field, "%s gives a grammar already", r.constraint.field)
	}
	r.constraint = c
	return nil
}

// setMax takes the greatest number of tokens; two fields must agree.
func (r *request) setMax(v value, unlimited bool) *Error {
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
