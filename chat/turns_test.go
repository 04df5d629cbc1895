package chat

import (
	"strings"
	"testing"
)

// Each template of a row of messages as its model's own writes a conversation, by hand.
func TestTurns(t *testing.T) {
	const cohere = "<|START_OF_TURN_TOKEN|>"
	want := map[string]string{
		"command-r": cohere + "<|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|>" + cohere + "<|USER_TOKEN|>U<|END_OF_TURN_TOKEN|>" +
			cohere + "<|CHATBOT_TOKEN|>A<|END_OF_TURN_TOKEN|>" + cohere + "<|USER_TOKEN|>V<|END_OF_TURN_TOKEN|>" + cohere +
			"<|CHATBOT_TOKEN|>",
		"bailing": "<role>SYSTEM</role>S <role>HUMAN</role> U<role>ASSISTANT</role> A <role>HUMAN</role>V" +
			"<role>ASSISTANT</role>",
		"chatglm3":  "[gMASK]sop<|system|>\n S <|user|>\n  U<|assistant|>\n  A <|user|>\n V<|assistant|>",
		"chatglm4":  "[gMASK]<sop><|system|>\nS <|user|>\n U<|assistant|>\n A <|user|>\nV<|assistant|>\n",
		"deepseek2": "S \n\nUser:  U\n\nAssistant:  A <｜end▁of▁sentence｜>User: V\n\nAssistant:",
		"exaone3": "[|system|]S[|endofturn|]\n[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n" +
			"[|assistant|]",
		"exaone-moe": "<|system|>\nS<|endofturn|>\n<|user|>\nU<|endofturn|>\n<|assistant|>\nA<|endofturn|>\n" +
			"<|user|>\nV<|endofturn|>\n<|assistant|>\n",
		"falcon3": "<|system|>\nS \n<|user|>\n U\n<|assistant|>\n A \n<|user|>\nV\n<|assistant|>\n",
		"grok-2": "System: S<|separator|>\n\nHuman: U<|separator|>\n\nAssistant: A<|separator|>\n\n" +
			"Human: V<|separator|>\n\nAssistant:",
		"gpt-oss": "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n" +
			"Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n# Valid channels: analysis, commentary, final. Channel must " +
			"be included for every message.<|end|><|start|>developer<|message|># Instructions\n\nS \n\n<|end|>" +
			"<|start|>user<|message|> U<|end|><|start|>assistant<|channel|>final<|message|> A <|end|>" +
			"<|start|>user<|message|>V<|end|><|start|>assistant",
		"hunyuan-dense": "S <｜hy_place▁holder▁no▁3｜><｜hy_User｜> U<｜hy_Assistant｜> A <｜hy_place▁holder▁no▁2｜>" +
			"<｜hy_User｜>V<｜hy_Assistant｜>",
		"hunyuan-moe": "<|startoftext|>S <|extra_4|><|startoftext|> U<|extra_0|> A <|eos|><|startoftext|>V<|extra_0|>",
		"minicpm":     "S<用户>U<AI>A<用户>V<AI>",
		"monarch":     "system\nS </s>\n<s>user\n U</s>\n<s>assistant\n A </s>\n<s>user\nV</s>\n<s>assistant\n",
		"orion":       "Human: S \n\n U\n\nAssistant: </s> A </s>Human: V\n\nAssistant: </s>",
		"kimi-k2": "<|im_system|>system<|im_middle|>S <|im_end|><|im_user|>user<|im_middle|> U<|im_end|>" +
			"<|im_assistant|>assistant<|im_middle|> A <|im_end|><|im_user|>user<|im_middle|>V<|im_end|>" +
			"<|im_assistant|>assistant<|im_middle|>",
		"llama4": "<|header_start|>system<|header_end|>\n\nS<|eot|><|header_start|>user<|header_end|>\n\nU<|eot|>" +
			"<|header_start|>assistant<|header_end|>\n\nA<|eot|><|header_start|>user<|header_end|>\n\nV<|eot|>" +
			"<|header_start|>assistant<|header_end|>\n\n",
		"megrez": "<|role_start|>system<|role_end|>S <|turn_end|><|role_start|>user<|role_end|> U<|turn_end|>" +
			"<|role_start|>assistant<|role_end|> A <|turn_end|><|role_start|>user<|role_end|>V<|turn_end|>" +
			"<|role_start|>assistant<|role_end|>",
		"mistral-v7":        "[SYSTEM_PROMPT] S [/SYSTEM_PROMPT][INST]  U[/INST]  A </s>[INST] V[/INST]",
		"mistral-v7-tekken": "[SYSTEM_PROMPT]S [/SYSTEM_PROMPT][INST] U[/INST] A </s>[INST]V[/INST]",
		"openchat": "S <|end_of_turn|>GPT4 Correct User:  U<|end_of_turn|>GPT4 Correct Assistant:  A <|end_of_turn|>" +
			"GPT4 Correct User: V<|end_of_turn|>GPT4 Correct Assistant:",
		"seed_oss": "<seed:bos>system\nS <seed:eos><seed:bos>user\n U<seed:eos><seed:bos>assistant\n A <seed:eos>" +
			"<seed:bos>user\nV<seed:eos><seed:bos>assistant\n",
		"vicuna-orca": "SYSTEM: S \nUSER:  U\nASSISTANT:  A </s>\nUSER: V\nASSISTANT:",
	}
	talk := []Message{System("S "), User(" U"), Assistant(" A "), User("V")}
	for _, name := range turnNames() {
		tmpl := builtin(t, name, Options{})
		talk := talk
		if !tmpl.SystemRole() {
			talk = MergeSystem(talk)
		}
		if tmpl.SystemRole() == (name == "orion") {
			t.Errorf("%s: system role %v", name, tmpl.SystemRole())
		}
		p, err := tmpl.Render(t.Context(), Conversation{Messages: talk, AddGenerationPrompt: true})
		if err != nil || p.Text() != want[name] {
			t.Errorf("%s: %v\n%q, expected\n%q", name, err, p.Text(), want[name])
		}
		open, err := tmpl.Render(t.Context(), Conversation{Messages: talk})
		if err != nil || len(open.Text()) > len(want[name]) || !strings.HasPrefix(want[name], open.Text()) {
			t.Errorf("%s, no answer: %v %q", name, err, open.Text())
		}
		if _, err := tmpl.Render(t.Context(),
			Conversation{Messages: []Message{ToolResult(ToolCall{ID: "x"}, "y")}}); err == nil {
			t.Errorf("%s renders a tool's result", name)
		}
	}
}
