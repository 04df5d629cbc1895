package spec_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/serve"
	"github.com/specgo/spec/speculative"
)

// The files of the examples: a small model that writes Go, and a smaller one that drafts for it.
const (
	file      = "testdata/go-target.q8_0.gguf"
	draftFile = "testdata/go-draft.q8_0.gguf"
)

// plain is a chat template for a model that was trained on no conversations: the texts in a row.
const plain = "{% for m in messages %}{{ m.content }}{% endfor %}"

// open opens the examples' model with a chat template.
func open(o spec.Options) *spec.Model {
	o.Template = plain
	m, err := spec.Open(context.Background(), file, o)
	check(err)
	return m
}

// A text that is continued, by a model with another one that drafts for it, as the README shows it.
func Example() {
	ctx := context.Background()
	m, err := spec.Open(ctx, "testdata/go-target.q8_0.gguf", spec.Options{Load: spec.Load{
		Draft: "testdata/go-draft.q8_0.gguf"}})
	check(err)
	defer m.Close()
	for e, err := range m.Complete(ctx, "func (r *Ring) Push(", spec.Request{MaxTokens: 24}) {
		check(err)
		fmt.Print(e.Text)
	}
	// Output:
	// c *uint64, n *uint64) {
	// 	if n.nn != 0 {
	// 		return
}

// The same text the long way: every part in the program's hands.
func Example_longWay() {
	ctx := context.Background()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	check(err)
	defer rt.Close()
	target, err := engine.Open(ctx, rt, "testdata/go-target.q8_0.gguf", engine.Options{})
	check(err)
	draft, err := engine.Open(ctx, rt, "testdata/go-draft.q8_0.gguf", engine.Options{})
	check(err)
	session, err := target.NewSession(engine.SessionOptions{})
	check(err)
	drafting, err := draft.NewSession(engine.SessionOptions{})
	check(err)
	prompt := target.Tokenizer().Encode("func (r *Ring) Push(", bpe.EncodeOptions{AddSpecial: true})
	dec := speculative.New(session, speculative.Model(drafting),
		speculative.Options{Tokenizer: target.Tokenizer(), MaxTokens: 24})
	for token, err := range dec.Generate(ctx, prompt, engine.Sampling{}) {
		check(err)
		fmt.Print(token.Text)
	}
	// Output:
	// c *uint64, n *uint64) {
	// 	if n.nn != 0 {
	// 		return
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The answer as it is written. Greedy decoding is what a request's zero value asks for; speculation, by a draft model
// here, changes the speed alone.
func ExampleModel_Chat_streaming() {
	m := open(spec.Options{Load: spec.Load{Draft: draftFile}})
	defer m.Close()
	messages := []chat.Message{chat.System("// Sum adds them.\n"), chat.User("func Sum(")}
	for e, err := range m.Chat(context.Background(), messages, spec.Request{MaxTokens: 8}) {
		check(err)
		fmt.Printf("%q ", e.Text)
		if e.Finish != "" {
			fmt.Println(e.Finish, e.Stats.Generated)
		}
	}
	// Output:
	// "s" " string" ")" " int" " {" "" "" "\n\treturn" "" length 8
}

// A conversation in which the model calls a tool: the call is well formed, and its arguments are valid by the tool's
// schema. What the tool came to is the next message.
func ExampleModel_Chat_tools() {
	const template = "{% for t in tools %}{{ t | tojson }}\n{% endfor %}" +
		"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{# <tool_call> \"arguments\" #}"
	m, err := spec.Open(context.Background(), file, spec.Options{Template: template})
	check(err)
	defer m.Close()
	type place struct {
		Unit string `json:"unit" jsonschema:"enum=C,enum=F"`
		Days int8   `json:"days" jsonschema:"minimum=1,maximum=7"`
	}
	schema, err := spec.SchemaFor[place]()
	check(err)
	messages := []chat.Message{chat.User("What will the weather be?")}
	answers, err := spec.Collect(m.Chat(context.Background(), messages, spec.Request{
		Tools:      []spec.Tool{{Name: "weather", Description: "a forecast", Parameters: schema}},
		ToolChoice: spec.ToolChoice{Mode: spec.CallRequired}, OneCall: true,
		CallID: func() string { return "call_1" }, // the default is a random one
	}))
	check(err)
	var p place
	for _, call := range answers[0].Calls {
		check(json.Unmarshal([]byte(call.Arguments), &p))
		fmt.Println(answers[0].Finish, call.ID, call.Name, call.Arguments)
		messages = append(messages, answers[0].Message(), chat.ToolResult(call, "rain"))
	}
	fmt.Println(len(messages), "messages, the last from", messages[2].Name)
	// Output:
	// tool_calls call_1 weather {"unit": "C", "days": 1}
	// 3 messages, the last from weather
}

// An answer as a Go value.
func ExampleAnswer() {
	type city struct {
		Name string `json:"name" jsonschema:"pattern=^[A-Z][a-z]{3}$" description:"in English"`
		Size string `json:"size" jsonschema:"enum=small,enum=large"`
	}
	m := open(spec.Options{})
	defer m.Close()
	c, err := spec.Answer[city](context.Background(), m, []chat.Message{chat.User("Which city?")}, spec.Request{})
	fmt.Printf("%d letters, %s, %v\n", len(c.Name), c.Size, err)
	// Output:
	// 4 letters, small, <nil>
}

// Which text is nearest in meaning: vectors have length 1, so that the cosine of two is their product.
func ExampleModel_Embed() {
	m := open(spec.Options{})
	defer m.Close()
	texts := []string{"for i := 0; i < n; i++ {", "for j := 0; j < m; j++ {", "// Package doc says what it is for."}
	v, err := m.Embed(context.Background(), texts, spec.EmbedOptions{})
	check(err)
	cosine := func(a, b []float32) (sum float64) {
		for i := range a {
			sum += float64(a[i]) * float64(b[i])
		}
		return sum
	}
	fmt.Println(math.Round(cosine(v[0], v[0])*1e5)/1e5, cosine(v[0], v[1]) > cosine(v[0], v[2]))
	// Output:
	// 1 true
}

// Answers that are computed at once share passes over the weights. Each is the text that it is alone.
func ExampleModel_Generate_sharedPasses() {
	m := open(spec.Options{})
	defer m.Close()
	prompts := []string{"func (r *Reader) Read(", "type Ring struct {\n"}
	together := make([]string, len(prompts))
	var wait sync.WaitGroup
	for i, p := range prompts {
		wait.Go(func() {
			together[i], _ = spec.Text(m.Complete(context.Background(), p, spec.Request{MaxTokens: 64}))
		})
	}
	wait.Wait()
	for i, p := range prompts {
		alone, err := spec.Text(m.Complete(context.Background(), p, spec.Request{MaxTokens: 64}))
		fmt.Println(together[i] == alone, err)
	}
	// Output:
	// true <nil>
	// true <nil>
}

// repeat is a drafter: it proposes the token that followed the last one when that came before.
type repeat struct{}

func (repeat) Start(context.Context, speculative.Setup) error { return nil }

func (repeat) Draft(_ context.Context, sequence []int32, d *speculative.Draft) error {
	last := len(sequence) - 1
	for i := last - 1; i >= 0 && d.More(); i-- {
		if sequence[i] == sequence[last] {
			d.Add(sequence[i+1], 1, nil)
			break
		}
	}
	return nil
}

func (repeat) Observe(*speculative.Round) {}

// A drafter of one's own: the text is the one that any other leads to.
func ExampleRequest_drafter() {
	m := open(spec.Options{})
	defer m.Close()
	r := spec.Request{MaxTokens: 32, Drafter: func(spec.Sequence) (speculative.Drafter, error) { return repeat{}, nil }}
	own, err := spec.Text(m.Complete(context.Background(), "for i := 0; i < n; i++ {\n\tfor", r))
	r.Drafter = nil
	usual, _ := spec.Text(m.Complete(context.Background(), "for i := 0; i < n; i++ {\n\tfor", r))
	fmt.Println(own == usual, err)
	// Output:
	// true <nil>
}

// The server in a program of one's own: the handler answers OpenAI's API and Ollama's with a model of the library.
func Example_server() {
	s, err := serve.New(serve.Options{Models: []serve.Entry{{
		Name: "go", Load: func(ctx context.Context) (*spec.Model, error) {
			return spec.Open(ctx, file, spec.Options{Name: "go"})
		},
	}}})
	check(err)
	defer s.Close()
	mux := http.NewServeMux()
	mux.Handle("/", s)
	web := httptest.NewServer(mux)
	defer web.Close()
	answer, err := http.Post(web.URL+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"if err != nil {\n\treturn","max_tokens":4,"temperature":0}`))
	check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(err)
	var got struct{ Choices []struct{ Text string } }
	check(json.Unmarshal(body, &got))
	fmt.Printf("%s %q\n", answer.Status, got.Choices[0].Text)
	// Output:
	// 200 OK " nil, nil\n"
}
