// Package shared lets sessions of many goroutines share passes over one model's weights: a [Scheduler] hands out each
// [Session], which behaves like an engine.Session of its own.
//
//	c := shared.New(model, shared.Options{})
//	defer c.Close()
//	s, err := c.NewSession(ctx, shared.SessionOptions{}) // one for each goroutine
//	logits, err := s.Eval(ctx, tokens, nil, engine.Last)
package shared
