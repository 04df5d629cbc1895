package main

import "slices"

// Flags of llama.cpp that have no effect here, and those that are refused with a reason.

// ignoredSwitches and ignoredValues are flags of llama.cpp that choose hardware, buffers, memory mapping, batch sizes
// or how its log looks: there is no such choice here. They are accepted so that scripts keep running.
var (
	ignoredSwitches = []string{"--mlock", "--no-mmap", "--mmap", "-dio, --direct-io", "-ndio, --no-direct-io", "--no-perf",
		"--perf", "--no-warmup", "--no-host", "--repack", "-nr, --no-repack", "--op-offload", "--no-op-offload",
		"-kvo, --kv-offload", "-nkvo, --no-kv-offload", "-cmoe, --cpu-moe",
		"-cmoed, --cpu-moe-draft, --spec-draft-cpu-moe", "--check-tensors", "-bs, --backend-sampling",
		"--spec-draft-backend-sampling", "--no-spec-draft-backend-sampling", "--log-disable", "--log-prefix",
		"--no-log-prefix", "--log-timestamps", "--no-log-timestamps", "--mmproj-auto", "--no-mmproj, --no-mmproj-auto",
		"--mmproj-offload", "--no-mmproj-offload"}
	ignoredValues = []string{"-ngl, --gpu-layers, --n-gpu-layers",
		"-ngld, --gpu-layers-draft, --n-gpu-layers-draft, --spec-draft-ngl", "-b, --batch-size", "-ub, --ubatch-size",
		"-tb, --threads-batch", "-td, --threads-draft, --spec-draft-threads",
		"-tbd, --threads-batch-draft, --spec-draft-threads-batch", "-dev, --device",
		"-devd, --device-draft, --spec-draft-device", "-sm, --split-mode", "-ts, --tensor-split", "-mg, --main-gpu",
		"-ot, --override-tensor", "-otd, --override-tensor-draft, --spec-draft-override-tensor", "-ncmoe, --n-cpu-moe",
		"-ncmoed, --n-cpu-moe-draft, --spec-draft-n-cpu-moe, --spec-draft-ncmoe", "-lm, --load-mode", "--fit",
		"-fitt, --fit-target", "-fitc, --fit-ctx", "-dt, --defrag-thold", "-C, --cpu-mask", "-Cr, --cpu-range",
		"--cpu-strict", "--prio", "--poll", "-Cb, --cpu-mask-batch", "-Crb, --cpu-range-batch", "--cpu-strict-batch",
		"--prio-batch", "--poll-batch", "-Cd, --cpu-mask-draft, --spec-draft-cpu-mask",
		"-Crd, --cpu-range-draft, --spec-draft-cpu-range", "--cpu-strict-draft, --spec-draft-cpu-strict",
		"--prio-draft, --spec-draft-prio", "--poll-draft, --spec-draft-poll",
		"-Cbd, --cpu-mask-batch-draft, --spec-draft-cpu-mask-batch",
		"-Crbd, --cpu-range-batch-draft, --spec-draft-cpu-range-batch",
		"--cpu-strict-batch-draft, --spec-draft-cpu-strict-batch", "--prio-batch-draft, --spec-draft-prio-batch",
		"--poll-batch-draft, --spec-draft-poll-batch", "-ctkd, --cache-type-k-draft, --spec-draft-type-k",
		"-ctvd, --cache-type-v-draft, --spec-draft-type-v", "-cd, --ctx-size-draft", "--draft-p-split, --spec-draft-p-split",
		"-lv, --verbosity, --log-verbosity"}
)

// ignoredRows are those of every command that opens a model.
func ignoredRows() []flag {
	flash, colors := ignored("VALUE", "-fa, --flash-attn")[0], ignored("VALUE", "--log-colors")[0]
	flash.optional, colors.optional = true, true
	flash.values = []string{"on", "off", "auto", "enabled", "disabled", "true", "false", "1", "0"}
	colors.values = []string{"on", "off", "auto"}
	return slices.Concat(ignored("", ignoredSwitches...), ignored("VALUE", ignoredValues...), []flag{flash, colors})
}

// refusedFlags are flags of llama.cpp that ask for what is not done here, with the reason: where a similar name would
// mislead, or where there is something else to do.
var refusedFlags = func() map[string]string {
	all := map[string]string{
		"context-shift": "what is computed of a text cut in its middle is not what the model says of the rest; " +
			"--when-full drop shortens a prompt and computes it again, and an answer that fills the context ends with length",
		"hf-token": "a command line can be read by other users; the environment variable HF_TOKEN has the token",
		"offline": "a model that is in the cache is opened without a connection; the environment variable HF_HUB_OFFLINE=1 " +
			"forbids downloads",
		"hf-file":              "-hf OWNER/NAME:FILE takes the name of a file",
		"model-url":            "spec run URL opens a model of the Hub by its address",
		"docker-repo":          "models are downloaded from the Hugging Face Hub alone",
		"log-file":             "the log is on standard error, which a shell writes to a file",
		"models-max":           "--models-memory SIZE bounds what the models in memory take together",
		"models-preset":        "the sections of --config FILE are models",
		"no-models-autoload":   "a request has its model loaded",
		"sleep-idle-seconds":   "idle models are unloaded when memory is needed, and by POST /models/unload",
		"no-prefill-assistant": "continue_final_message: false in a request begins a message of its own",
		"api-prefix":           "a proxy in front can take a prefix off the paths",
		"path":                 "the page is part of the program, and no other files are served",
		"keep":                 "n_keep of a request says how much of a prompt that is cut stays",
		"rpc":                  "a model runs on one machine; docs/CLUSTER.md has what several do together",
		"special":              "control tokens are no part of a text",
		"binary-file":          "-f reads a file byte for byte",
		"multiline-input": "Alt-Enter begins a further line of a message, and lines between \"\"\" are one message; " +
			"-f takes it from a file",
		"no-jinja":                 "chat templates are executed; --chat-template chatml is for models whose files have none",
		"completion-bash":          "spec completion bash writes it",
		"server-base":              "spec chat computes by itself",
		"reasoning-budget-message": "reasoning that has used its budget is ended by its mark alone",
		"skip-chat-parsing":        "calls and reasoning are told apart from the answer",
		"log-prompts-dir":          "spec serve --log-prompts writes prompts and answers into the log",
		"spm-infill":               "the order is the one that the model was trained for",
		"attention":                "a model's file says whether its texts are read in one direction or both",
		"cls-separator":            "spec rerank --query TEXT judges texts by another; a text to embed is no pair",
		"process-output":           "what goes into the output matrix is not measured; quantize has no need of it",
		"show-statistics":          "spec quantize uses an importance matrix; nothing shows it",
		"output-format":            "importance matrices are written as GGUF files; --in-file reads both formats",
		"ppl":                      "spec perplexity computes it",
		"reuse-port":               "two servers do not share a port; spec serve answers on sockets that systemd gives it",
	}
	for reason, names := range map[string][]string{
		"images, audio and video are not read; a model's text part runs without its projector": {"mmproj", "mm",
			"mmproj-url", "mmu", "image", "audio", "video", "media-path", "image-min-tokens", "image-max-tokens",
			"mtmd-batch-max-tokens"},
		"control vectors are not applied": {"control-vector", "control-vector-scaled", "control-vector-layer-range"},
		"the server calls no tools; programs that use it do": {"tools", "agent", "ag", "mcp-servers-config",
			"mcp-servers-json", "ui-mcp-proxy", "webui-mcp-proxy"},
		"--cors ORIGIN allows a page what it asks for": {"cors-methods", "cors-headers", "cors-credentials"},
		"the page's settings are kept in the browser": {"ui-config", "webui-config", "ui-config-file",
			"webui-config-file"},
		"--chat-template-kwargs {\"preserve_reasoning\": …} tells the chat template": {"reasoning-preserve",
			"no-reasoning-preserve"},
		"--drafter chooses what drafts, which finds its lengths itself": {"spec-type", "spec-ngram-size-n",
			"spec-ngram-size-m", "spec-ngram-min-hits", "spec-ngram-mod-n-min", "spec-ngram-mod-n-max",
			"spec-ngram-mod-n-match", "spec-ngram-simple-size-n", "spec-ngram-simple-size-m", "spec-ngram-simple-min-hits",
			"spec-ngram-map-k-size-n", "spec-ngram-map-k-size-m", "spec-ngram-map-k-min-hits", "spec-ngram-map-k4v-size-n",
			"spec-ngram-map-k4v-size-m", "spec-ngram-map-k4v-min-hits"},
		"-hf OWNER/NAME[:QUANT] names the model that it stands for": {"embd-gemma-default", "fim-qwen-1.5b-default",
			"fim-qwen-3b-default", "fim-qwen-7b-default", "fim-qwen-7b-spec", "fim-qwen-14b-spec", "fim-qwen-30b-default",
			"gpt-oss-20b-default", "gpt-oss-120b-default", "vision-gemma-4b-default", "vision-gemma-12b-default"},
		"--lookup PATH drafts from texts, and --lookup-own from what the server wrote": {"lookup-cache-static", "lcs",
			"lookup-cache-dynamic", "lcd"},
		"this sampler is not implemented": {"adaptive-target", "adaptive-decay"},
		"--rope-scaling yarn reads texts that are longer than the model's context": {"grp-attn-n", "gan", "grp-attn-w",
			"gaw"},
		"a chat template writes what stands around messages":        {"in-prefix", "in-suffix", "in-prefix-bos"},
		"spec chat, or -cnv of spec generate, holds a conversation": {"interactive", "i", "interactive-first", "if"},
		"an importance matrix is written once, at the end":          {"output-frequency", "ofreq", "save-frequency"},
		"spec list shows the models that are here":                  {"cache-list", "cl"},
		"models run on the CPU, whose kernels spec version names":   {"list-devices"},
		"spec perplexity computes the perplexity alone": {"hellaswag", "winogrande", "multiple-choice", "kl-divergence",
			"kl-divergence-base", "save-all-logits", "hellaswag-tasks", "winogrande-tasks", "multiple-choice-tasks",
			"ppl-stride", "ppl-output-type"},
	} {
		for _, n := range names {
			all[n] = reason
		}
	}
	for short, name := range map[string]string{"hft": "hf-token", "hff": "hf-file", "mu": "model-url",
		"dr": "docker-repo", "sp": "special", "mli": "multiline-input", "bf": "binary-file"} {
		all[short] = all[name]
	}
	return all
}()

// ignoredModes are flags of llama.cpp's programs for one text that choose how a terminal is used and what is told
// beside the text, and what is always so here: nothing is cut from a text that fills the context.
func ignoredModes() []flag {
	return append(ignored("", "-no-cnv, --no-conversation", "--simple-io", "-v, --verbose, --log-verbose",
		"--verbose-prompt", "--show-timings", "--no-show-timings", "--no-context-shift", "--swa-full", "--spec-default",
		"--no-skip-chat-parsing"),
		ignored("N", "--keep", "-ptc, --print-token-count", "-ctxcp, --ctx-checkpoints, --swa-checkpoints",
			"-cram, --cache-ram")...)
}

// ignoredByTexts are those whose names mean something in other commands here that have ignoredModes.
func ignoredByTexts() []flag {
	return append(ignored("", "--warmup"), ignored("N", "-np, --parallel")...)
}

// ignoredByConversations are flags of llama.cpp's that say what a conversation is anyway.
func ignoredByConversations() []flag {
	return ignored("", "-cnv, --conversation", "--display-prompt", "--no-display-prompt")
}

// ignoredByServers are flags of llama.cpp's server that choose what is always so here, or how it finds and keeps
// prompts; of its connections, those that other commands do not have.
func ignoredByServers(connections bool) []flag {
	list := ignored("", "--jinja", "--embedding, --embeddings", "--rerank, --reranking", "-cb, --cont-batching",
		"-nocb, --no-cont-batching", "--no-context-shift", "-kvu, --kv-unified", "-no-kvu, --no-kv-unified", "--swa-full",
		"--cache-prompt", "--no-cache-prompt", "--cache-idle-slots", "--no-cache-idle-slots", "--warmup",
		"--models-autoload", "--prefill-assistant", "--spec-default", "--no-skip-chat-parsing", "-no-ag, --no-agent",
		"--no-ui-mcp-proxy, --no-webui-mcp-proxy", "--no-cors-credentials")
	list = append(list, ignored("VALUE", "--cache-reuse", "-sps, --slot-prompt-similarity",
		"-ctxcp, --ctx-checkpoints, --swa-checkpoints", "-cms, --checkpoint-min-step")...)
	if connections {
		list = append(append(list, ignored("", "--metrics", "--slots", "--props", "--webui, --ui")...),
			ignored("N", "--threads-http")...)
	}
	return list
}

// ignored are flags without effect: arg is what their values are called, "" of switches.
func ignored(arg string, all ...string) (list []flag) {
	nothing := func(string) error { return nil }
	for _, n := range all {
		list = append(list, flag{names: names(n), arg: arg, help: "without effect", ignored: true, set: nothing})
	}
	return list
}

// withoutEffect is the group of ignored flags.
func withoutEffect(lists ...[]flag) group { return group{"without effect", slices.Concat(lists...)} }
