package engine

import (
	"math"
)

// windowed reports whether a layer has a sliding window.
func (r *reference) windowed(layer int) bool {
	if r.is("lfm2", "lfm2moe") {
		return r.number("attention.sliding_window", 0) > 0
	}
	period, ok := map[string]int{"gemma2": 2, "gemma3": 6, "cohere2": 4, "gpt-oss": 2, "olmo2": 4, "gemma4": 6,
		"granite_swa": 1, "muse-glimmer": 4, "spark2_5": 1}[r.arch]
	if !ok || r.number("attention.sliding_window", 0) == 0 && r.arch != "gemma2" {
		return false
	}
	if v, ok := r.f.Value(r.arch + ".attention.sliding_window_pattern"); ok {
		if list, ok := v.([]bool); ok {
			return list[layer]
		}
	}
	period = r.integer("attention.sliding_window_pattern", period)
	return period == 0 || layer%period < period-1
}

// rotated reports whether a layer's queries and keys are rotated.
func (r *reference) rotated(layer int) bool {
	switch r.arch {
	case "gpt2", "starcoder", "mpt", "bloom", "opt":
		return false
	case "smollm3":
		return (layer+1)%4 != 0
	case "cohere2", "muse-glimmer":
		return r.windowed(layer)
	case "granite_swa":
		list, _ := r.f.Value("granite_swa.attention.rope_pattern")
		all, ok := list.([]bool)
		return !ok || all[layer]
	case "granite", "granitemoe", "granitehybrid":
		return r.flag("rope.scaling.finetuned", true)
	}
	return true
}

// ropeContext is the Options.RopeContext of the tests.
const ropeContext = 256

// rotate rotates the pairs of every head of x by the angles of a position.
func (r *reference) rotate(x []float64, headDim, position, layer int) {
	n := r.integer("rope.dimension_count", headDim)
	if r.windowed(layer) {
		n = r.integer("rope.dimension_count_swa", n)
	}
	base, scale, magnitude := r.number("rope.freq_base", 10000), 1.0, r.number("rope.scaling.attn_factor", 1)
	if factor := r.number("rope.scaling.factor", 0); factor != 0 {
		scale = factor
	} else if old := r.number("rope.scale_linear", 0); old != 0 {
		scale = old
	}
	kind, _ := r.f.String(r.arch + ".rope.scaling.type")
	if alpha := r.number("rope.scaling.alpha", 0); alpha > 0 {
		base *= math.Pow(alpha, float64(n)/float64(n-2))
	}
	window := r.windowed(layer)
	if window {
		other := base
		if r.is("gemma3", "gemma4") {
			other = 10000
		}
		base = r.number("rope.freq_base_swa", other)
	}
	if window && r.is("gemma3", "gemma4", "olmo2") {
		scale, magnitude, kind = 1, 1, "none"
	}
	if kind == "none" {
		scale = 1
	}
	original := r.number("rope.scaling.original_context_length", r.number("context_length", 0))
	factors := r.t["rope_freqs.weight"]
	if window && r.arch == "gemma4" {
		factors = nil
	}
	if r.t["rope_factors_long.weight"] != nil {
		factors = r.t["rope_factors_short.weight"]
		if ropeContext > original {
			factors = r.t["rope_factors_long.weight"]
		}
	}
	low, high := 0.0, 0.0
	if kind == "yarn" {
		fast, slow := r.number("rope.scaling.yarn_beta_fast", 32), r.number("rope.scaling.yarn_beta_slow", 1)
		multiplier := 0.0
		if r.arch == "mistral3" {
			multiplier = r.number("rope.scaling.yarn_log_multiplier", 0)
		}
		pair := func(turns float64) float64 {
			return float64(n) * math.Log(original/(turns*2*math.Pi)) / (2 * math.Log(base))
		}
		low, high = math.Max(0, math.Floor(pair(fast))), math.Min(float64(n-1), math.Ceil(pair(slow)))
		if said := r.number(yarnMagnitude, 0); said > 0 {
			magnitude *= said
		} else if scale > 1 {
			magnitude *= (1 + 0.1*math.Log(scale)) / (1 + 0.1*multiplier*math.Log(scale))
		}
	}
	halves := r.is("qwen2", "qwen2moe", "qwen3", "qwen3moe", "qwen3vl", "gemma", "gemma2", "gemma3", "phi2", "phi3",
		"gptneox", "starcoder2", "falcon", "stablelm",
		"nemotron", "olmo2", "olmoe", "exaone", "exaone4", "gpt-oss", "hunyuan-dense", "lfm2", "lfm2moe", "falcon-h1",
		"qwen35", "qwen35moe", "gemma4", "spark2_5", "dflash")
	for h := 0; h < len(x); h += headDim {
		for i := range n / 2 {
			angle := float64(position) * math.Pow(base, -2*float64(i)/float64(n))
			if factors != nil {
				angle /= factors[i]
			}
			keep := 0.0
			if kind == "yarn" {
				keep = 1 - math.Min(math.Max((float64(i)-low)/math.Max(0.001, high-low), 0), 1)
			}
			angle = angle*keep + angle/scale*(1-keep)
			first, second := h+2*i, h+2*i+1
			if halves {
				first, second = h+i, h+i+n/2
			}
			sin, cos := math.Sincos(angle)
			a, b := x[first], x[second]
			x[first], x[second] = (a*cos-b*sin)*magnitude, (a*sin+b*cos)*magnitude
		}
	}
}
