package serve

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
)

// kind says what becomes of a field. What is in no table is refused by name.
type kind int

const (
	honored  kind = iota // the answer depends on it as documented
	accepted             // read for its type or not at all: the answer does not depend on it
)

func (k kind) String() string { return [...]string{"honored", "accepted"}[k] }

// forms are the forms of bodies, as a set.
type forms uint

const (
	formChat forms = 1 << iota
	formCompletion
	formResponses
	formMessages // of Anthropic's API
	formEmbeddings
	formRerank
	formTEI       // embeddings in the form of text-embeddings-inference
	formEmbedding // of llama.cpp's /embedding
	formTokenize
	formDetokenize
	formTemplate
	formNative // of llama.cpp's /completion
	formInfill
	formOllamaChat
	formOllamaGenerate
	formOllamaEmbed
	formOllamaEmbeddings
	formOllamaShow
	formOllamaPull
	formOllamaDelete
	formOllamaCopy
	formOllamaCreate
	formSlots         // of llama.cpp's /slots/ID
	formRoute         // of llama.cpp's /models/load and /models/unload
	formOllamaOptions // the object "options" of Ollama's bodies

	formOpenAI = formChat | formCompletion | formResponses
	formLlama  = formNative | formInfill
	formText   = formChat | formCompletion | formLlama // with llama.cpp's sampling fields
	formOllama = formOllamaChat | formOllamaGenerate
	formManage = formOllamaPull | formOllamaDelete | formOllamaCreate // of one model
	formAll    = formOllamaOptions - 1
)

// formNames are the paths of the forms, in the order of their bits.
var formNames = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
	"/v1/embeddings", "/v1/rerank", "/embed", "/embedding", "/tokenize", "/detokenize",
	"/apply-template", "/completion", "/infill", "/api/chat", "/api/generate", "/api/embed",
	"/api/embeddings", "/api/show",
	"/api/pull", "/api/delete", "/api/copy", "/api/create", "/slots/ID", "/models/load",
	"options of /api/…"}

func (f forms) String() string {
	var list []string
	for i, n := range formNames {
		if f&(1<<i) != 0 {
			list = append(list, n)
		}
	}
	return strings.Join(list, " ")
}

// field is one line of the table: what a body of some forms may hold. read puts it into the request; nil reads nothing.
type field struct {
	name string
	kind kind
	in   forms
	doc  string
	read func(r *request, v value) *Error
}

// fields is every field that this server knows. The documentation's table is made of it.
var fields = append([]field{
	{"model", honored, formAll &^ formOllamaCopy, "name of the model; with one model loaded any name is accepted",
		func(r *request, v value) (e *Error) { r.model, e = v.text(); return }},

	{"messages", honored, formChat | formTemplate, "the conversation; content is text, or a list of parts of type text",
		readMessages},
	{"messages", honored, formOllamaChat, "the conversation; without any the model is loaded, and no more",
		func(r *request, v value) *Error {
			if list, err := v.list(); err == nil && len(list) == 0 {
				r.messages = []chat.Message{}
				return nil
			}
			return r.readMessages(v, false)
		}},
	{"tools", honored, formChat | formTemplate | formOllamaChat, "functions that the model may call", readTools},
	{"tools", honored, formResponses, "functions, in the flat form of this API; tools of other types, as web_search, " +
		"are left out", readFlatTools},
	{"messages", honored, formMessages, "the conversation: content is text, or blocks of type text," +
		" thinking, tool_use and tool_result, whose content is text, or parts of type text and tool_reference (the name of " +
		"one of tools, which are all told from the beginning)", readAnthropicMessages},
	{"system", honored, formMessages, "the system message: a text, or parts of type text", readSystem},
	{"tools", honored, formMessages, "functions: name, description, input_schema, input_examples (told behind the " +
		"description); tools of other types are refused",
		readAnthropicTools},
	{"tool_choice", honored, formMessages, `{"type": "auto"}, any, none, or tool with a name; disable_parallel_tool_use`,
		readAnthropicChoice},
	{"thinking", honored, formMessages, "enabled, adaptive or disabled: given to the chat template as enable_thinking; " +
		"a budget holds where the reasoning has a mark that ends it and nothing else constrains the answer",
		readThinking},
	{"output_config", honored, formMessages, "effort, given to the chat template as reasoning_effort; format: a JSON " +
		"Schema",
		readOutputConfig},
	{"output_format", honored, formMessages, "as output_config.format, an older name", readOutputFormat},
	{"inference_geo", accepted, formMessages, "the server is where it is", nil},
	{"stop_sequences", honored, formMessages, "up to 16 texts that end the answer, and are not part of it", readStop},
	{"metadata", accepted, formMessages, "nothing is stored", nil},
	{"service_tier", accepted, formMessages, "there is one", nil},
	{"cache_control", accepted, formMessages, "common beginnings of prompts are found without it", nil},

	{"tool_choice", honored, formChat | formResponses, `"auto", "none", "required", one function, or ` +
		"allowed_tools with mode (auto or required) and tools: the model is told of those alone", readToolChoice},
	{"chat_template_kwargs", honored, formChat | formTemplate,
		"variables for the chat template, as {\"enable_thinking\": false}", readKwargs},
	{"clock", honored, formChat | formTemplate | formResponses | formMessages | formOllamaChat, "the time that the chat " +
		"template reads, as \"2026-01-31T12:00:00Z\" (default: now)", func(r *request, v value) *Error {
		s, err := v.text()
		if err != nil {
			return err
		}
		t, wrong := time.Parse(time.RFC3339, s)
		if wrong != nil || t.IsZero() {
			return v.bad("must be a time as RFC 3339 has it")
		}
		r.clock = t
		return nil
	}},
	{"enable_thinking", honored, formChat, "given to the chat template as the variable of that name",
		func(r *request, v value) *Error {
			on, err := v.boolean()
			r.setKwarg("enable_thinking", on)
			return err
		}},
	{"reasoning_format", honored, formChat, "only auto and deepseek: reasoning is apart from content, in " +
		"reasoning_content",
		func(r *request, v value) *Error { _, err := v.oneOf("auto", "deepseek"); return err }},
	{"thinking_budget", honored, formChat, "most tokens of reasoning, which is ended then; 0: enable_thinking is false; " +
		"-1: any number", readThinkingBudget},
	{"thinking_budget_tokens", honored, formChat, "the same, llama.cpp's name", readThinkingBudget},
	{"reasoning_budget_tokens", honored, formChat, "the same", readThinkingBudget},
	{"reasoning_budget", honored, formChat, "the same", readThinkingBudget},
	{"reasoning_control", accepted, formChat, "nothing ends reasoning while it is written", nil},
	{"parse_tool_calls", honored, formChat, "only true", onlyTrue},
	{"continue_final_message", honored, formChat | formTemplate, "true: the answer goes on with the last message, or " +
		"with its reasoning where it has no content; false: it is a new one (default: it goes on " +
		"where that is a text of the assistant)",
		func(r *request, v value) (e *Error) {
			r.goOn, e = v.boolean()
			r.whole = !r.goOn
			return
		}},
	{"reasoning_effort", honored, formChat, "given to the chat template as the variable of that name; none: " +
		"enable_thinking is false too", readEffort},
	{"add_generation_prompt", honored, formChat, "only true, or false with continue_final_message",
		func(r *request, v value) (e *Error) { r.genTail, e = v.boolean(); r.begun = r.genTail; return }},
	{"add_generation_prompt", honored, formTemplate, "false: the text does not end where an answer begins",
		func(r *request, v value) (e *Error) { r.genTail, e = v.boolean(); return }},

	{"prompt", honored, formCompletion | formNative, "a text, token ids, an array of both in a row, or an array of " +
		"these; also {\"prompt_string\": a text}",
		readPrompts},
	{"suffix", honored, formCompletion | formOllamaGenerate, "the text behind the gap that the answer fills, for " +
		"models trained for it", func(r *request, v value) (e *Error) { r.suffix, e = v.text(); return }},
	{"prompt", honored, formInfill, "the beginning of the line of the gap, behind input_prefix", readPrompt},
	{"input_prefix", honored, formInfill, "the text in front of the gap, or an array of token ids and texts",
		func(r *request, v value) (e *Error) { r.inputPrefix, r.before, e = readSide(v); return }},
	{"input_suffix", honored, formInfill, "likewise behind it",
		func(r *request, v value) (e *Error) { r.suffix, r.behind, e = readSide(v); return }},
	{"input_extra", honored, formInfill, "texts of other files: filename and text", readExtra},
	{"n_probs", honored, formLlama, "log-probabilities of each token and of so many alternatives, up to 20; 0 is off",
		func(r *request, v value) *Error {
			n, err := v.whole(0, maxTop)
			r.logprobs, r.top = n > 0, int(n)
			return err
		}},
	{"response_fields", honored, formLlama, "paths of the fields of the answer that are wanted, as " +
		"generation_settings/seed; of a stream those of its last piece", readResponseFields},
	{"post_sampling_probs", honored, formLlama, "true: n_probs are probabilities after penalties, filters and " +
		"temperature, as prob and top_probs",
		func(r *request, v value) (e *Error) { r.chosen, e = v.boolean(); return }},
	{"backend_sampling", accepted, formText, "tokens are chosen in one place", nil},
	{"return_tokens", honored, formLlama, "true: the whole answer has the ids of its tokens; a stream always has",
		func(r *request, v value) (e *Error) { r.returnTokens, e = v.boolean(); return }},
	{"n_keep", honored, formLlama, "where when_full drops: the prompt's first tokens that stay; -1: all, and what " +
		"does not fit is refused", readKeep},
	{"when_full", honored, formText | formResponses | formOllama | formMessages, "what becomes of a prompt that leaves " +
		"the context too little room: stop refuses it; drop takes the oldest turns of a conversation, or the middle of a " +
		"text, until half of the context is free (default: --when-full)", readWhenFull},
	{"n_discard", accepted, formLlama, "what is cut frees half of the context", nil},
	{"min_keep", honored, formLlama, "only 0", onlyNumber(0)},
	{"n_indent", honored, formLlama, "the answer ends in front of a line, behind its first, that begins with fewer " +
		"spaces and tabs; 0 is off", func(r *request, v value) *Error {
		n, err := v.whole(0, math.MaxInt32)
		r.lines.Indent = int(n)
		return err
	}},
	{"t_max_predict_ms", honored, formLlama, "the answer ends when so many milliseconds have passed since its first " +
		"token, if it has more than a line then; 0 and -1 are off", func(r *request, v value) *Error {
		n, err := v.whole(-1, math.MaxInt32)
		r.lines.Within = time.Duration(max(0, n)) * time.Millisecond
		return err
	}},
	{"t_max_prompt_ms", accepted, formLlama, "prompts are read whole, as llama.cpp does", nil},
	{"echo", honored, formCompletion, "true: the text of the answer begins with the prompt, and logprobs with its tokens",
		func(r *request, v value) (e *Error) { r.echo, e = v.boolean(); return }},
	{"best_of", honored, formChat | formCompletion, "only 1", onlyNumber(1)},

	{"input", honored, formResponses, "a text, or a list of messages, reasoning, function_call and " +
		"function_call_output items", readResponsesInput},
	{"instructions", honored, formResponses, "the system message",
		func(r *request, v value) (e *Error) { r.instructions, e = v.text(); return }},
	{"text", honored, formResponses, "format: text, json_object or json_schema", readResponsesText},
	{"max_output_tokens", honored, formResponses, "most tokens of the answer",
		func(r *request, v value) *Error { return r.setMax(v, false) }},
	{"truncation", honored, formResponses, `"disabled" or "auto": as when_full stop and drop`,
		func(r *request, v value) *Error {
			s, err := v.oneOf("disabled", "auto")
			if r.whenFull = spec.FullStop; s == "auto" {
				r.whenFull = spec.FullDrop
			}
			return err
		}},
	{"background", honored, formResponses, "only false", onlyFalse},
	{"reasoning", honored, formResponses, "effort, given to the chat template as reasoning_effort; none: " +
		"enable_thinking is false too", readReasoning},

	{"input", honored, formEmbeddings | formEmbedding, "a text or an array of texts; here also token ids", readInputs},
	{"input", honored, formOllamaEmbed, "the same; none, an empty text or an empty array only loads the model",
		func(r *request, v value) *Error {
			if v.isArray() && len(bytes.TrimSpace(v.raw[1:len(v.raw)-1])) == 0 {
				return nil
			}
			return readInputs(r, v)
		}},
	{"content", honored, formEmbedding, "as input, another name", readInputs},
	{"encoding_format", honored, formEmbeddings, `"float" or "base64"`, func(r *request, v value) *Error {
		s, err := v.oneOf("float", "base64")
		r.base64 = s == "base64"
		return err
	}},
	{"pooling", honored, formEmbeddings | formEmbedding | formOllamaEmbed | formOllamaEmbeddings,
		`how hidden states become one vector: "mean", "last" or "cls" (default: the server's, then the file's); ` +
			`"none", of /embedding: each token's own, of no norm`,
		func(r *request, v value) (e *Error) {
			r.pooling, e = v.oneOf(append(spec.Poolings(), spec.PoolNone)...)
			return
		}},
	{"inputs", honored, formTEI, "a text or an array of texts, or of token ids", readInputs},
	{"normalize", honored, formTEI, "true: vectors of length 1; false: as they are pooled (default: --embd-normalize)",
		func(r *request, v value) *Error {
			on, err := v.boolean()
			if r.norm = spec.NormL2; !on {
				r.norm = spec.NormNone
			}
			return err
		}},
	{"embd_normalize", honored, formEmbeddings | formEmbedding | formOllamaEmbed | formOllamaEmbeddings,
		"llama.cpp's numbers: 2 vectors of length 1, 1 their absolute values sum to 1, " +
			"0 the greatest absolute value is 32760, -1 as they are pooled (default: --embd-normalize)", readNorm},
	{"truncate", honored, formOllamaEmbed | formTEI, "only false, or true for texts that fit: a text that does not fit " +
		"the context is refused", func(r *request, v value) *Error { _, err := v.boolean(); return err }},

	{"stream", honored, formOpenAI | formLlama | formOllama | formMessages | formOllamaPull | formOllamaCreate,
		"true: the answer comes piece by piece (Ollama's default)",
		func(r *request, v value) (e *Error) { r.stream, e = v.boolean(); return }},
	{"sse_ping_interval", honored, formText, "seconds without an event after which a stream has a comment; 0 and -1: " +
		"never (default: --sse-ping-interval)", func(r *request, v value) *Error {
		n, err := v.whole(-1, anyNumber)
		r.ping = time.Duration(max(n, 0)) * time.Second
		return err
	}},
	{"stream_options", honored, formChat | formCompletion, "include_usage: a last chunk with usage", readStreamOptions},
	{"max_tokens", honored, formChat, "most tokens of the answer; -1 is as many as fit",
		func(r *request, v value) *Error { return r.setMax(v, true) }},
	{"max_tokens", honored, formCompletion, "the same; 0: the answer has nothing but what echo asks for",
		readNoneOrMax},
	{"max_tokens", honored, formMessages, "most tokens of the answer",
		func(r *request, v value) *Error { return r.setMax(v, false) }},
	{"max_completion_tokens", honored, formChat, "the same",
		func(r *request, v value) *Error { return r.setMax(v, true) }},
	{"n_predict", honored, formChat | formCompletion, "the same, llama.cpp's name",
		func(r *request, v value) *Error { return r.setMax(v, true) }},
	{"n_predict", honored, formLlama, "the same; 0: the prompt is read and kept, and the answer is empty", readNoneOrMax},
	{"n", honored, formText, "answers, to each prompt; answer i has the seed + i", readChoices},
	{"n_cmpl", honored, formLlama, "as n, llama.cpp's name", readChoices},
	{"stop", honored, formText | formOllamaOptions, "a text or up to 16 that end the answer, and are not part of it",
		readStop},
	{"min_tokens", honored, formText, "the answer does not end before, but by stop or its grammar",
		func(r *request, v value) *Error {
			n, err := v.whole(0, anyNumber)
			r.minTokens = int(n)
			return err
		}},
	{"stop_token_ids", honored, formChat | formCompletion, "tokens that end the answer beside the model's own",
		func(r *request, v value) (e *Error) { r.ends, e = v.ids(); return }},
	{"include_stop_str_in_output", honored, formChat | formCompletion, "true: the text of stop that ended the answer is " +
		"the end of it", func(r *request, v value) (e *Error) { r.showStop, e = v.boolean(); return }},
	{"truncate_prompt_tokens", honored, formChat | formCompletion, "only so many tokens of the prompt, the last ones, " +
		"behind the one that begins texts; -1: as many as leave room for max_tokens", func(r *request, v value) *Error {
		n, err := v.whole(-1, anyNumber)
		if r.truncate = int(n); err == nil && n == 0 {
			return v.bad("must be at least 1, or -1")
		}
		return err
	}},
	{"skip_special_tokens", honored, formChat | formCompletion, "only true", onlyTrue},
	{"spaces_between_special_tokens", accepted, formChat | formCompletion, "special tokens are not shown", nil},
	{"prompt_logprobs", honored, formChat | formCompletion, "log-probability and rank of each token of the prompt, with " +
		"so many alternatives, up to 20, in vLLM's form; not of streams", func(r *request, v value) *Error {
		n, err := v.whole(0, maxTop)
		r.promptTop = int(n) + 1
		return err
	}},
	{"use_beam_search", honored, formChat | formCompletion, "only false", onlyFalse},
	{"length_penalty", honored, formChat | formCompletion, "only 1", onlyNumber(1)},
	{"logprobs", honored, formChat | formOllama, "true: the log-probability of each token under the model",
		func(r *request, v value) (e *Error) { r.logprobs, e = v.boolean(); return }},
	{"top_logprobs", honored, formChat | formOllama, "alternatives of each token, up to 20; needs logprobs",
		func(r *request, v value) *Error {
			n, err := v.whole(0, maxTop)
			r.top, r.topField = int(n), v.path
			return err
		}},
	{"logprobs", honored, formCompletion, "log-probabilities of each token and of so many alternatives, up to 20",
		func(r *request, v value) *Error {
			n, err := v.whole(0, maxTop)
			r.logprobs, r.top = true, int(n)
			return err
		}},
	{"logit_bias", honored, formText, "added to the logits of token ids, or of all tokens of a text; false bans " +
		"them (default: --logit-bias)", readBias},
	{"ignore_eos", honored, formText, "true: end-of-text tokens are never chosen (default: --ignore-eos)",
		func(r *request, v value) (e *Error) { r.ignoreEOS, e = v.boolean(); return }},

	{"response_format", honored, formChat, "text, json_object, or json_schema with a schema (default: --json-schema, " +
		"--grammar)", readResponseFormat},
	{"grammar", honored, formText, "a grammar in GBNF that the answer follows; empty: none (default: --grammar)",
		readGrammar},
	{"json_schema", honored, formText, "a JSON Schema that the answer follows, llama.cpp's name", readSchema},

	{"guided_json", honored, formText, "the same, vLLM's name; also the schema as a text", readGuidedJSON},
	{"guided_grammar", honored, formText, "a grammar in GBNF, vLLM's name", readGrammar},
	{"banned_strings", honored, formText, "up to 16 texts that are not in the answer's content; not beside a grammar",
		readBannedStrings},
	{"guided_regex", honored, formText, "a regular expression that the whole answer matches", readGuidedRegex},
	{"guided_choice", honored, formText, "texts, one of which is the answer", readGuidedChoice},
	{"structured_outputs", honored, formText, "vLLM's newer form: json, grammar, regex, choice, or json_object: true",
		readStructured},

	{"json_any_order", honored, formText | formResponses | formOllama | formMessages, "true: keys of objects that " +
		"follow a JSON Schema come in any order; false: in the schema's (default: --json-any-order)",
		func(r *request, v value) (e *Error) { r.anyOrder, e = v.boolean(); return }},

	{"speculation", honored, formText | formResponses | formOllama | formMessages, "drafter, schedule, verify, max, " +
		"min, p_min, exit_layer, draft_sampling, previous, off, trace: see Speculation", readSpeculation},
	{"lora", honored, formText | formResponses | formOllama | formMessages, "scales of adapters, as [{\"id\": 0, " +
		"\"scale\": 0.5}]; those that are not named have 0 (default: as /lora-adapters lists them)", readLora},
	{"cache_salt", honored, formText | formResponses | formOllama | formMessages | formSlots,
		"only requests with the same text here share what is computed for prompts that begin alike",
		func(r *request, v value) (e *Error) { r.cacheSalt, e = v.text(); return }},
	{"verbose", honored, formChat, "true: the answer has __verbose, with its prompt as text (default: --verbose)",
		func(r *request, v value) (e *Error) { r.verbose, e = v.boolean(); return }},
	{"return_progress", honored, formChat | formLlama | formResponses, "true: a stream begins with how far " +
		"the prompt is computed, as prompt_progress",
		func(r *request, v value) (e *Error) { r.progress, e = v.boolean(); return }},
	{"timings_per_token", honored, formText | formResponses, "true: each chunk has timings",
		func(r *request, v value) (e *Error) { r.wantTimings, e = v.boolean(); return }},

	// Ollama.
	{"prompt", honored, formOllamaGenerate, "a text; none only loads the model", readPrompt},
	{"prompt", honored, formOllamaEmbeddings, "a text; none only loads the model", func(r *request, v value) *Error {
		r.texts = v.path
		return readPrompt(r, v)
	}},
	{"system", honored, formOllamaGenerate | formOllamaShow | formOllamaCreate, "the system message",
		func(r *request, v value) (e *Error) { r.system, e = v.text(); return }},
	{"raw", honored, formOllamaGenerate, "true: the prompt is not put into the chat template",
		func(r *request, v value) (e *Error) { r.raw, e = v.boolean(); return }},
	{"template", honored, formOllamaGenerate | formOllamaShow, "only empty: templates are Jinja and belong to models",
		onlyText("")},
	{"context", honored, formOllamaGenerate, "only empty: /api/chat continues conversations", onlyEmptyList},
	{"image_data", honored, formNative, "only empty", onlyEmptyList},
	{"images", honored, formOllamaGenerate, "only empty", onlyEmptyList},
	{"format", honored, formOllama, `"json" or a JSON Schema`, readOllamaFormat},
	{"think", honored, formOllama, "given to the chat template as enable_thinking; a text also as reasoning_effort",
		readThink},
	{"options", honored, formOllama | formOllamaEmbed | formOllamaEmbeddings, "sampling: the fields below",
		readOllamaOptions},
	{"num_predict", honored, formOllamaOptions, "most tokens of the answer; -1 and -2 are as many as fit",
		func(r *request, v value) *Error { return r.setMax(v, true) }},
	{"name", honored, formOllamaShow | formManage, "older name of model",
		func(r *request, v value) (e *Error) { r.model, e = v.text(); return }},
	{"verbose", accepted, formOllamaShow, "tensors and vocabularies are never listed", nil},
	{"keep_alive", honored, formOllama | formChat, "0: the model is unloaded behind the answer, see Models that come " +
		"and go; otherwise models are unloaded when memory is needed", readKeepAlive},
	{"keep_alive", accepted, formOllamaEmbed | formOllamaEmbeddings, "models are unloaded when memory is needed", nil},
	{"insecure", honored, formOllamaPull, "only false", onlyFalse},
	{"source", honored, formOllamaCopy, "the model's name",
		func(r *request, v value) (e *Error) { r.from, e = v.text(); return }},
	{"destination", honored, formOllamaCopy, "the other name",
		func(r *request, v value) (e *Error) { r.model, e = v.text(); return }},
	{"from", honored, formOllamaCreate, "a model, or the name of its file in the models' folder",
		func(r *request, v value) (e *Error) { r.from, e = v.text(); return }},
	{"template", honored, formOllamaCreate, "the chat template, in Jinja",
		func(r *request, v value) (e *Error) { r.ownTemplate, e = v.text(); return }},
	{"parameters", honored, formOllamaCreate, "options for requests that do not say otherwise: the fields of options",
		readParameters},
	{"num_ctx", accepted, formOllamaOptions, "the context is the server's, see when_full", nil},
	{"num_keep", honored, formOllamaOptions, "as n_keep", readKeep},
	{"num_batch", accepted, formOllamaOptions, "the answer does not depend on passes", nil},
	{"num_gpu", accepted, formOllamaOptions, "there is none", nil},
	{"main_gpu", accepted, formOllamaOptions, "there is none", nil},
	{"num_thread", accepted, formOllamaOptions, "the answer does not depend on threads", nil},
	{"use_mmap", accepted, formOllamaOptions, "weights are read into memory", nil},
	{"use_mlock", accepted, formOllamaOptions, "without effect", nil},
	{"low_vram", accepted, formOllamaOptions, "there is none", nil},
	{"numa", accepted, formOllamaOptions, "without effect", nil},
	{"dimensions", honored, formOllamaEmbed | formEmbeddings | formEmbedding | formTEI,
		"only so many numbers of each vector, the first ones, before it is normalized: for models that " +
			"were trained for that", readDimensions},
	{"truncation_direction", accepted, formTEI, "texts are never cut", nil},

	// Tokens.
	{"content", honored, formTokenize, "the text, or an array of token ids and texts in a row",
		func(r *request, v value) *Error {
			text, parts, err := readSide(v)
			if r.content = parts; parts == nil {
				r.content = []spec.Prompt{{Text: text}}
			}
			return err
		}},
	{"add_special", honored, formTokenize, "true: with the tokens that the vocabulary asks for (default false)",
		func(r *request, v value) (e *Error) { r.special, e = v.boolean(); return }},
	{"parse_special", honored, formTokenize, "true: control tokens in the text become their ids (default true)",
		func(r *request, v value) (e *Error) { r.parse, e = v.boolean(); return }},
	{"with_pieces", honored, formTokenize, "true: ids with their texts",
		func(r *request, v value) (e *Error) { r.pieces, e = v.boolean(); return }},
	{"tokens", honored, formDetokenize, "token ids",
		func(r *request, v value) (e *Error) { r.tokens, e = v.ids(); return }},

	// Of no effect on the answer.
	{"user", accepted, formOpenAI | formEmbeddings, "who asks", nil},
	{"safety_identifier", accepted, formChat | formResponses, "who asks", nil},
	{"metadata", accepted, formChat, "nothing is stored", nil},
	{"metadata", honored, formResponses, "comes back in the answer", func(r *request, v value) *Error {
		if !v.isObject() {
			return v.bad("must be an object")
		}
		r.metadata = v.raw
		return nil
	}},
	{"store", accepted, formChat | formResponses, "nothing is stored", nil},
	{"service_tier", accepted, formChat | formResponses, "there is one", nil},
	{"parallel_tool_calls", honored, formChat | formResponses, "false: at most one call",
		func(r *request, v value) *Error {
			several, err := v.boolean()
			r.single = !several
			return err
		}},
	{"prompt_cache_key", accepted, formChat | formResponses, "common beginnings of prompts are found without it", nil},
	{"prompt_cache_retention", accepted, formChat | formResponses, "the same", nil},
	{"prediction", honored, formChat, `{"type": "content", "content": …}: an earlier answer, a text or parts of type ` +
		"text: drafts follow it where the answer does; usage counts its accepted and rejected tokens", readPrediction},
	{"cache_prompt", accepted, formText, "the answer does not depend on what is cached", nil},
	{"n_cache_reuse", accepted, formText, "common beginnings of prompts are found without it", nil},
	{"id_slot", honored, formText, "the slot that holds the text afterwards, see /slots; -1: the server chooses. The " +
		"answer does not depend on it", func(r *request, v value) *Error {
		n, err := v.whole(-1, anyNumber)
		r.slot = int(n)
		return err
	}},
	{"return_tokens", honored, formChat | formCompletion, "only false", onlyFalse},
	{"modalities", honored, formChat, `only ["text"]`, readModalities},
	{"verbosity", accepted, formChat, "templates know none", nil},
	{"textVerbosity", accepted, formChat | formResponses, "the same, Vercel's name", nil},
	{"strictJsonSchema", accepted, formChat | formResponses, "a schema always holds", nil},
	{"stream_options", accepted, formResponses, "include_obfuscation: there is none", nil},
	{"include", honored, formResponses, "nothing is encrypted, and reasoning is always there; log-probabilities are " +
		"refused", readInclude},
	{"previous_response_id", honored, formResponses, "only null: nothing is stored; send the conversation as input",
		func(_ *request, v value) *Error {
			return v.bad("nothing is stored here; send the whole conversation as input")
		}},
}, slices.Concat(samplingFields(formText|formOllamaOptions|formMessages), rankFields(), slotFields(),
	clientFields())...)

// maxTop is the most alternatives of a token, and maxChoices the most answers to a request, as in OpenAI's API.
const (
	maxTop     = 20
	maxChoices = 128
)

// tables are the fields by form and name.
type tables map[forms]map[string]*field

func newTables() tables {
	out := tables{}
	for i := range formNames {
		f := forms(1) << i
		out[f] = map[string]*field{}
		for j := range fields {
			if fields[j].in&f != 0 {
				out[f][fields[j].name] = &fields[j]
			}
		}
	}
	return out
}

// read reads the object at v by the table of a form. null means absent, whatever the name.
func (t tables) read(form forms, r *request, v value) *Error {
	members, err := split(v.path, v.raw)
	if err != nil {
		return err
	}
	for _, m := range members {
		at := value{join(v.path, m.name), m.raw}
		f := t[form][m.name]
		switch {
		case at.null():
		case f == nil:
			return unknownField(at.path)
		case f.read == nil:
		default:
			if err := f.read(r, at); err != nil {
				return err
			}
		}
	}
	return nil
}
