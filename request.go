package spec

import (
	"encoding/json"
	"time"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// Request says what is to be written. Messages or Prompts are needed; every other field has a useful zero value.
type Request struct {
	Messages []chat.Message // a conversation, which the model's chat template renders
	// Variables are for the template, such as enable_thinking, which is thinking too where the template does not know it.
	// Where it is false, and the template begins an answer with reasoning all the same or does not know the variable, the
	// prompt ends behind a section without text.
	Variables map[string]any
	Clock     time.Time // that the template reads the date from; zero: Options.Clock
	// Continue: the answer goes on with the last message, which is the assistant's, or with its reasoning where that is
	// all it has, instead of a new one.
	Continue bool
	Prompts  []Prompt // or texts to continue, each by itself
	Infill   *Infill  // the prompts are the text before a gap, and the answer is what fills it

	ThinkingBudget int // most tokens of a conversation's reasoning, whose end is forced then; 0: any number

	Tools      []Tool // that the answer of a conversation may call
	ToolChoice ToolChoice
	OneCall    bool // at most one call

	N         int  // answers of each prompt, at most 65536 of all; 0 is 1. Answer i has the seed Sampling.Seed + i
	MaxTokens int  // of an answer; 0: as many as fit the context
	WhenFull  Full // what becomes of a prompt that leaves the context too little room
	Keep      int  // with FullDrop, of a text: its first tokens that stay; negative: all, which is refused then
	// Truncate leaves so many tokens of each prompt, the last ones, behind the one with which the vocabulary begins
	// texts; negative: as many as leave room for MaxTokens, or for one; 0: all.
	Truncate  int
	Stop      []string // texts that end an answer and are not part of it
	ShowStop  bool     // but they are
	IgnoreEOS bool     // the model's own tokens that end a text are never chosen; Ends and Stop hold
	Lines     Lines    // ends an answer of several lines early
	MinTokens int      // the answer does not end before so many, but by its constraint and Stop; 0: Sampling says it
	Ends      []int32  // tokens that end an answer beside the model's own

	// Sampling says how tokens are chosen; its zero value is greedy. Its Constraint, if set, is the caller's own, and
	// Constraint must be empty.
	Sampling   engine.Sampling
	Breakers   []string // texts that no repetition reaches over, beside those of Sampling.DRY; see [DefaultBreakers]
	Constraint Constraint

	Speculation speculative.Choice // what it leaves open is the model's, then the default
	// Drafter, if set, makes a drafter of the caller's own for each answer, instead of the one of Speculation.
	Drafter func(target Sequence) (speculative.Drafter, error)
	// Previous is an earlier answer, to the same prompt or one like it: drafts follow it where the answer does, and
	// those of Speculation come where they part. It changes only the speed. Of one that is longer than the context the
	// beginning counts. The zero value is none.
	Previous Prompt
	Costs    speculative.PassCosts // of the target's passes, where they are known, for the schedule auto

	// Trace, if set, is called after each round, on the goroutine of its answer; the Round is valid during the call.
	Trace func(*speculative.Round)
	// Written, if set, is given the decoder of each answer that has ended without an error, on the goroutine of the
	// answer: for its receipt.
	Written func(*speculative.Decoder) error

	LogProbs bool // events have the log-probabilities of their tokens
	Top      int  // and of so many alternatives, of all tokens at most
	Chosen   bool // after penalties, filters and temperature, instead of the model's own
	Scored   bool // events have the log-probabilities of the prompt's tokens, behind the first; with LogProbs
	Progress bool // events tell how far the prompt is computed
	Timings  bool // each event has the figures so far
	Rounds   bool // events have the rounds of speculation

	// Adapters are the adapters that change the target's answers; those that are not named have the scale 0. nil: as the
	// model has them.
	Adapters []AdapterScale

	// Salt keeps what is computed for prompts that begin alike apart: only requests with the same one share it.
	Salt string
	// CallID makes the ids of tool calls that the model has given none; nil: random ones.
	CallID func() string
}

// UsualSampling has llama.cpp's defaults, as the commands and the server have them. The zero value of
// [Request].Sampling is greedy.
func UsualSampling() engine.Sampling {
	return engine.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1, TypicalP: 1}.Normalized()
}

// Prompt is a text, or the token ids of one.
type Prompt struct {
	Text  string // with control tokens spelled out, which become their ids
	Plain bool   // but what is spelled like one is text
	IDs   []int32
	// Parts, if there are any, are the prompt: texts and ids in a row.
	Parts []Prompt
	// Given says that the prompt is IDs, also if there are none.
	Given bool
}

// Infill is a gap to fill, for models that were trained for it: the prompt is the text before it. What is spelled like
// a control token is text, in the prompt too.
type Infill struct {
	Suffix string    // the text behind it
	Before []Prompt  // texts and ids in a row, in front of the prompt
	Behind []Prompt  // likewise, behind the gap and in front of Suffix
	Extra  []Snippet // texts of other files
}

// Snippet is a text of another file, as context.
type Snippet struct{ Name, Text string }

// Tool is a function that an answer may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // a JSON Schema of an object; nil: any arguments
	Strict      bool            // calls are well formed, and their arguments valid
	// JSON is what the chat template gets; nil: OpenAI's form of the other fields.
	JSON json.RawMessage
}

// ToolChoice says whether tools are called.
type ToolChoice struct {
	Mode ToolMode
	Name string // with CallRequired: of the tool that is called; "": any
}

// ToolMode says whether a call is wanted.
type ToolMode string

// Modes of calls.
const (
	CallAuto     ToolMode = ""         // as the model chooses
	CallNone     ToolMode = "none"     // the model is told of no tools
	CallRequired ToolMode = "required" // the answer is a call
)

// Constraint is what an answer must follow. In a conversation it is the content that follows it, whatever its kind:
// reasoning before it is free, and so are calls instead of it where tools are offered; but GBNF and Regex exclude tools
// that are Strict, and OneCall, since their texts may be calls. The zero value is none.
type Constraint struct {
	Kind   ConstraintKind
	Source []byte
	Field  string // what errors call it; "": constraint
	// AnyOrder lets the keys of objects that follow a JSONSchema come in any order, instead of the schema's.
	AnyOrder bool `json:",omitempty"`
}

// ConstraintKind is the notation of a constraint.
type ConstraintKind string

// Kinds of constraints.
const (
	AnyJSON    ConstraintKind = "json"   // any JSON object; Source is not used
	JSONSchema ConstraintKind = "schema" // valid by the schema in Source
	GBNF       ConstraintKind = "gbnf"   // a text of the grammar in Source
	// Without is a text in which none of those in Source is, a JSON array.
	Without ConstraintKind = "without"
	Regex   ConstraintKind = "regex" // a text that the regular expression in Source matches as a whole
)

// Schema is the constraint of a JSON Schema, such as that of [SchemaFor].
func Schema(source json.RawMessage) Constraint { return Constraint{Kind: JSONSchema, Source: source} }

// RequestError is what is wrong with a [Request].
type RequestError struct {
	Field  string // as OpenAI's API has it: messages, prompt[2], logit_bias, speculation.drafter
	Reason string // in words that go on after the field
	Code   string // for programs; "" if there is none

	Tokens, Context int   // with CodeContext: of the prompt, and what the context holds
	Err             error // that it wraps; nil: none
}

// Codes of a [RequestError].
const (
	CodeContext    = "context_length_exceeded"
	CodeNoTemplate = "no_chat_template"
)

func (e *RequestError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap returns Err.
func (e *RequestError) Unwrap() error { return e.Err }

// toolJSON is what templates get of a tool.
func (t *Tool) toolJSON() (json.RawMessage, error) {
	if t.JSON != nil {
		return t.JSON, nil
	}
	parameters := t.Parameters
	if parameters == nil {
		parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	return json.Marshal(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function{t.Name, t.Description, parameters}})
}

// chatTools are tools as package chat has them.
func chatTools(tools []Tool) (list []chat.Tool) {
	for _, t := range tools {
		list = append(list, chat.Tool{Name: t.Name, Parameters: t.Parameters})
	}
	return list
}
