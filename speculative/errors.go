package speculative

import "errors"

var (
	// ErrPrompt is returned for an empty prompt: there must be a token to predict from.
	ErrPrompt = errors.New("empty prompt")
	// ErrOptions is returned for options, sequences, models or drafters that are missing or contradict each other.
	ErrOptions = errors.New("options")
	// ErrNoToken is returned when bans and biases leave no token to choose, or the logits are not numbers.
	ErrNoToken = errors.New("no token can be chosen")
)
