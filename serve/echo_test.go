package serve

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
)

// scored are the log-probabilities of /v1/completions.
type scored struct {
	Tokens  []string             `json:"tokens"`
	Each    []*float64           `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

// echoed is an answer of /v1/completions, whole or put together of a stream.
func echoed(t *testing.T, s *tester, body string) (text, finish string, p scored, generated int) {
	t.Helper()
	type answer struct {
		Choices []struct {
			Text   string `json:"text"`
			P      scored `json:"logprobs"`
			Finish string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Generated int `json:"completion_tokens"`
		} `json:"usage"`
	}
	got := s.post("/v1/completions", body, 200)
	chunks := []string{got}
	if strings.HasPrefix(got, "data: ") {
		chunks = strings.Split(strings.TrimSuffix(got, "\n\ndata: [DONE]\n\n"), "\n\n")
	}
	for _, c := range chunks {
		var a answer
		if err := json.Unmarshal([]byte(strings.TrimPrefix(c, "data: ")), &a); err != nil {
			t.Fatalf("%v: %s", err, c)
		}
		for _, x := range a.Choices {
			text, finish = text+x.Text, finish+x.Finish
			p.Tokens, p.Each = append(p.Tokens, x.P.Tokens...), append(p.Each, x.P.Each...)
			p.Top, p.Offsets = append(p.Top, x.P.Top...), append(p.Offsets, x.P.Offsets...)
		}
		generated = a.Usage.Generated
	}
	return text, finish, p, generated
}

// The log-probabilities of a prompt's tokens are those with which the same tokens were generated, to the bit: whole,
// streamed, with a prompt that is known from before, of several passes, and without an answer. The first has none.
func TestEchoLogprobs(t *testing.T) {
	s := newTester(t, smaller(t))
	var written struct {
		Content string  `json:"content"`
		Tokens  []int32 `json:"tokens"`
	}
	const first = "func (r *Ring) Push("
	body := s.post("/completion",
		`{"prompt":"`+first+`","n_predict":90,"temperature":0,"return_tokens":true,"ignore_eos":true}`, 200)
	if err := json.Unmarshal([]byte(body), &written); err != nil || len(written.Tokens) != 90 {
		t.Fatal(err, body)
	}
	_, _, want, _ := echoed(t, s, `{"prompt":"`+first+`","max_tokens":90,"logprobs":3,"ignore_eos":true}`)
	front := s.post("/tokenize", `{"content":"`+first+`","add_special":true}`, 200)
	var ids struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal([]byte(front), &ids); err != nil {
		t.Fatal(err)
	}
	n := len(ids.Tokens)
	prompt := encode(append(slices.Clone(ids.Tokens), written.Tokens...))
	for _, more := range []string{`,"max_tokens":0`, `,"max_tokens":1`, `,"max_tokens":0,"stream":true`,
		`,"max_tokens":1,"stream":true`} {
		text, finish, got, generated := echoed(t, s, fmt.Sprintf(`{"prompt":%s,"echo":true,"logprobs":3%s}`, prompt, more))
		answer := strings.Count(more, ":1")
		if len(got.Each) != n+90+answer || got.Each[0] != nil || got.Top[0] != nil || finish != "length" {
			t.Fatalf("%s: %d tokens of %d, %v, %s", more, len(got.Each), n+90+answer, got.Each[0], finish)
		}
		if !strings.Contains(more, "stream") && generated != answer {
			t.Errorf("%s: %d tokens generated", more, generated)
		}
		if !reflect.DeepEqual(got.Each[n:n+90], want.Each) || !reflect.DeepEqual(got.Top[n:n+90], want.Top) ||
			!slices.Equal(got.Tokens[n:n+90], want.Tokens) {
			t.Errorf("%s: %v, generated with %v", more, got, want)
		}
		if !strings.HasPrefix(text, first+written.Content) || answer == 0 && text != first+written.Content {
			t.Errorf("%s: %q", more, text)
		}
		for i, at := range got.Offsets { // a control token in front is no part of the text
			if i > 0 && !strings.HasPrefix(text[at:], got.Tokens[i]) {
				t.Errorf("%s: token %d, %q, is not at %d", more, i, got.Tokens[i], at)
			}
		}
	}
	// Of a text too, and of several prompts, each with its own.
	_, _, one, _ := echoed(t, s, `{"prompt":"`+first+`","echo":true,"logprobs":0,"max_tokens":0}`)
	_, _, both, _ := echoed(t, s, `{"prompt":["`+first+`","x"],"echo":true,"logprobs":0,"max_tokens":0}`)
	if len(one.Each) != n || !reflect.DeepEqual(both.Each[:n], one.Each) || both.Each[n] != nil || one.Offsets[1] != 0 {
		t.Errorf("%+v\n%+v", one, both)
	}
	// Without logprobs, no answer at all.
	if text, finish, _, _ := echoed(t, s, `{"prompt":"x","max_tokens":0}`); text != "" || finish != "length" {
		t.Errorf("%q, %s", text, finish)
	}
}

// text_offset counts characters, whatever bytes they have and tokens they are spread over, and whatever is held back
// because a text of stop may begin with it.
func TestOffsetsAreCharacters(t *testing.T) {
	s := newTester(t, nil)
	for _, more := range []string{`"max_tokens":0`, `"max_tokens":6`, `"max_tokens":6,"stream":true`} {
		text, _, p, _ := echoed(t, s, `{"prompt":"// é日本 = x\nfunc Größe() {","echo":true,"logprobs":0,`+more+`}`)
		chars, parts := []rune(text), 0
		for i, at := range p.Offsets {
			if i == 0 {
				continue // a control token
			}
			if strings.Contains(p.Tokens[i], "\uFFFD") {
				parts++
			} else if at > len(chars) || !strings.HasPrefix(string(chars[at:]), p.Tokens[i]) {
				t.Errorf("%s: %q is not at %d of %q", more, p.Tokens[i], at, text)
			}
			if i > 1 && at < p.Offsets[i-1] {
				t.Errorf("%s: %d is behind %d", more, at, p.Offsets[i-1])
			}
		}
		if parts == 0 {
			t.Errorf("no token is a part of a character: %q", p.Tokens)
		}
	}
	const body = `{"prompt":"func (r *Ring) Push(","max_tokens":12,"temperature":0,"logprobs":0`
	_, _, free, _ := echoed(t, s, body+`}`)
	stop := string(encode(free.Tokens[3] + "never"))
	if _, _, held, _ := echoed(t, s, body+`,"stop":`+stop+`}`); !slices.Equal(held.Offsets, free.Offsets) {
		t.Errorf("with stop %s: %v, without %v", stop, held.Offsets, free.Offsets)
	}
}

// The space that a vocabulary puts in front of a text, and behind special tokens, is no character of it.
func TestSpacesOfVocabulariesAreNoCharacters(t *testing.T) {
	c := bpe.Defaults("llama", "")
	c.Tokens = []string{"<unk>", "<s>", "</s>", "<x>", "a", "▁", "▁a"}
	c.Types = []int32{bpe.TypeUnknown, bpe.TypeControl, bpe.TypeControl, bpe.TypeControl, bpe.TypeNormal, bpe.TypeNormal,
		bpe.TypeNormal}
	c.Scores = []float32{0, 0, 0, 0, -1, -2, -1}
	tok, err := bpe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	const text = "a a<x>a a"
	ids := tok.Encode(text, bpe.EncodeOptions{AddSpecial: true, ParseSpecial: true})
	for given, want := range map[bool]string{false: text, true: tok.Decode(ids)} {
		all := ""
		for i := range ids {
			all += echoedText(tok, ids, i, given)
		}
		if all != want {
			t.Errorf("%v: the tokens' texts are %q, want %q", ids, all, want)
		}
	}
}

// An answer begins with what is read of its prompt, where that is cut: the places of the tokens are in this text.
func TestEchoOfCutPrompts(t *testing.T) {
	s := newTester(t, with(t, func(o *spec.Options) { o.Context = 24 }))
	const long = "func (r *Ring) Push(x int) error { for i := range 10 { return r.add(x, i) } }"
	for _, more := range []string{`,"truncate_prompt_tokens":6`, `,"when_full":"drop"`} {
		text, _, p, _ := echoed(t, s, `{"prompt":"`+long+`","echo":true,"logprobs":0,"max_tokens":3`+more+`}`)
		if len(p.Tokens) < 6 || len(text) >= len(long) {
			t.Fatalf("%s: %q, %q", more, text, p.Tokens)
		}
		for i, at := range p.Offsets { // a control token in front is no part of the text
			if i > 0 && (at > len(text) || !strings.HasPrefix(text[at:], p.Tokens[i])) {
				t.Errorf("%s: token %d, %q, is not at %d of %q", more, i, p.Tokens[i], at, text)
			}
		}
	}
}
