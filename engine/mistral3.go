package engine

// mistral3 is Ministral 3: YaRN with keys of its own, and attention that gets sharper with the position.
func mistral3(l *loader, c *Config) family {
	return family{
		norm: rmsNorm, rotation: pairs, factors: true, longrope: true, yarnKeys: true, gated: true,
		warmth: temperature{l.floatOr("attention.temperature_scale", 0), l.originalContext(c)},
	}
}
