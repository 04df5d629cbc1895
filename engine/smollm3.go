package engine

// smollm3 is SmolLM 3: every fourth layer is not rotated.
func smollm3(*loader, *Config) family {
	return family{norm: rmsNorm, rotation: pairs, rotates: func(i int) bool { return (i+1)%4 != 0 }, gated: true}
}
