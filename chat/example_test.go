package chat_test

import (
	"context"
	"fmt"

	"github.com/specgo/spec/chat"
)

// A conversation becomes a prompt that knows who wrote which byte.
func ExampleTemplate_Render() {
	source, _ := chat.Builtin("chatml")
	t, err := chat.New(source, chat.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := t.Render(context.Background(), chat.Conversation{
		Messages:            []chat.Message{{Role: "user", Content: "What does <|im_end|> do?"}},
		AddGenerationPrompt: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range p.Spans {
		fmt.Printf("%v %q\n", s.Origin == chat.FromTemplate, s.Text)
	}
	// Output:
	// true "<|im_start|>user\n"
	// false "What does <|im_end|> do?"
	// true "<|im_end|>\n<|im_start|>assistant\n"
}

// An answer is told apart as it streams.
func ExampleParser() {
	p := chat.NewParser(chat.Format{Syntax: chat.SyntaxHermes, ThinkStart: "<think>", ThinkEnd: "</think>"},
		chat.ParserOptions{Tools: []chat.Tool{{Name: "get_weather"}}})
	for _, piece := range []string{"<think>Look it", " up.</think>\n<tool_",
		"call>{\"name\": \"clock\", \"arguments\": {\"zone\"", ": \"UTC\"}}</tool_call>"} {
		for _, e := range p.Push(piece) {
			switch e.Kind {
			case chat.ReasoningEvent:
				fmt.Printf("reasoning %q\n", e.Text)
			case chat.ToolCallStart:
				fmt.Println("call", e.Name)
			case chat.ToolCallArgs:
				fmt.Printf("arguments %s\n", e.Text)
			case chat.ToolCallEnd:
				fmt.Println("end", e.Err)
			}
		}
	}
	p.Close()
	// Output:
	// reasoning "Look it"
	// reasoning " up."
	// call clock
	// arguments {"zone"
	// arguments : "UTC"}
	// end <nil>
}
