package main

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/specgo/spec/chat"
)

// conversationRow turns a text into a conversation.
func (f *chatFlags) conversationRow() flag {
	return switchFlag("-cnv, --conversation", &f.conversation, true,
		"hold a conversation, as spec chat does; -p is the first message")
}

// rows are the flags of a conversation.
func (f *chatFlags) rows() []flag {
	list := []flag{
		switchFlag("-st, --single-turn", &f.singleTurn, true, "end after the first answer of a conversation"),
		valueFlag("-sys, --system-prompt", "TEXT", "the system message of a conversation", func(v string) error {
			f.system, f.systemGiven = v, true
			return nil
		}).of(fieldSystem),
		fileFlag("-sysf, --system-prompt-file", &f.systemFile, "FILE",
			"the system message from a file, as it stands there").of(fieldSystem),
		reasoningRow(&f.reasoning, ""), reasoningFormatRow(), reasoningBudgetRow(&f.reasoning, &f.budget),
	}
	list = append(list, templateRows(&f.template, &f.templateFile)...)
	list = append(list,
		variablesRow(&f.variables, ""),
		valueFlag("--jinja", "", "execute the chat template, as is always done", func(string) error { return nil }).
			env("LLAMA_ARG_JINJA"),
		choiceFlag("--when-full", &f.whenFull, []string{fullAsk, fullDrop, fullStop},
			"when the conversation fills the context: ask; drop the oldest turns; stop").
			or("ask on a terminal, else stop"),
		switchFlag("--hide-reasoning", &f.hideReasoning, true, "do not show the model's reasoning").or("faint"),
		switchFlag("--color-drafts", &f.colorDrafts, true, "show accepted drafts of answers in another color; "+
			"their Markdown is shown as it is written"),
		fileFlag("--history", &f.typedHistory, "FILE", "what was typed on a terminal, kept for the arrow keys; "+noHistory+
			": nothing is kept").or("spec/history in the user's folder for state"),
		fileFlag("--load", &f.history, "FILE", "begin with the conversation that /save wrote"))
	for i := range list {
		list[i] = list[i].when(func() bool { return f.conversation })
	}
	return list
}

// variablesRow is --chat-template-kwargs; where says which conversations it is about.
func variablesRow(p *map[string]any, where string) flag {
	return valueFlag("--chat-template-kwargs", "JSON", "variables for the chat template"+where+
		`, as in {"enable_thinking": false}`, func(v string) error {
		if *p = nil; json.Unmarshal([]byte(v), p) != nil || *p == nil {
			return errors.New("not a JSON object")
		}
		return nil
	}).env("LLAMA_ARG_CHAT_TEMPLATE_KWARGS", "LLAMA_CHAT_TEMPLATE_KWARGS")
}

// reasoningRow is --reasoning; where says which answers it is about.
func reasoningRow(p *string, where string) flag {
	return choiceFlag("-rea, --reasoning", p, []string{"on", "off", reasoningAuto},
		"whether answers begin with reasoning"+where+": the template's enable_thinking").or(reasoningAuto).
		env("LLAMA_ARG_REASONING")
}

// reasoningFormatRow is --reasoning-format, of which there is one.
func reasoningFormatRow() flag {
	var format string
	return choiceFlag("--reasoning-format", &format, []string{"auto", "deepseek"},
		"reasoning is apart from the answer, as always").or("auto").env("LLAMA_ARG_THINK")
}

// reasoningBudgetRow is --reasoning-budget; most is nil where requests say it.
func reasoningBudgetRow(reasoning *string, most *int) flag {
	help := "most tokens of reasoning; 0: as --reasoning off; -1: any number"
	if most == nil {
		help = "0: as --reasoning off; -1: any number of tokens of reasoning, or those of a request's thinking_budget"
	}
	return valueFlag("--reasoning-budget", "N", help, func(v string) error {
		n, err := wholeNumber(v, -1, math.MaxInt32)
		switch {
		case err != nil:
			return err
		case n == 0:
			*reasoning = "off"
		case most != nil:
			*most = max(n, 0)
		case n > 0:
			return errors.New("here only 0 and -1; a request says more by thinking_budget")
		}
		return nil
	}).or("-1").env("LLAMA_ARG_THINK_BUDGET")
}

// fallbackRow offers tools where the chat template does not.
func (a *answers) fallbackRow() flag {
	return switchFlag("--tool-fallback", &a.toolFallback, true, "announce tools in the system message, with calls in "+
		"plain JSON, where the chat template has none or how its model writes calls is unknown")
}

// templateRows choose the chat template.
func templateRows(name, file *string) []flag {
	return []flag{
		textFlag("--chat-template", name, "NAME|FILE", "chat template: a built-in one ("+
			strings.Join(chat.BuiltinNames(), ", ")+") or a file").or("the template in the model's file").
			env("LLAMA_ARG_CHAT_TEMPLATE").of(fieldTemplate).takes(chat.BuiltinNames()...),
		fileFlag("--chat-template-file", file, "FILE", "chat template from a file").
			env("LLAMA_ARG_CHAT_TEMPLATE_FILE").of(fieldTemplate),
	}
}
