// Package costs answers what a pass of so many rows over a model's weights takes: alone, and for each of several
// sequences that share it. A model's passes teach its [Costs] ([engine.Model.Costs]); schedulers of shared passes and
// schedules of drafts ask them. Time that nobody measured is computed from what was.
//
//	c := model.Costs(0)   // of all layers
//	c.At(1)               // seconds of a pass that decodes one token
//	c.At(8) / c.At(1)     // what the verification of 7 drafted tokens costs beside it
//
// A row is a token that goes through all layers and whose logits are wanted. Tokens of prompts, without logits, are
// accounted for by themselves.
package costs
