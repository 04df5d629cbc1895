package engine

// nemotron is Nemotron and Minitron (arXiv:2407.14679).
func nemotron(*loader, *Config) family {
	return family{norm: layerNorm, rotation: halves, activation: reluSquared, head: headRequired}
}
