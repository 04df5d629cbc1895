package engine

import (
	"cmp"
	"fmt"

	"github.com/specgo/spec/tensor"
)

// ropes are what a model's layers know of positions.
type ropes struct {
	full, window *tensor.RopeTable  // of layers without and with a window; nil: not rotated
	options      tensor.RopeOptions // of full
	slopes       []float32          // ALiBi; nil: none
}

// style is the pairing as the kernels name it.
func (r rotation) style() tensor.RopeStyle {
	if r == halves {
		return tensor.RopeHalves
	}
	return tensor.RopeInterleaved
}

// ropes makes the tables of rotary position embeddings (Su et al. 2021, arXiv:2104.09864): rope.dimension_count
// numbers of each head are rotated, pair i by position * base^(-2i/n) / factor_i radians, with the scaling of
// rope.scaling.*.
func (l *loader) ropes(c *Config, f *family) (r ropes) {
	if f.rope.alibi > 0 {
		r.slopes = tensor.ALiBiSlopes(c.Heads, float64(f.rope.alibi))
	}
	if f.rope.pairing == none {
		return r
	}
	c.RopeDims = l.integerOr("rope.dimension_count", c.HeadDim)
	c.RopeBase = l.floatOr("rope.freq_base", cmp.Or(f.rope.base, 10000))
	if c.RopeDims < 2 || c.RopeDims > c.HeadDim || c.RopeDims%2 != 0 {
		l.fail("rope.dimension_count", ErrValue, "%d of a head's %d dimensions", c.RopeDims, c.HeadDim)
	}
	o := tensor.RopeOptions{Dims: c.RopeDims, Base: float64(c.RopeBase)}
	if o.Magnitude = float64(l.floatOr("rope.scaling.attn_factor", 1)); o.Magnitude == 0 {
		l.fail("rope.scaling.attn_factor", ErrValue, "%v", o.Magnitude)
	}
	factors := l.ropeScaling(c, f.rope.keys, &o)
	if f.rope.keys&alphaKey != 0 {
		o.Alpha = float64(l.floatOr("rope.scaling.alpha", 0))
	}
	if !l.ok() {
		return r
	}
	if _, err := tensor.NewRopeTable(o); err != nil {
		l.fail("rope.freq_base", ErrValue, "%v: %v", c.RopeBase, err)
		return r
	}
	if factors != "" {
		if o.Factors = l.optional(factors, c.RopeDims/2); o.Factors != nil {
			c.RopeFactors = factors
		}
	}
	if !l.ok() {
		return r
	}
	r.options, r.full = o, l.ropeTable(o, factors)
	r.window = r.full
	if f.attention.windowed != nil {
		if f.rope.windowUnscaled {
			o = unscaled(o)
		}
		base := f.rope.windowBase
		if base == 0 {
			base = c.RopeBase
		}
		o.Base = float64(l.floatOr("rope.freq_base_swa", base))
		if n := f.rope.windowDims; n > 0 {
			if o.Dims = n; n < 2 || n > c.HeadDim || n%2 != 0 {
				l.fail("rope.dimension_count_swa", ErrValue, "%d of a head's %d dimensions", n, c.HeadDim)
				return r
			}
		}
		r.window = l.ropeTable(o, factors)
	}
	return r
}

// windowDims is how many numbers of a head are rotated in layers with a window, where files say it.
func (l *loader) windowDims(c *Config) int {
	return l.integerOr("rope.dimension_count_swa", l.integerOr("rope.dimension_count", c.HeadDim))
}

// unscaled is o without the scaling of rope.scaling.*.
func unscaled(o tensor.RopeOptions) tensor.RopeOptions {
	o.Scale, o.Magnitude, o.Yarn = 1, 1, tensor.Yarn{}
	return o
}

// ropeTable makes a table of angles. factors is the tensor of its factors.
func (l *loader) ropeTable(o tensor.RopeOptions, factors string) *tensor.RopeTable {
	t, err := tensor.NewRopeTable(o)
	if err != nil {
		l.keep(fmt.Errorf("%s: tensor %q: %w: %w", l.f.Name, factors, ErrDamaged, err))
	}
	return t
}

// originalContext is the context that a model was trained with before its positions were scaled.
func (l *loader) originalContext(c *Config) int {
	const key = "rope.scaling.original_context_length"
	n := l.integerOr(key, c.Context)
	if n < 1 {
		l.fail(key, ErrValue, "%d", n)
		return 1
	}
	return n
}

// yarnMagnitude is the key of a magnitude of YaRN's angles that does not follow from the factor.
const yarnMagnitude = "rope.scaling.yarn_attn_factor"

// ropeScaling reads rope.scaling.* into o and returns the name of the tensor of frequency factors, "" if there is
// none. A factor without a type is linear; without a factor there is no scaling.
func (l *loader) ropeScaling(c *Config, keys ropeKeys, o *tensor.RopeOptions) (factors string) {
	if keys&freqFactors != 0 {
		factors = "rope_freqs.weight"
	}
	key := "rope.scaling.factor" // of the factor
	factor, old := l.floatOr(key, 0), l.floatOr("rope.scale_linear", 0)
	if factor == 0 && old != 0 {
		factor, key = old, "rope.scale_linear"
	}
	if factor == 0 {
		factor = 1
	}
	if factor < 1e-3 || factor > 1e6 {
		l.fail(key, ErrValue, "%v", factor)
		return ""
	}
	o.Scale = 1 / float64(factor)
	kind := l.stringOr("rope.scaling.type", "linear")
	original := c.Context
	if kind == "yarn" || kind == "longrope" || keys&longropeOnly != 0 {
		original = l.originalContext(c)
	}
	switch {
	case kind == "none":
		o.Scale = 1
	case kind == "linear":
	case kind == "yarn":
		beta := func(name string, absent float32) float64 { // files that Ollama made have it without yarn_
			return float64(l.positive("rope.scaling.yarn_"+name, l.positive("rope.scaling."+name, absent)))
		}
		o.Yarn = tensor.Yarn{Original: float64(original), Fast: beta("beta_fast", 32), Slow: beta("beta_slow", 1)}
		if keys&yarnMultiplier != 0 {
			o.Yarn.LogMultiplier = float64(l.floatOr("rope.scaling.yarn_log_multiplier", 0))
		}
		if magnitude := l.floatOr(yarnMagnitude, 0); magnitude != 0 && keys&ownMagnitude == 0 {
			o.Magnitude *= float64(magnitude)
			o.Yarn.LogMultiplier = 1 // by which YaRN's own magnitude is 1
		}
	case kind == "longrope" && keys&(longrope|longropeOnly) != 0:
	default:
		l.fail("rope.scaling.type", ErrUnsupported, "%q", kind)
	}
	if keys&longropeOnly != 0 || kind == "longrope" {
		long, short := "rope_factors_long.weight", "rope_factors_short.weight"
		for _, name := range []string{long, short} {
			if l.holds(name) {
				l.tensor(name, c.RopeDims/2) // the one that is not used, too
			}
		}
		context := l.options.RopeContext
		if context == 0 {
			context = c.Context
		}
		if factors = short; context > original {
			factors = long
		}
	}
	return factors
}
