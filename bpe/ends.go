package bpe

import "slices"

// endMarks are tokens that end a generation, whatever a file says of their type:
// files exist that call them normal tokens. They become control tokens.
var endMarks = []string{
	"<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>",
	"<|calls|>", "<|flush|>", "<end_of_turn>", "<turn|>", "<|tool_response>", "<end_of_utterance>",
	"<｜end▁of▁sentence｜>", "[e~[",
}

// controlEndMarks end a generation where the file says that they are control tokens.
// Elsewhere they are text: "</s>" is HTML.
var controlEndMarks = []string{"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"}

// findEnds sets t.eog: EOS, the ids that the configuration names, and the well-known
// marks.
func (t *Tokenizer) findEnds(configured []int32) {
	if t.eos >= 0 {
		t.eog = append(t.eog, t.eos)
	}
	t.eog = append(t.eog, configured...)
	for _, s := range endMarks {
		if id, ok := t.ids[s]; ok {
			t.types[id] = TypeControl
			t.eog = append(t.eog, id)
		}
	}
	for _, s := range controlEndMarks {
		if id, ok := t.ids[s]; ok && t.types[id] == TypeControl {
			t.eog = append(t.eog, id)
		}
	}
	if id, ok := t.ids["<|end|>"]; ok && t.harmony() && id != t.eos { // whatever the file says of the end of a turn
		t.eog = slices.DeleteFunc(t.eog, func(x int32) bool { return x == id })
	}
	if end, ok := t.museEnd(); ok { // likewise, and of Llama 4's token of that name, which Muse Glimmer has
		t.eog = slices.DeleteFunc(t.eog, func(x int32) bool { return x == t.ids["<|eom|>"] && x != t.eos })
		t.eog = append(t.eog, end)
	}
	slices.Sort(t.eog)
	t.eog = slices.Compact(t.eog)
}

// museEnd is the end of a turn of vocabularies that have the marks of Muse Glimmer's messages, where <|eom|> ends a
// message and the turn goes on with the next.
func (t *Tokenizer) museEnd() (end int32, ok bool) {
	for _, s := range []string{"<|start|>", "<|message|>", "<|eom|>", "<|eot|>"} {
		if end, ok = t.ids[s]; !ok {
			return 0, false
		}
	}
	return end, true
}

// harmony says whether the vocabulary has the marks of the harmony format (gpt-oss),
// where <|end|> ends a message and the turn goes on with the next.
func (t *Tokenizer) harmony() bool {
	has := func(s string) bool { _, ok := t.ids[s]; return ok }
	return (has("<|call|>") || has("<|calls|>")) && (has("<|return|>") || has("<|flush|>"))
}
