package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
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
	model, pre    string
	tokens        []string
	types         []int32
	scores        []float32
	merges        []string
	ids           map[string]int32
	addBOS        *bool
	addEOS        *bool
	around        [2]string // tokens that a post-processor puts in front of a text and behind it; "": none
	addPrefix     *bool
	squeeze       *bool            // remove_extra_whitespaces
	charsmap      []byte           // of a unigram model
	addSEP        *bool            // between the texts of a pair
	unknown       string           // WordPiece's token for words of no pieces
	lower         bool             // WordPiece makes texts lower case
	pieces        int              // of a unigram model, before tokens were added
	own           int              // of pieces with merges: tokens before others were added
	rows          int              // of the model's embedding: vocab_size
	beyond        map[int32]string // added tokens that it has no rows for
	whole         bool             // words that are tokens are not merged
	note          string           // what is left out; "" if nothing is
	stripsAccents *bool            // WordPiece drops accents; nil: where texts are made lower case
	beside        string           // an added token of which it matters what stands beside it; "" if there is none
}

// addedToken is an entry of added_tokens or added_tokens_decoder.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	LStrip     bool   `json:"lstrip"` // it takes the white space in front of it
	RStrip     bool   `json:"rstrip"` // and that behind it
	SingleWord bool   `json:"single_word"`
}

// beside reports whether what stands beside the token matters.
func (t addedToken) beside() bool { return t.LStrip || t.RStrip || t.SingleWord }

// readTokenizer makes the keys tokenizer.* of the first of these files that is in dir: tokenizer.model or spiece.model
// (SentencePiece), tokenizer.json, vocab.json with merges.txt, vocab.txt (WordPiece). Ids without a token are
// named [PADid].
func readTokenizer(dir string, b *builder) ([]gguf.KV, error) {
	c, vocab := b.config, b.vocab
	settings, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	w, file, err := readWords(dir, b)
	if err != nil {
		return nil, err
	}
	if err := w.addFile(filepath.Join(dir, "added_tokens.json")); err != nil {
		return nil, err
	}
	if w.model == "llama" {
		if err := w.addJSON(filepath.Join(dir, "tokenizer.json"), file); err != nil {
			return nil, err
		}
	}
	for id, t := range settings.added {
		if err := w.place(file, id, t); err != nil {
			return nil, err
		}
	}
	if left := slices.Sorted(maps.Keys(w.beyond)); left != nil {
		b.note("the added token %s and all behind it are left out: the model has no rows for them (vocab_size %d)",
			gguf.Printable(w.beyond[left[0]], 40), vocab)
	}
	if w.model == "t5" {
		if err := w.extraIDs(settings); err != nil {
			return nil, err
		}
	}
	switch w.model {
	case "llama":
		w.spellSpaces()
	case "gemma4":
		w.showMarks()
	}
	if w.model == "bert" {
		if err := w.normalizes(settings, b.lowers != ""); err != nil {
			return nil, err
		}
	} else if b.lowers != "" {
		return nil, fmt.Errorf("%s: do_lower_case: GGUF's %s tokenizer takes texts as they are", b.lowers, w.model)
	}
	if no := false; w.model == "gpt2" && w.pre == "gpt-2" && *settings.flag("add_prefix_space", &no) {
		return nil, fmt.Errorf("%s: add_prefix_space: GGUF's %s tokenizer puts no space in front of a text", settings.file,
			w.model)
	}
	if name := strings.ToLower(nameOf(dir)); w.beside != "" && !strings.Contains(name, "phi-3") &&
		!strings.Contains(name, "phi3") { // by which its vocabulary is told
		b.note("white space beside added tokens, %s for one, stays, and they are found in words (lstrip, rstrip, "+
			"single_word): GGUF has no keys for that", gguf.Printable(w.beside, 40))
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
	ends, err := w.ends(dir, c, settings)
	if err != nil {
		return nil, err
	}
	for i, name := range []string{"bos_token", "eos_token"} {
		text := settings.text(name)
		switch {
		case w.around[i] == "" || text == "" || text == w.around[i]:
		case i == 0 || strings.Contains(settings.template, name):
			return nil, fmt.Errorf("%s: post_processor: it puts %s around a text where GGUF has the %s, %s", file,
				gguf.Printable(w.around[i], 40), name, gguf.Printable(text, 40))
		default: // what ends each text is GGUF's EOS, and what ends an answer another end
			if id, ok := w.ids[text]; ok {
				ends = append([]int32{id}, slices.DeleteFunc(ends, func(e int32) bool { return e == id })...)
			}
		}
	}
	special := []struct{ key, name, text string }{{"bos", "bos_token", w.around[0]}, {"eos", "eos_token", w.around[1]},
		{"unknown", "unk_token", w.unknown}, {"padding", "pad_token", ""}}
	if b.encodes {
		special = append(special, []struct{ key, name, text string }{{"seperator", "sep_token", w.around[1]},
			{"cls", "cls_token", w.around[0]}, {"mask", "mask_token", ""}}...) // so they are spelled in the format
	}
	for _, mark := range special {
		id := int32(-1)
		if text := cmp.Or(mark.text, settings.text(mark.name)); text != "" {
			var ok bool
			if id, ok = w.ids[text]; !ok && mark.key == "padding" &&
				slices.Contains(slices.Collect(maps.Values(w.beyond)), text) {
				continue // nothing is padded here
			} else if !ok {
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
		if i < len(ends) {
			add(key, uint32(ends[i]))
		}
	}
	if len(ends) > 2 {
		b.note("of the tokens that end a text %d, %s for one, are left out: GGUF has keys for three", len(ends)-2,
			gguf.Printable(w.tokens[ends[2]], 40))
	}
	absent := bpe.Defaults(w.model, w.pre) // ids that a file without their keys has
	for _, mark := range []struct {
		key, name string
		on        *bool
		id        int32
	}{{"bos", "bos_token", w.addBOS, absent.BOS}, {"eos", "eos_token", w.addEOS, max(absent.EOS, absent.SEP)}} {
		on := settings.flag("add_"+mark.name, mark.on)
		if on == nil {
			continue
		}
		has := func(kv gguf.KV) bool { return kv.Key == "tokenizer.ggml."+mark.key+"_token_id" }
		if *on && mark.id < 0 && !slices.ContainsFunc(kvs, has) {
			return nil, fmt.Errorf("%s: add_%s: each text gets a %s, and there is none", settings.file, mark.name, mark.name)
		}
		add("add_"+mark.name, *on)
	}
	if b.encodes && w.addSEP != nil {
		add("add_sep_token", *w.addSEP)
	}
	if b.tokenTypes > 0 {
		add("token_type_count", uint32(b.tokenTypes))
	}
	if w.model == "bert" {
		kvs = append(kvs, w.normalizerKeys()...)
	}
	if w.model == "llama" && !strings.HasPrefix(b.arch, "gemma") { // whose class has no such setting
		w.addPrefix = settings.flag("add_prefix_space", w.addPrefix)
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
	if b.answers != nil {
		if err := b.rank(file, w, settings); err != nil {
			return nil, err
		}
	}
	return append(kvs, settings.keys()...), nil
}

// spellSpaces writes the marks for spaces in user-defined tokens as spaces: such tokens are found in a text as it is,
// before its spaces become marks, and are written as they are.
func (w *words) spellSpaces() {
	for id, typ := range w.types {
		if typ == typeUser {
			w.tokens[id] = strings.ReplaceAll(w.tokens[id], "▁", " ")
		}
	}
}

// ends are the ids of tokens that end a text, but for some that the vocabulary does not have: config.json's, those that
// generation_config.json has besides, and the end of a turn.
func (w *words) ends(dir string, c *config, s *settings) (list []int32, err error) {
	all := idsOf(c, "eos_token_id")
	g, err := readConfig(filepath.Join(dir, "generation_config.json"))
	switch {
	case err == nil:
		all = append(all, idsOf(g, "eos_token_id")...)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if id, ok := w.ids[s.text("eot_token")]; ok {
		all = append(all, id)
	}
	seen := map[int32]bool{}
	for _, id := range all {
		if int(id) < len(w.tokens) && !seen[id] {
			seen[id] = true
			list = append(list, id)
		}
	}
	return list, nil
}

// marks is how many tokens of several characters may be the result of no merge, besides a hundredth of the merges:
// vocab.json has marks such as </s> and OPT's madeupword0000 among its tokens. As many may differ where a vocabulary
// stands in two files.
const marks = 16

// check refuses a vocabulary that a model could not be read with, and merges of which many are missing: a token of
// several characters is the result of a merge, unless the words of the vocabulary are not merged.
func (w *words) check() error {
	c := bpe.Defaults(w.model, w.pre)
	c.Tokens, c.Types, c.Scores, c.Merges, c.Charsmap = w.tokens, w.types, w.scores, w.merges, w.charsmap
	c.AddBOS, c.AddEOS, c.AddSEP = false, false, false // their ids are not known yet
	if w.model == "bert" {
		unknown, ok := w.ids[w.unknown]
		if c.BOS, c.SEP, c.UNK = -1, -1, unknown; !ok {
			return fmt.Errorf("the token for what is unknown, %s, is not in the vocabulary", gguf.Printable(w.unknown, 40))
		}
	}
	if _, err := bpe.New(c); err != nil && !errors.Is(err, bpe.ErrUnsupported) {
		return err
	}
	if w.model != "gpt2" || w.whole {
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

// place puts an added token where it belongs, or with those that the model has no rows for.
func (w *words) place(file string, id int32, t addedToken) error {
	if id < 0 || id >= largest {
		return fmt.Errorf("%s: added token %s: id %d", file, gguf.Printable(t.Content, 40), id)
	}
	if int(id) >= w.rows {
		if w.beyond == nil {
			w.beyond = map[int32]string{}
		}
		w.beyond[id] = t.Content
		return nil
	}
	if t.beside() && w.beside == "" {
		w.beside = t.Content
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

// placeAll adds the tokens that tokenizer.json adds.
func (w *words) placeAll(file string, added []addedToken) error {
	for _, t := range added {
		if err := w.place(file, t.ID, t); err != nil {
			return err
		}
	}
	return nil
}

// settings is what tokenizer_config.json says, and the chat templates.
type settings struct {
	file     string
	values   map[string]any
	added    map[int32]addedToken
	template string
	named    map[string]string // more templates, by names
}

func readSettings(dir string) (*settings, error) {
	s := &settings{file: filepath.Join(dir, "tokenizer_config.json"), added: map[int32]addedToken{},
		named: map[string]string{}}
	data, there, err := optionalFile(s.file)
	if there {
		err = s.parse(data)
	}
	if err != nil {
		return nil, err
	}
	return s, s.readTemplates(dir)
}

// optionalFile reads a file that need not be there.
func optionalFile(name string) (data []byte, there bool, err error) {
	data, err = os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	return data, err == nil, err
}

// optionalJSON reads such a file of JSON.
func optionalJSON(name string, to any) (there bool, err error) {
	data, there, err := optionalFile(name)
	if there {
		if err = json.Unmarshal(data, to); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return there, err
}

// parse reads tokenizer_config.json.
func (s *settings) parse(data []byte) error {
	if err := json.Unmarshal(data, &s.values); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	var more struct {
		Added map[string]addedToken `json:"added_tokens_decoder"`
	}
	if err := json.Unmarshal(data, &more); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	for key, t := range more.Added {
		var id int32
		if _, err := fmt.Sscanf(key, "%d", &id); err != nil {
			return fmt.Errorf("%s: added_tokens_decoder: %q is no id", s.file, gguf.Printable(key, 40))
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
			switch name, _ := m["name"].(string); {
			case name == "default":
				s.template = text
			case name != "":
				s.named[name] = text
			}
		}
	}
	return nil
}

// readTemplates reads the chat templates that have files of their own. Where there are some, those of
// tokenizer_config.json do not count.
func (s *settings) readTemplates(dir string) error {
	text, there, err := optionalFile(filepath.Join(dir, "chat_template.jinja"))
	if err != nil {
		return err
	}
	if there {
		s.template, s.named = string(text), map[string]string{}
	}
	more := filepath.Join(dir, "additional_chat_templates")
	entries, err := os.ReadDir(more)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), ".jinja")
		if !is {
			continue
		}
		text, err := os.ReadFile(filepath.Join(more, e.Name()))
		if err != nil {
			return err
		}
		s.named[name] = string(text)
	}
	if s.template != "" {
		return nil
	}
	file := filepath.Join(dir, "chat_template.json") // of models that see or hear, too
	var one struct {
		Template string `json:"chat_template"`
	}
	_, err = optionalJSON(file, &one)
	s.template = one.Template
	return err
}

// keys are the chat templates' keys.
func (s *settings) keys() (kvs []gguf.KV) {
	const key = "tokenizer.chat_template"
	if s.template != "" {
		kvs = append(kvs, gguf.KV{Key: key, Value: s.template})
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.named)) {
		as := strings.Map(func(r rune) rune {
			if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
				return r
			}
			return '_'
		}, name)
		names, kvs = append(names, as), append(kvs, gguf.KV{Key: key + "." + as, Value: s.named[name]})
	}
	if names != nil {
		kvs = append(kvs, gguf.KV{Key: key + "s", Value: names})
	}
	return kvs
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
	rows          int             // of the model's embedding
	byMerges      bool            // GGUF's tokenizer of the model merges characters by merges
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
		Unknown      *string           `json:"unk_token"`
		LongestWord  *int              `json:"max_input_chars_per_word"` // of WordPiece
		UnkID        *int32            `json:"unk_id"`                   // of a unigram model, whose vocab is a list of pairs
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
	Split          *bool  `json:"split"` // of Metaspace: words are cut
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
	case "Punctuation":
		return "Punctuation " + s.Behavior
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
	seedRule     = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenRule   = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+|[^\r\n\p{L}\p{N}]?` + upper + `+` + lower + `*|\p{N}` +
		caseTail
	gpt4oRule = `[^\r\n\p{L}\p{N}]?` + upper + `*` + lower + `+` + contractions + `?|[^\r\n\p{L}\p{N}]?` + upper +
		`+` + lower + `*` + contractions + `?|\p{N}{1,3}` + caseTail
	deepSeekV3Rule = `\p{N}{1,3} | [一-龥぀-ゟ゠-ヿ]+ | [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" +
		`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	ling2Rule    = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
	tinyAyaRule  = `\d{1,3}(?=(?:\d{3})*\b) | ` + gpt4oRule
	miniCPM5Rule = `\p{N}{1,3} | ` + contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+` + tail

	// cased letters, and what DeepSeek's first two rules cut behind words
	deepSeekLetters = `A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-Ჺ` +
		`Ჽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓ` +
		`ℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ` +
		`𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃`
	deepSeekEnd       = ` | [一-龥ࠀ-一가-퟿]+ | digits`
	deepSeekCoderRule = `[\r\n] | \s?\p{L}+ | \s?\p{P}+` + deepSeekEnd
	deepSeekLLMRule   = `[\r\n] | \s?[` + deepSeekLetters + `]+ | \s?[!-/:-~！-／：-～‘-‟　-。]+ | \s+$` + deepSeekEnd
)

// preTokenizers names tokenizer.ggml.pre by a pre-tokenizer's signature. Llama 3's rule and GPT-4o's have two names:
// whole words that are tokens are not merged (ignore_merges) under one of them.
var preTokenizers = map[string]string{
	"gpt-2":          "gpt-2",
	"digits | gpt-2": "smollm",
	llama3Rule:       "dbrx",
	qwen2Rule:        "qwen2",
	qwen35Rule:       "qwen35",
	tekkenRule:       "tekken",
	gpt4oRule:        "gpt-4o",
	deepSeekV3Rule:   "deepseek-v3",
	ling2Rule:        "bailingmoe2",
	seedRule:         "seed-coder",
	tinyAyaRule:      "tiny_aya",
	miniCPM5Rule:     "minicpm5",

	deepSeekLLMRule:   "deepseek-llm",
	deepSeekCoderRule: "deepseek-coder",

	"Punctuation Contiguous | gpt-2 | Digits | [0-9][0-9][0-9]": "falcon",
}

// lineBreaks writes those that a rule has as characters as the others do.
var lineBreaks = strings.NewReplacer("\r", `\r`, "\n", `\n`)

// readTokenizerJSON reads a byte-level BPE, SentencePiece's as merges or, for models that may have them, a unigram
// model or WordPiece.
func readTokenizerJSON(file string, b *builder) (*words, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("no tokenizer: %w", err)
	}
	fail := func(format string, args ...any) (*words, error) {
		return nil, fmt.Errorf("%s: %s", file, fmt.Sprintf(format, args...))
	}
	t := tokenizerJSON{rows: b.vocab, byMerges: b.arch == "gemma4"}
	if err := json.Unmarshal(data, &t); err != nil {
		return fail("%v", err)
	}
	read := map[string]func(file string) (*words, error){}
	if b.unigram || b.encodes {
		read["Unigram"] = t.unigram
	}
	if b.encodes {
		read["WordPiece"] = t.wordPieces
	}
	if read := read[t.Model.Type]; read != nil {
		w, err := read(file)
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
	for name, text := range map[string]*string{
		"continuing_subword_prefix": t.Model.Prefix, "end_of_word_suffix": t.Model.Suffix} {
		if text != nil && *text != "" {
			return fail("model.%s %q is not supported", name, gguf.Printable(*text, 40))
		}
	}
	if t.Model.Dropout != nil && *t.Model.Dropout != 0 {
		return fail("model.dropout is not supported")
	}
	if t.Model.ByteFallback {
		w, err := t.mergedPieces(file, vocab)
		if err == nil {
			err = w.setMarks(t.PostProcessor)
		}
		if err != nil {
			return fail("%v", err)
		}
		return w, nil
	}
	composes, err := composition(t.Normalizer)
	if err != nil {
		return fail("%v", err)
	}
	if t.PreTokenizer == nil {
		return fail("no pre_tokenizer")
	}
	signature := lineBreaks.Replace(t.PreTokenizer.signature())
	pre, ok := preTokenizers[signature]
	if !ok {
		return fail("pre_tokenizer %s is not known", gguf.Printable(signature, 200))
	}
	switch {
	case !t.Model.IgnoreMerges && pre == "minicpm5":
		return fail("model.ignore_merges false with pre-tokenizer %s is not supported", pre)
	case !t.Model.IgnoreMerges, pre == "tekken", pre == "minicpm5": // ignores them under this name
	case pre == "dbrx":
		pre = "llama-bpe"
	case pre == "gpt-4o":
		pre = "granite-embed-multi-97m"
	default:
		return fail("model.ignore_merges with pre-tokenizer %s is not supported", pre)
	}
	w := &words{model: "gpt2", pre: pre, rows: t.rows, merges: []string{}, whole: t.Model.IgnoreMerges}
	if composes {
		w.note = "characters are not composed (NFC), as tokenizer.json has it: GGUF's tokenizers take a text as it is"
	}
	if err := w.setVocabulary(vocab); err != nil {
		return fail("model.vocab: %v", err)
	}
	for _, text := range w.tokens {
		if pre == "deepseek-llm" && len(text) > 1 && strings.Trim(text, "0123456789") == "" {
			return fail("token %s: GGUF's deepseek-llm would make one of digits that stand apart in tokenizer.json", text)
		}
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
	if err := w.placeAll(file, t.Added); err != nil {
		return nil, err
	}
	if err := w.setMarks(t.PostProcessor); err != nil {
		return fail("%v", err)
	}
	return w, nil
}

// setMarks sets what a post-processor puts around a text.
func (w *words) setMarks(processor json.RawMessage) error {
	marks, between, err := templateMarks(processor)
	if err != nil {
		return err
	}
	if between > 0 {
		two := between == 2
		w.addSEP = &two
	}
	if marks == nil && bpe.Defaults(w.model, w.pre).AddBOS {
		marks = new([2]string) // nothing is put around a text
	}
	if marks != nil {
		bos, eos := marks[0] != "", marks[1] != ""
		w.around, w.addBOS = *marks, &bos
		if eos {
			w.addEOS = &eos
		}
	}
	return nil
}

// composition reports whether a normalizer composes characters (NFC); it is an error if it does anything else.
func composition(raw json.RawMessage) (composes bool, err error) {
	list, err := normalizerSteps(raw)
	for _, n := range list {
		if n.Type != "NFC" {
			return false, n.unsupported()
		}
	}
	return len(list) > 0, err
}

// normalizerStep is a normalizer of tokenizer.json but those in sequence, and WordPiece's.
type normalizerStep struct {
	Type     string            `json:"type"`
	Steps    []json.RawMessage `json:"normalizers"` // of a sequence
	Charsmap string            `json:"precompiled_charsmap"`
	Prepend  string            `json:"prepend"`
	Content  string            `json:"content"`
	Pattern  struct {
		Regex  string `json:"Regex"`
		String string `json:"String"`
	} `json:"pattern"`

	raw string
}

// normalizerSteps are what a normalizer does, one after the other.
func normalizerSteps(raw json.RawMessage) (list []normalizerStep, err error) {
	var n *normalizerStep
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	switch {
	case n == nil:
		return nil, nil
	case n.Type != "Sequence":
		n.raw = string(raw)
		return []normalizerStep{*n}, nil
	}
	for _, step := range n.Steps {
		more, err := normalizerSteps(step)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

func (n *normalizerStep) unsupported() error {
	return fmt.Errorf("normalizer %s is not supported", gguf.Printable(n.raw, 80))
}

// setVocabulary sets the tokens of a byte-level vocabulary.
func (w *words) setVocabulary(vocab map[string]int32) error {
	size, last := 0, ""
	for text, id := range vocab {
		if id < 0 {
			return fmt.Errorf("%s has id %d", gguf.Printable(text, 40), id)
		}
		if int(id) >= size {
			size, last = int(id)+1, text
		}
	}
	if size > w.rows {
		return fmt.Errorf("%s has id %d, vocab_size in config.json is %d", gguf.Printable(last, 40), size-1, w.rows)
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

// A processor is what stands at post_processor.
type processor struct {
	Type       string            `json:"type"`
	Processors []json.RawMessage `json:"processors"`
	Single     []templatePart    `json:"single"`
	Pair       []templatePart    `json:"pair"`
	CLS        []any             `json:"cls"` // of BertProcessing and RobertaProcessing: a token and its id
	SEP        []any             `json:"sep"`
}

// A templatePart is a text, or a special token beside texts.
type templatePart struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
}

// templateMarks are the special tokens that a post-processor puts in front of a text and behind it, "" for none; nil if
// it does not say. between is how many it puts between the texts of a pair, 0 if it does not say.
func templateMarks(raw json.RawMessage) (marks *[2]string, between int, err error) {
	var p processor
	if json.Unmarshal(raw, &p) != nil {
		return nil, 0, nil
	}
	for _, sub := range p.Processors {
		if marks, between, err := templateMarks(sub); marks != nil || err != nil {
			return marks, between, err
		}
	}
	if fixed := map[string]int{"BertProcessing": 1, "RobertaProcessing": 2}[p.Type]; fixed > 0 {
		marks = new([2]string)
		for i, token := range [][]any{p.CLS, p.SEP} {
			if len(token) > 0 {
				marks[i], _ = token[0].(string)
			}
			if marks[i] == "" {
				return nil, 0, fmt.Errorf("post_processor: %s without tokens cls and sep", p.Type)
			}
		}
		return marks, fixed, nil
	}
	if p.Type != "TemplateProcessing" || len(p.Single) == 0 {
		return nil, 0, nil
	}
	marks = new([2]string)
	behind := 0
	for _, part := range p.Single {
		switch {
		case part.SpecialToken == nil && behind == 1, part.SpecialToken != nil && marks[behind] != "":
			return nil, 0, errors.New("post_processor: more than a text with one special token in front and one behind is " +
				"not supported")
		case part.SpecialToken == nil:
			behind = 1
		default:
			marks[behind] = part.SpecialToken.ID
		}
	}
	texts := 0
	for _, part := range p.Pair {
		switch {
		case part.SpecialToken == nil:
			texts++
		case texts == 1:
			between++
		}
	}
	return marks, between, nil
}
