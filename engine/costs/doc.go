// Package costs answers what a pass of so many rows over a model's weights takes: alone, and for each of several
// sequences that share it. A model's passes teach its [Costs] ([engine.Model.Costs]); schedulers of shared passes and
// schedules of drafts ask them. Time that nobody measured is computed from what was.
//
// A row is a token that goes through all layers and whose logits are wanted. Tokens of prompts, without logits, are
// accounted for by themselves.
package costs
