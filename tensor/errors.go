package tensor

import (
	"errors"
	"fmt"
)

// Errors, wrapped with what was wrong.
var (
	ErrShape     = errors.New("wrong shape")             // sizes that do not fit together, or an index out of range
	ErrType      = errors.New("unsupported type")        // a type that is unknown or cannot do what was asked
	ErrNotFinite = errors.New("not a finite number")     // NaN or infinity among activations or weights
	ErrClosed    = errors.New("already closed")          // a Matrix or KV after its Close
	ErrFull      = errors.New("key-value cache is full") // more slots than KVShape.Context
	ErrMemory    = errors.New("cannot allocate memory")  // the operating system refused
	ErrThreads   = errors.New("impossible thread count") // Options.Threads below 0 or above MaxThreads
	ErrNUMA      = errors.New("no such placement")       // an Options.NUMA that is unknown or cannot be had here
)

func shapeError(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrShape)...)
}
