package serve

// clientFields are what programs send that know other servers' names, or switch off what is not there: text-generation-
// webui's and KoboldCpp's names as SillyTavern has them, vLLM's, and those of newer clients.
func clientFields() []field {
	const (
		writers = formCompletion | formLlama
		vllm    = formChat | formCompletion
	)
	sampling := map[string]*field{}
	for _, f := range samplingFields(writers) {
		sampling[f.name] = &f
	}
	// alias is another name of a sampling field.
	alias := func(name, of string) field {
		return field{name, honored, writers, "as " + of + ", another name", sampling[of].read}
	}
	only := func(name string, in forms, what string, off float64) field {
		return field{name, honored, in, "only what switches it off: " + what, onlyNumber(off)}
	}
	return []field{
		alias("typical", "typical_p"), alias("mirostat_mode", "mirostat"), alias("nsigma", "top_n_sigma"),
		alias("rep_pen", "repeat_penalty"), alias("rep_pen_range", "repeat_last_n"),
		alias("repetition_penalty_range", "repeat_last_n"),
		{"max_new_tokens", honored, writers, "as n_predict, another name",
			func(r *request, v value) *Error { return r.setMax(v, true) }},
		{"max_tokens", honored, formLlama, "as n_predict, another name", readNoneOrMax},
		{"max_completion_tokens", honored, formLlama, "as n_predict, another name", readNoneOrMax},
		{"ban_eos_token", honored, writers, "as ignore_eos, another name",
			func(r *request, v value) (e *Error) { r.ignoreEOS, e = v.boolean(); return }},
		only("tfs", writers, "1", 1), only("top_a", writers, "0", 0), only("smoothing_factor", writers, "0", 0),
		only("guidance_scale", writers, "1", 1), only("penalty_alpha", writers, "0", 0),
		only("no_repeat_ngram_size", writers, "0", 0), only("epsilon_cutoff", writers, "0", 0),
		only("eta_cutoff", writers, "0", 0), only("encoder_repetition_penalty", writers, "1", 1),
		only("num_beams", writers, "1", 1), only("min_length", writers, "0", 0),
		{"do_sample", honored, writers, "only true: temperature 0 is greedy", onlyTrue},
		{"dynamic_temperature", honored, writers, "only false: dynatemp_range", onlyFalse},
		{"temperature_last", honored, writers, "only true: samplers", onlyTrue},
		{"custom_token_bans", honored, writers, "only empty: logit_bias", onlyText("")},
		{"skip_special_tokens", honored, formLlama, "only true", onlyTrue},
		{"add_bos_token", honored, writers, "only true", onlyTrue},
		{"add_special_tokens", honored, formCompletion, "only true", onlyTrue},
		{"adaptive_target", honored, formText, "only below 0, which switches it off", func(_ *request, v value) *Error {
			if x, err := v.float(); err != nil || x >= 0 {
				return v.bad("only a number below 0 is supported")
			}
			return nil
		}},
		{"adaptive_decay", accepted, formText, "of adaptive_target", nil},
		{"dynatemp_low", accepted, writers, "of dynamic_temperature", nil},
		{"dynatemp_high", accepted, writers, "of dynamic_temperature", nil},
		{"smoothing_curve", accepted, writers, "of smoothing_factor", nil},
		{"negative_prompt", accepted, writers, "of guidance_scale", nil},
		{"early_stopping", accepted, formText, "of beams, which there are none of", nil},
		{"truncation_length", accepted, writers, "the context is the server's, see when_full", nil},
		{"legacy_api", accepted, writers, "without effect", nil},

		{"bad_words", honored, vllm, "as banned_strings, vLLM's name", readBannedStrings},
		{"detokenize", honored, vllm, "only true", onlyTrue},
		{"return_token_ids", honored, vllm, "only false", onlyFalse},
		{"return_tokens_as_token_ids", honored, vllm, "only false", onlyFalse},
		{"include_reasoning", honored, vllm, "only true", onlyTrue},
		{"echo", honored, formChat, "only false", onlyFalse},
		{"priority", accepted, vllm, "keys have shares, see --api-key-file", nil},
		{"request_id", accepted, vllm, "answers have ids of their own", nil},
		{"guided_decoding_backend", accepted, vllm, "there is one", nil},

		{"speculative.n_max", honored, formText, "as speculation.max, llama.cpp's name; 0: no drafts", readMostDrafted},
		{"speculative.n_min", honored, formText, "as speculation.min", oneOfSpeculation("min")},
		{"speculative.p_min", honored, formText, "as speculation.p_min", oneOfSpeculation("p_min")},
		{"speculative.type", honored, formText, "only none: speculation.drafter chooses", func(r *request, v value) *Error {
			if s, err := v.text(); err != nil || s != "none" {
				return v.bad("only \"none\" is supported; speculation.drafter chooses what drafts")
			}
			r.undrafted()
			return nil
		}},

		{"client_metadata", accepted, formResponses, "nothing is stored", nil},
		{"max_tool_calls", accepted, formResponses, "of tools that a server runs: there are none", nil},
		{"top_logprobs", honored, formResponses, "only 0", onlyNumber(0)},
		{"context_management", honored, formMessages, "edits of the conversation, none of which is applied: the answer " +
			"says so (applied_edits)", readContextManagement},
		{"mcp_servers", honored, formMessages, "only empty: the server calls no others", onlyEmptyList},

		{"truncate", honored, formOllama, "as when_full: true drops, false stops", func(r *request, v value) *Error {
			cut, err := v.boolean()
			r.setWhenFull(cut)
			return err
		}},
		{"shift", honored, formOllama, "only false: an answer that fills the context ends", onlyFalse},
		{"vocab_only", honored, formOllamaOptions, "only false", onlyFalse},
		{"embedding_only", honored, formOllamaOptions, "only false", onlyFalse},
		{"f16_kv", accepted, formOllamaOptions, "--kv says it", nil},
		{"logits_all", accepted, formOllamaOptions, "without effect", nil},
		{"num_gqa", accepted, formOllamaOptions, "the file says it", nil},
	}
}
