// Package chat renders conversations by a model's chat template and reads what
// the model answers. It knows texts and tokens, and no model.
//
//	t, err := chat.New(source, chat.Options{BOS: "<s>", EOS: "</s>"})
//	p, err := t.Render(ctx, chat.Conversation{
//		Messages:            []chat.Message{{Role: "user", Content: "Hello"}},
//		AddGenerationPrompt: true,
//	})
//	ids := p.IDs(tokenizer)
//
// The template is Jinja source: what a model file holds in
// tokenizer.chat_template, or one of the package's own ([Builtin]).
//
// # Who wrote what
//
// A conversation's text can never become a control token. While the template
// is evaluated, every byte of every string carries its [Origin], through
// concatenation, filters, replacements and whatever else the template does. In
// [Prompt.IDs] only bytes of the template match control and user-defined
// tokens. Bytes of messages match neither. Bytes that an assistant wrote in an
// earlier turn match user-defined tokens and the marks of reasoning and tool
// calls of the template's [Format], so that an answer read back is the tokens
// it was. No token is found across bytes of different origin.
//
// The names of roles are the template's if they are among the usual ones:
// templates build tokens such as <|user|> from them.
//
// # Reading answers
//
// A [Parser] reads an answer as it is generated and tells content from
// reasoning and tool calls, by the marks of a [Format].
package chat
