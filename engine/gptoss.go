package engine

// gptOSS is gpt-oss (OpenAI 2025, arXiv:2508.10925): attention sinks, windows in every other layer, experts with biases and a clamped gate.
func gptOSS(l *loader, c *Config) family {
	return family{
		norm: rmsNorm, ffnNorm: "post_attention_norm", rotation: halves, sinks: true, gated: true, activation: clampedSiLU, head: headRequired,
		window: l.integer("attention.sliding_window"), windowed: l.window(2),
		experts: l.experts(c, expertOptions{width: l.integer("expert_feed_forward_length"), gating: gateSoftmaxChosen}),
	}
}
