package engine

import "errors"

// Errors that callers tell apart with errors.Is. They are returned wrapped, with the file, the key
// or tensor, and the numbers in the message.
var (
	ErrArchitecture = errors.New("architecture not supported")
	ErrTensor       = errors.New("tensor missing or not usable")
	ErrShape        = errors.New("wrong shape")
	ErrVocabulary   = errors.New("token not in the vocabulary")
	ErrContextFull  = errors.New("context full")
	ErrNotFinite    = errors.New("activations are not finite")
	ErrSampling     = errors.New("sampling option out of range")
	ErrUsage        = errors.New("call not allowed here")
)
