package engine

// commandR is Command R: a parallel block, scaled logits. The models of 64 and more blocks normalize queries and keys.
func commandR(l *loader, c *Config) family {
	f := family{norm: layerNorm, parallel: true, rotation: pairs, gated: true, head: headTied, logitScale: l.floatOr("logit_scale", 0)}
	if c.Layers >= 64 {
		f.qkNorm = ownHead
	}
	return f
}

// cohere2 is Command R7B and Aya: as commandR, with windows in three of four layers; only these are rotated.
func cohere2(l *loader, _ *Config) family {
	f := family{norm: layerNorm, parallel: true, rotation: pairs, gated: true, head: headTied, logitScale: l.float("logit_scale")}
	f.window, f.windowed = l.integer("attention.sliding_window"), l.window(4)
	f.rotates = f.windowed
	return f
}
