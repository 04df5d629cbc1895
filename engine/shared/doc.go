// Package shared lets sessions of many goroutines share passes over one model's weights: a [Scheduler] hands out each
// [Session], which behaves like an engine.Session of its own.
package shared
