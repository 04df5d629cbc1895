package chat

import (
	"fmt"
	"strings"
)

// turns are the templates of models that write a conversation as a row of messages, each between two texts of its
// role, without tools; by llama.cpp's names.
var turns = []turn{
	{name: "command-r", trim: true, end: "<|END_OF_TURN_TOKEN|>", system: "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>",
		user: "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", assistant: "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
	{name: "bailing", system: "<role>SYSTEM</role>", user: "<role>HUMAN</role>", assistant: "<role>ASSISTANT</role>"},
	{name: "chatglm3", before: "[gMASK]sop", system: "<|system|>\n ", user: "<|user|>\n ",
		assistant: "<|assistant|>\n ", answer: "<|assistant|>"},
	{name: "chatglm4", before: "[gMASK]<sop>", system: "<|system|>\n", user: "<|user|>\n", assistant: "<|assistant|>\n"},
	{name: "deepseek2", system: "", systemEnd: "\n\n", user: "User: ", end: "\n\n", assistant: "Assistant: ",
		assistantEnd: "<｜end▁of▁sentence｜>", answer: "Assistant:"},
	{name: "exaone3", trim: true, system: "[|system|]", end: "[|endofturn|]\n", user: "[|user|]", userEnd: "\n",
		assistant: "[|assistant|]"},
	{name: "exaone-moe", trim: true, system: "<|system|>\n", user: "<|user|>\n", assistant: "<|assistant|>\n",
		end: "<|endofturn|>\n"},
	{name: "falcon3", system: "<|system|>\n", user: "<|user|>\n", assistant: "<|assistant|>\n", end: "\n"},
	{name: "gpt-oss", before: harmonySystem, system: "<|start|>developer<|message|># Instructions\n\n",
		systemEnd: "\n\n<|end|>", user: "<|start|>user<|message|>",
		assistant: "<|start|>assistant<|channel|>final<|message|>", end: "<|end|>", answer: "<|start|>assistant"},
	{name: "grok-2", trim: true, system: "System: ", user: "Human: ", assistant: "Assistant: ", end: "<|separator|>\n\n",
		answer: "Assistant:"},
	{name: "hunyuan-dense", systemEnd: "<｜hy_place▁holder▁no▁3｜>", user: "<｜hy_User｜>",
		assistant: "<｜hy_Assistant｜>", assistantEnd: "<｜hy_place▁holder▁no▁2｜>"},
	{name: "hunyuan-moe", system: "<|startoftext|>", systemEnd: "<|extra_4|>", user: "<|startoftext|>",
		userEnd: "<|extra_0|>", end: "<|eos|>", silent: true},
	{name: "kimi-k2", system: "<|im_system|>system<|im_middle|>", user: "<|im_user|>user<|im_middle|>",
		assistant: "<|im_assistant|>assistant<|im_middle|>", end: "<|im_end|>"},
	{name: "llama4", trim: true, system: "<|header_start|>system<|header_end|>\n\n",
		user: "<|header_start|>user<|header_end|>\n\n", assistant: "<|header_start|>assistant<|header_end|>\n\n",
		end: "<|eot|>"},
	{name: "megrez", system: "<|role_start|>system<|role_end|>", user: "<|role_start|>user<|role_end|>",
		assistant: "<|role_start|>assistant<|role_end|>", end: "<|turn_end|>"},
	{name: "minicpm", trim: true, user: "<用户>", userEnd: "<AI>", silent: true},
	{name: "monarch", system: "system\n", user: "user\n", assistant: "assistant\n", end: "</s>\n<s>"},
	{name: "mistral-v7", system: "[SYSTEM_PROMPT] ", systemEnd: "[/SYSTEM_PROMPT]", user: "[INST] ", userEnd: "[/INST]",
		assistant: " ", end: "</s>", silent: true},
	{name: "mistral-v7-tekken", system: "[SYSTEM_PROMPT]", systemEnd: "[/SYSTEM_PROMPT]", user: "[INST]",
		userEnd: "[/INST]", end: "</s>", silent: true},
	{name: "openchat", user: "GPT4 Correct User: ", assistant: "GPT4 Correct Assistant: ", end: "<|end_of_turn|>",
		answer: "GPT4 Correct Assistant:"},
	{name: "orion", noSystem: true, user: "Human: ", userEnd: "\n\nAssistant: </s>", end: "</s>", silent: true},
	{name: "seed_oss", system: "<seed:bos>system\n", user: "<seed:bos>user\n", assistant: "<seed:bos>assistant\n",
		end: "<seed:eos>"},
	{name: "vicuna-orca", system: "SYSTEM: ", user: "USER: ", assistant: "ASSISTANT: ", assistantEnd: "</s>\n", end: "\n",
		answer: "ASSISTANT:"},
}

// harmonySystem is the system message with which gpt-oss was trained, without dates and tools.
const harmonySystem = "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n" +
	"Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. " +
	"Channel must be included for every message.<|end|>"

// turn is one of turns.
type turn struct {
	name                             string
	before                           string // of the whole
	system, user, assistant          string // in front of a message
	end                              string // behind it, where the role has none of its own
	systemEnd, userEnd, assistantEnd string
	answer                           string // in front of an answer; "": assistant
	silent                           bool   // nothing stands in front of an answer
	noSystem                         bool   // there is no role system: its text goes in front of the user's
	trim                             bool   // messages without white space at their ends
}

// source is the template.
func (t *turn) source() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{{- %s }}{%% for message in messages %%}", templateText(t.before))
	fmt.Fprintf(&b, "{{- raise_exception('the %s template has no tool calls') if message.tool_calls }}", t.name)
	text := "message.content"
	if t.trim {
		text += " | trim"
	}
	word := "if"
	for _, role := range []struct{ name, begin, end string }{
		{"system", t.system, t.systemEnd}, {"user", t.user, t.userEnd}, {"assistant", t.assistant, t.assistantEnd},
	} {
		if role.name == "system" && t.noSystem {
			continue
		}
		end := role.end
		if end == "" {
			end = t.end
		}
		fmt.Fprintf(&b, "{%%- %s message.role == '%s' %%}{{- %s ~ (%s) ~ %s }}", word, role.name,
			templateText(role.begin), text, templateText(end))
		word = "elif"
	}
	fmt.Fprintf(&b, "{%%- else %%}{{- raise_exception('the %s template has no role ' ~ message.role) }}", t.name)
	b.WriteString("{%- endif %}")
	answer := t.answer
	if answer == "" && !t.silent {
		answer = t.assistant
	}
	fmt.Fprintf(&b, "{%%- endfor %%}{{- %s if add_generation_prompt }}", templateText(answer))
	return b.String()
}

// templateText is a text as a template writes it.
func templateText(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}

// turnNames are the names of turns.
func turnNames() (names []string) {
	for i := range turns {
		names = append(names, turns[i].name)
	}
	return names
}
