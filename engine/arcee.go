package engine

// arcee is Arcee AFM: a feed-forward without a gate.
func arcee(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: pairs, factors: true, activation: reluSquared}
}
