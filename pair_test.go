package spec

import (
	"context"
	"sync"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/testdata"
)

// pair is the embedded pair, loaded once for all tests.
var pair = sync.OnceValues(func() (p Parts, err error) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		return p, err
	}
	ctx := context.Background()
	if p.Target, err = engine.New(ctx, rt, testdata.Target(), testdata.Target().Size(),
		engine.Options{Name: "target"}); err != nil {
		return p, err
	}
	p.Draft, err = engine.New(ctx, rt, testdata.Draft(), testdata.Draft().Size(), engine.Options{Name: "draft"})
	return p, err
})

// hermes is chatml with tools in the style of Hermes and Qwen.
const hermes = `{%- if tools %}<|im_start|>system
{% for t in tools %}{{ t | tojson }}
{% endfor %}Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# "arguments" #}`

// newModel is the embedded pair with a chat template.
func newModel(t testing.TB, o Options) *Model {
	t.Helper()
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	if o.Template == "" {
		o.Template = hermes
	}
	m, err := New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}
