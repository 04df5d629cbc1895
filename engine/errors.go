package engine

import (
	"errors"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/tensor"
)

// Errors that callers tell apart with errors.Is. They are returned wrapped, with the file, the key
// or tensor, and the numbers in the message.
var (
	// Of files.
	ErrArchitecture = errors.New("architecture not supported")
	ErrUnsupported  = errors.New("not supported")             // a key or tensor that would change the result
	ErrValue        = errors.New("impossible value")          // of a key: out of range, or contradicted by the file
	ErrMissing      = errors.New("tensor missing")            // that the architecture needs
	ErrShape        = errors.New("unexpected tensor shape")   // the hyperparameters say another
	ErrWeightType   = errors.New("weight type not supported") // of a tensor, or in Options.Weights
	// weights that are not finite numbers, or not what was written
	ErrDamaged = panels.ErrDamaged

	// Of calls.
	ErrVocabulary  = sampling.ErrVocabulary // as ErrSampling: of tokens and their choice
	ErrContextFull = errors.New("context full")
	ErrNotFinite   = errors.New("activations are not finite")
	ErrSampling    = sampling.ErrSampling
	ErrClosed      = errors.New("already closed") // the Model, its Runtime or the Session
	ErrUsage       = errors.New("call not allowed here")
	ErrInput       = errors.New("no encoder input")                 // that a model takes, or no encoder that takes it
	ErrPanic       = errors.New("panic in a pass")                  // of a Scheduler (package shared); the process goes on
	ErrKVBudget    = errors.New("larger than the KV memory budget") // a Scheduler's sequence, by itself
	ErrMemory      = tensor.ErrMemory                               // the operating system refused
)
