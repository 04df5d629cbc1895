package engine

// glm4 is GLM-4 9B: norms before and after the sublayers.
func glm4(*loader, *Config) family {
	return family{norm: rmsNorm, output: true, rotation: pairs, gateInUp: true}
}
