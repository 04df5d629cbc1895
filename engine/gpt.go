package engine

import "fmt"

// gpt2 is GPT-2 (Radford et al. 2019): LayerNorm, learned position embeddings, GELU.
func gpt2(l *loader, c *Config) family {
	return family{norm: layerNorm, positions: true, activation: gelu}
}

// starcoder is SantaCoder and StarCoder (Li et al. 2023, arXiv:2305.06161): gpt2 with one KV head.
var starcoder = gpt2

// starcoder2 is StarCoder 2 (Lozhkov et al. 2024, arXiv:2402.19173).
func starcoder2(*loader, *Config) family {
	return family{norm: layerNorm, rotation: halves, activation: gelu}
}

// gptNeoX is GPT-NeoX and Pythia (Black et al. 2022, arXiv:2204.06745): a parallel block with a norm for each sublayer, or a sequential one.
func gptNeoX(l *loader, _ *Config) family {
	return family{norm: layerNorm, parallel: l.bool("use_parallel_residual"), rotation: halves, activation: gelu, head: headRequired}
}

// gptJ is GPT-J (Wang and Komatsuzaki 2021) and CodeGen (Nijkamp et al. 2022, arXiv:2203.13474): a parallel block, in which one norm feeds
// both sublayers.
func gptJ(l *loader, _ *Config) family {
	if name := l.block(0) + "attn_qkv.weight"; l.holds(name) { // CodeGen has them fused in groups of q, v, k
		l.keep(fmt.Errorf("%s: tensor %q: queries, keys and values in one matrix: %w", l.f.Name, name, ErrUnsupported))
	}
	return family{norm: layerNorm, parallel: true, rotation: pairs, activation: gelu, head: headRequired, outputBias: true}
}

// opt is OPT (Zhang et al. 2022, arXiv:2205.01068). The model of 350 million parameters normalizes the residual stream after each
// sublayer, and its token embeddings are smaller than hidden states.
func opt(l *loader, c *Config) family {
	f := family{norm: layerNorm, positions: true, activation: relu, head: headTied}
	if l.has("word_embedding_length") {
		f.embeddingSize = l.integer("word_embedding_length")
	}
	if before := l.boolOr("norm_before", true); before {
		f.noFinal = !l.holds("output_norm.weight")
	} else {
		f.noInput, f.after, f.noFinal = true, true, true
	}
	return f
}

// falcon is Falcon (Almazrouei et al. 2023, arXiv:2311.16867): a parallel block; the larger models have a norm for attention, attn_norm_2,
// beside that of the feed-forward, attn_norm.
func falcon(*loader, *Config) family {
	return family{norm: layerNorm, parallel: true, rotation: halves, activation: gelu}
}

// mpt is MPT (MosaicML 2023): ALiBi, clamped queries, keys and values.
func mpt(l *loader, _ *Config) family {
	f := family{
		norm: layerNorm, positions: l.holds("position_embd.weight"), activation: gelu,
		alibi: l.floatOr("attention.max_alibi_bias", 0), clamp: l.floatOr("attention.clamp_kqv", 0),
	}
	if l.holds("blk.0.attn_q_norm.weight") {
		f.qkNorm = perToken
	}
	return f
}

// bloom is BLOOM (Le Scao et al. 2022, arXiv:2211.05100): ALiBi, normalized embeddings.
func bloom(*loader, *Config) family {
	return family{norm: layerNorm, embeddingNorm: true, activation: gelu, alibi: 8}
}

// stableLM is StableLM 2 and StableLM 3B: part of a head is rotated; the larger one is parallel and normalizes queries and keys, each head
// with weights of its own.
func stableLM(l *loader, _ *Config) family {
	f := family{norm: layerNorm, parallel: !l.holds("blk.0.ffn_norm.weight"), rotation: halves, gated: true, head: headRequired}
	if l.holds("blk.0.attn_q_norm.weight") {
		f.qkNorm = ownHead
	}
	return f
}

// nemotron is Nemotron and Minitron (arXiv:2407.14679).
func nemotron(*loader, *Config) family {
	return family{norm: layerNorm, rotation: halves, activation: reluSquared, head: headRequired}
}

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

// gptOSS is gpt-oss (OpenAI 2025, arXiv:2508.10925): attention sinks, windows in every other layer, experts with biases and a clamped gate.
func gptOSS(l *loader, c *Config) family {
	return family{
		norm: rmsNorm, ffnNorm: "post_attention_norm", rotation: halves, sinks: true, gated: true, activation: clampedSiLU, head: headRequired,
		window: l.integer("attention.sliding_window"), windowed: l.window(2),
		experts: l.experts(c, expertOptions{width: l.integer("expert_feed_forward_length"), gating: gateSoftmaxChosen}),
	}
}
