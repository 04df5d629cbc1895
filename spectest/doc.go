// Package spectest compares what a model answers with golden files, in the tests of programs that use models.
//
//	func TestAnswers(t *testing.T) {
//		m := spectest.Open(t, "model.gguf", spec.Options{})
//		a := spectest.Run(t, m, "capital", spec.Request{Messages: []chat.Message{chat.User("The capital of France?")}})
//		a.Check(t, spectest.Contains("Paris"))
//	}
//
// An answer depends on model, prompt and options, and on nothing else: not on the processor, threads, drafts or what
// is computed beside it. So a golden file, testdata/NAME.golden.json, is committed once and holds on every machine.
//
//	go test ./...                               compares
//	go test -run TestAnswers -spectest.update   writes the files of these tests anew; so does SPEC_UPDATE=1
//	go test -short ./...                        runs no model where the file is about this model and this request
//
// The flag is not -update: many tests register that, and a flag that is registered twice ends the program. Packages
// whose tests do not import this one do not know the flag; SPEC_UPDATE=1 is for all of them.
//
// What the answer must be beside that is said by checks: [Contains], [JSON], [Called], [Similar] (by embeddings) and
// [Judged] (by what a model answers about it). "spec eval" runs cases of a file of JSON lines without Go; [ParseLine]
// reads one.
//
// # What is compared
//
// A file holds what determines the answer (the model's fingerprint and conversion, template, clock, options, the
// prompt's token ids), then the answer: its text, reasoning and calls, each token with the log-probability that the
// model gave it, why it ended, and the receipt ([speculative.Receipt]). Where a file is about the model and the request
// of the test, [Run] confirms the receipt: one pass over prompt and answer, at the speed of prefill. That does not
// compute the log-probabilities again, and text, reasoning and calls are the file's, as its tokens were read. An answer
// under a constraint (a schema, a grammar, required or strict calls, a thinking budget) has no receipt; it is written
// and read again, and its log-probabilities are compared too.
//
// Whatever is not as in the file fails the test, also where the answer is the same. The message says which of model,
// template, clock, option and prompt differs, and shows the first token that changed with its probabilities then and
// now.
//
// # What can still differ
//
// Between two runs with the same file of the model, the same options and the same prompt nothing differs but: a newer
// version of this module with other numeric rules (engine.NumericRules, which the file holds), or one that renders the
// template or splits text into tokens in another way, which shows as a prompt that differs, or reads calls in another
// way, which shows as a text or calls that differ where the answer has no receipt. The clock that templates read stands
// still at [Clock], unless Options.Clock says otherwise. Requests whose answer depends on the machine or on chance are
// refused: a time limit (Request.Lines), verifiers whose tokens depend on drafts (rejection, block), a function of the
// caller's in the place of a constraint or drafter.
package spectest
