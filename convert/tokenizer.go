package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
)

// Token types, as in tokenizer.ggml.token_type and in SentencePiece's own files.
const (
	typeNormal  = 1
	typeUnknown = 2
	typeControl = 3
	typeUser    = 4
	typeUnused  = 5
	typeByte    = 6
)

// words is a tokenizer on its way into a GGUF file.
type words struct {
	model, pre string
	tokens     []string
	types      []int32
	scores     []float32
	merges     []string
	ids        map[string]int32
	addBOS     *bool
	addEOS     *bool
	around     [2]string // tokens that a post-processor puts in front of a text and behind it; "": none
	addPrefix  *bool
	squeeze    *bool  // remove_extra_whitespaces
	charsmap   []byte // of a unigram model
	pieces     int    // of a unigram model, before tokens were added
	note       string // what is left out; "" if nothing is
}

// addedToken is an entry of added_tokens or added_tokens_decoder.
type addedToken struct {
	ID      int32  `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

// readTokenizer makes the keys tokenizer.* of the first of these files that is in dir: tokenizer.model or spiece.model
// (SentencePiece), tokenizer.json, vocab.json with merges.txt. Ids without a token are named [PADid].
func readTokenizer(dir string, b *builder) ([]gguf.KV, error) {
	c, vocab := b.config, b.vocab
	settings, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	w, file, err := readWords(dir, b.unigram)
	if err != nil {
		return nil, err
	}
	own := len(w.tokens) // what follows was added
	if err := w.addFile(filepath.Join(dir, "added_tokens.json")); err != nil {
		return nil, err
	}
	for id, t := range settings.added {
		if err := w.place(file, id, t); err != nil {
			return nil, err
		}
	}
	if own <= vocab {
		if text := w.cut(vocab); text != "" {
			b.note("the added token %s and all behind it are left out: the model has no rows for them (vocab_size %d)",
				gguf.Printable(text, 40), vocab)
		}
	}
	if w.model == "t5" {
		if err := w.extraIDs(settings); err != nil {
			return nil, err
		}
	}
	if w.note != "" {
		b.note("%s", w.note)
	}
	if b.addBOS && w.addBOS == nil {
		w.addBOS = &b.addBOS
	}
	if len(w.tokens) > vocab {
		return nil, fmt.Errorf("%s: %d tokens, vocab_size in config.json is %d", file, len(w.tokens), vocab)
	}
	for id := range vocab {
		if id == len(w.tokens) {
			w.tokens, w.types = append(w.tokens, ""), append(w.types, typeUnused)
			if w.scores != nil {
				w.scores = append(w.scores, 0)
			}
		}
		if w.tokens[id] == "" {
			w.tokens[id], w.types[id] = fmt.Sprintf("[PAD%d]", id), typeUnused
			if w.scores != nil {
				w.scores[id] = unusedScore
			}
		}
	}
	kvs := []gguf.KV{{Key: "tokenizer.ggml.model", Value: w.model}}
	add := func(key string, v gguf.Value) { kvs = append(kvs, gguf.KV{Key: "tokenizer.ggml." + key, Value: v}) }
	if w.pre != "" {
		add("pre", w.pre)
	}
	add("tokens", w.tokens)
	if w.scores != nil {
		add("scores", w.scores)
	}
	add("token_type", w.types)
	if w.merges != nil {
		add("merges", w.merges)
	}
	w.ids = map[string]int32{}
	for id, t := range w.tokens {
		w.ids[t] = int32(id)
	}
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, name := range []string{"bos_token", "eos_token"} {
		if text := settings.text(name); w.around[i] != "" && text != "" && text != w.around[i] {
			return nil, fmt.Errorf("%s: post_processor: it puts %s around a text where GGUF has the %s, %s", file,
				gguf.Printable(w.around[i], 40), name, gguf.Printable(text, 40))
		}
	}
	ends := idsOf(c, "eos_token_id")
	for _, mark := range []struct{ key, name, around string }{{"bos", "bos_token", w.around[0]},
		{"eos", "eos_token", w.around[1]}, {"unknown", "unk_token", ""}, {"padding", "pad_token", ""}} {
		id := int32(-1)
		if text := cmp.Or(settings.text(mark.name), mark.around); text != "" {
			var ok bool
			if id, ok = w.ids[text]; !ok {
				return nil, fmt.Errorf("%s: %s %s is not in the vocabulary", settings.file, mark.name, gguf.Printable(text, 40))
			}
		} else if list := idsOf(c, strings.TrimSuffix(mark.name, "_token")+"_token_id"); len(list) > 0 {
			id = list[0]
		}
		if id >= int32(vocab) {
			return nil, fmt.Errorf("%s: %s_id %d, the vocabulary has %d tokens", c.file, mark.name, id, vocab)
		}
		if id >= 0 {
			add(mark.key+"_token_id", uint32(id))
		}
		if mark.key == "eos" {
			ends = slices.DeleteFunc(ends, func(e int32) bool { return e == id })
		}
	}
	// More ends of text than one: GGUF has a key for the end of a turn and one for the end of a message.
	for i, key := range []string{"eot_token_id", "eom_token_id"} {
		if i < len(ends) && ends[i] >= 0 && int(ends[i]) < vocab {
			add(key, uint32(ends[i]))
		}
	}
	if on := settings.flag("add_bos_token", w.addBOS); on != nil {
		add("add_bos_token", *on)
	}
	if on := settings.flag("add_eos_token", w.addEOS); on != nil {
		add("add_eos_token", *on)
	}
	if w.addPrefix != nil {
		add("add_space_prefix", *w.addPrefix)
	}
	if w.squeeze != nil {
		add("remove_extra_whitespaces", *w.squeeze)
	}
	if len(w.charsmap) > 0 {
		add("precompiled_charsmap", w.charsmap)
	}
	if settings.template != "" {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.chat_template", Value: settings.template})
	}
	if settings.template != "" && settings.tools != "" {
		kvs = append(kvs, gguf.KV{Key: "tokenizer.chat_template.tool_use", Value: settings.tools})
	}
	return kvs, nil
}

// cut drops the tokens from id n on, and returns the first of them that has a text; "" if there is none.
func (w *words) cut(n int) (first string) {
	if len(w.tokens) <= n {
		return ""
	}
	for _, text := range w.tokens[n:] {
		first = cmp.Or(first, text)
	}
	w.tokens, w.types = w.tokens[:n], w.types[:n]
	if w.scores != nil {
		w.scores = w.scores[:n]
	}
	return first
}

// marks is how many tokens of several characters may be the result of no merge, besides a hundredth of the merges:
// vocab.json has marks such as </s> and OPT's madeupword0000 among its tokens.
const marks = 16

// check refuses a vocabulary that a model could not be read with, and merges of which many are missing: a token of
// several characters is the result of a merge, unless the words of the vocabulary are not merged (llama-bpe).
func (w *words) check() error {
	c := bpe.Defaults(w.model, w.pre)
	c.Tokens, c.Types, c.Scores, c.Merges, c.Charsmap = w.tokens, w.types, w.scores, w.merges, w.charsmap
	if _, err := bpe.New(c); err != nil && !errors.Is(err, bpe.ErrUnsupported) {
		return err
	}
	if w.model != "gpt2" || w.pre == "llama-bpe" {
		return nil
	}
	made := map[string]bool{}
	for i, line := range w.merges {
		if made[line] {
			return fmt.Errorf("merge %d, %s, stands there twice", i, gguf.Printable(line, 40))
		}
		made[line] = true
		made[strings.Replace(line, " ", "", 1)] = true
	}
	missing, last := 0, ""
	for id, t := range w.tokens {
		if w.types[id] == typeNormal && utf8.RuneCountInString(t) > 1 && !made[t] {
			missing, last = missing+1, t
		}
	}
	if missing > marks+len(w.merges)/100 {
		return fmt.Errorf("%d tokens, %s for one, are the result of none of the %d merges: some are missing", missing,
			gguf.Printable(last, 40), len(w.merges))
	}
	return nil
}

// idsOf reads a token id, or a list of them, of config.json.
func idsOf(c *config, key string) (ids []int32) {
	list, ok := c.values[key].([]any)
	if !ok {
		list = []any{c.values[key]}
	}
	for _, v := range list {
		n, _ := v.(json.Number)
		if id, err := n.Int64(); err == nil && id >= 0 && id < largest {
			ids = append(ids, int32(id))
		}
	}
	return ids
}

// place puts an added token where it belongs.
func (w *words) place(file string, id int32, t addedToken) error {
	if id < 0 || id >= largest {
		return fmt.Errorf("%s: added token %s: id %d", file, gguf.Printable(t.Content, 40), id)
	}
	for int(id) >= len(w.tokens) {
		w.tokens, w.types = append(w.tokens, ""), append(w.types, typeUnused)
		if w.scores != nil {
			w.scores = append(w.scores, addedScore)
		}
	}
	if w.model == "t5" && w.types[id] == typeUnused && w.tokens[id] == "" {
		w.tokens[id], w.types[id] = t.Content, typeUser // <extra_id_0> is text of the training data
		return nil
	}
	w.tokens[id] = t.Content
	switch {
	case t.Special && w.types[id] != typeUnknown:
		w.types[id] = typeControl
	case !t.Special && w.types[id] != typeByte && w.types[id] != typeControl:
		w.types[id] = typeUser
	}
	return nil
}

// settings is what tokenizer_config.json says, and the chat template.
type settings struct {
	file     string
	values   map[string]any
	added    map[int32]addedToken
	template string
	tools    string // the template of conversations with tools, beside it
}

func readSettings(dir string) (*settings, error) {
	s := &settings{file: filepath.Join(dir, "tokenizer_config.json"), added: map[int32]addedToken{}}
	data, err := os.ReadFile(s.file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(data, &s.values); err != nil {
		return nil, fmt.Errorf("%s: %w", s.file, err)
	}
	var more struct {
		Added map[string]addedToken `json:"added_tokens_decoder"`
	}
	if err := json.Unmarshal(data, &more); err != nil {
		return nil, fmt.Errorf("%s: %w", s.file, err)
	}
	for key, t := range more.Added {
		var id int32
		if _, err := fmt.Sscanf(key, "%d", &id); err != nil {
			return nil, fmt.Errorf("%s: added_tokens_decoder: %q is no id", s.file, gguf.Printable(key, 40))
		}
		s.added[id] = t
	}
	switch t := s.values["chat_template"].(type) {
	case string:
		s.template = t
	case []any: // several, by name
		for _, e := range t {
			m, _ := e.(map[string]any)
			text, _ := m["template"].(string)
			switch m["name"] {
			case "default":
				s.template = text
			case "tool_use":
				s.tools = text
			}
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja")); err == nil {
		s.template = string(data)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "additional_chat_templates", "tool_use.jinja")); err == nil {
		s.tools = string(data)
	}
	return s, nil
}

// text is a token that is given as a text or as an object with its content.
func (s *settings) text(key string) string {
	switch v := s.values[key].(type) {
	case string:
		return v
	case map[string]any:
		text, _ := v["content"].(string)
		return text
	}
	return ""
}

func (s *settings) flag(key string, absent *bool) *bool {
	if b, ok := s.values[key].(bool); ok {
		return &b
	}
	return absent
}

// tokenizerJSON is the part of tokenizer.json that is understood.
type tokenizerJSON struct {
	Added         []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  *step           `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Model         struct {
		Type         string            `json:"type"`
		Vocab        json.RawMessage   `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
		ByteFallback bool              `json:"byte_fallback"`
		IgnoreMerges bool              `json:"ignore_merges"`
		Prefix       *string           `json:"continuing_subword_prefix"`
		Suffix       *string           `json:"end_of_word_suffix"`
		Dropout      *float64          `json:"dropout"`
		UnkID        *int32            `json:"unk_id"` // of a unigram model, whose vocab is a list of pairs
	} `json:"model"`
}

// step is one pre-tokenizer.
type step struct {
	Type           string `json:"type"`
	Steps          []step `json:"pretokenizers"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	PrependScheme  string `json:"prepend_scheme"`
	Replacement    string `json:"replacement"`
	UseRegex       *bool  `json:"use_regex"`
	Individual     bool   `json:"individual_digits"`
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	Pattern        struct {
		Regex  *string `json:"Regex"`
		String *string `json:"String"`
	} `json:"pattern"`
}

// signature writes a pre-tokenizer as one text: the key of preTokenizers.
func (s *step) signature() string {
	switch s.Type {
	case "Sequence":
		var all []string
		for i := range s.Steps {
			if t := s.Steps[i].signature(); t != "" {
				all = append(all, t)
			}
		}
		return strings.Join(all, " | ")
	case "ByteLevel":
		if s.AddPrefixSpace {
			return "ByteLevel with a prefix space"
		}
		if s.UseRegex == nil || *s.UseRegex {
			return "gpt-2"
		}
		return "" // bytes to characters only
	case "Digits":
		if s.Individual {
			return "digits"
		}
		return "Digits"
	case "Split":
		if s.Pattern.Regex == nil {
			return "Split by a text"
		}
		behavior := ""
		if s.Behavior != "Isolated" && !(s.Behavior == "Removed" && s.Invert) {
			behavior = " " + s.Behavior
		}
		return *s.Pattern.Regex + behavior
	}
	return s.Type
}

const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	upper        = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower        = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	tail         = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	caseTail     = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Rule   = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` + tail
	qwen2Rule    = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + tail
	qwen35Rule   = contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenRule   = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+|[^\r\n\p{L}\p{N}]?` + upper + `+` + lower + `*|\p{N}` +
		caseTail
	gpt4oRule = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + upper +
		`+` + lower + `*` + contractions + `?|\p{N}{1,3}` + caseTail
)

// preTokenizers names tokenizer.ggml.pre by a pre-tokenizer's signature. Llama 3's rule has two names: whole words
// that are tokens are not merged (ignore_merges) under one of them.
var preTokenizers = map[string]string{
	"gpt-2":          "gpt-2",
	"digits | gpt-2": "smollm",
	llama3Rule:       "dbrx",
	qwen2Rule:        "qwen2",
	qwen35Rule:       "qwen35",
	tekkenRule:       "tekken",
	gpt4oRule:        "gpt-4o",
}

// readTokenizerJSON reads a byte-level BPE or, where unigram is set, a unigram model.
func readTokenizerJSON(file string, unigram bool) (*words, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("no tokenizer: %w", err)
	}
	fail := func(format string, args ...any) (*words, error) {
		return nil, fmt.Errorf("%s: %s", file, fmt.Sprintf(format, args...))
	}
	var t tokenizerJSON
	if err := json.Unmarshal(data, &t); err != nil {
		return fail("%v", err)
	}
	if t.Model.Type == "Unigram" && unigram {
		w, err := t.unigram(file)
		if err != nil {
			return fail("%v", err)
		}
		return w, nil
	}
	if t.Model.Type != "BPE" {
		return fail("model.type %q is not supported (BPE is)", gguf.Printable(t.Model.Type, 40))
	}
	var vocab map[string]int32
	if err := json.Unmarshal(t.Model.Vocab, &vocab); err != nil {
		return fail("model.vocab: %v", err)
	}
	if t.Model.ByteFallback {
		return fail("model.byte_fallback: this is a SentencePiece vocabulary without its scores; put its tokenizer.model " +
			"beside it")
	}
	for name, text := range map[string]*string{
		"continuing_subword_prefix": t.Model.Prefix, "end_of_word_suffix": t.Model.Suffix} {
		if text != nil && *text != "" {
			return fail("model.%s %q is not supported", name, gguf.Printable(*text, 40))
		}
	}
	if t.Model.Dropout != nil && *t.Model.Dropout != 0 {
		return fail("model.dropout is not supported")
	}
	if n := strings.TrimSpace(string(t.Normalizer)); n != "" && n != "null" && !strings.Contains(n, `"NFC"`) {
		return fail("normalizer %s is not supported", gguf.Printable(n, 80))
	}
	if t.PreTokenizer == nil {
		return fail("no pre_tokenizer")
	}
	signature := t.PreTokenizer.signature()
	pre, ok := preTokenizers[signature]
	if !ok {
		return fail("pre_tokenizer %s is not known", gguf.Printable(signature, 200))
	}
	if t.Model.IgnoreMerges {
		if pre != "dbrx" {
			return fail("model.ignore_merges with pre-tokenizer %s is not supported", pre)
		}
		pre = "llama-bpe"
	}
	w := &words{model: "gpt2", pre: pre, merges: []string{}}
	if err := w.setVocabulary(vocab); err != nil {
		return fail("model.vocab: %v", err)
	}
	for i, raw := range t.Model.Merges {
		var text string
		var pair []string
		switch {
		case json.Unmarshal(raw, &text) == nil:
		case json.Unmarshal(raw, &pair) == nil && len(pair) == 2 && !strings.Contains(pair[0]+pair[1], " "):
			text = pair[0] + " " + pair[1]
		default:
			return fail("model.merges[%d]: a pair of tokens expected", i)
		}
		w.merges = append(w.merges, text)
	}
	for _, a := range t.Added {
		if err := w.place(file, a.ID, a); err != nil {
			return nil, err
		}
	}
	marks, err := templateMarks(t.PostProcessor)
	if err != nil {
		return fail("%v", err)
	}
	if marks != nil {
		bos, eos := marks[0] != "", marks[1] != ""
		w.around, w.addBOS = *marks, &bos
		if eos {
			w.addEOS = &eos
		}
	}
	return w, nil
}

// setVocabulary sets the tokens of a byte-level vocabulary.
func (w *words) setVocabulary(vocab map[string]int32) error {
	size := int32(0)
	for text, id := range vocab {
		if id < 0 || id >= largest {
			return fmt.Errorf("%s has id %d", gguf.Printable(text, 40), id)
		}
		size = max(size, id+1)
	}
	w.tokens, w.types = make([]string, size), make([]int32, size)
	for text, id := range vocab {
		if w.tokens[id] != "" {
			return fmt.Errorf("%s and %s have one id, %d", gguf.Printable(text, 40), gguf.Printable(w.tokens[id], 40), id)
		}
		w.tokens[id], w.types[id] = text, typeNormal
	}
	return nil
}

// templateMarks are the special tokens that a post-processor puts in front of a text and behind it, "" for none; nil if
// it does not say.
func templateMarks(raw json.RawMessage) (marks *[2]string, err error) {
	type processor struct {
		Type       string `json:"type"`
		Processors []json.RawMessage
		Single     []struct {
			SpecialToken *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
		} `json:"single"`
	}
	var p processor
	if json.Unmarshal(raw, &p) != nil {
		return nil, nil
	}
	for _, sub := range p.Processors {
		if marks, err := templateMarks(sub); marks != nil || err != nil {
			return marks, err
		}
	}
	if p.Type != "TemplateProcessing" || len(p.Single) == 0 {
		return nil, nil
	}
	marks = new([2]string)
	behind := 0
	for _, part := range p.Single {
		switch {
		case part.SpecialToken == nil && behind == 1, part.SpecialToken != nil && marks[behind] != "":
			return nil, errors.New("post_processor: more than a text with one special token in front and one behind is not " +
				"supported")
		case part.SpecialToken == nil:
			behind = 1
		default:
			marks[behind] = part.SpecialToken.ID
		}
	}
	return marks, nil
}
