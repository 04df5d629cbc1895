package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// deepseek2 is DeepSeek V2 and V3 (arXiv:2412.19437), R1, Kimi K2, GLM-4.7 Flash and Mistral Large 3: latent attention,
// and groups of experts behind plain layers.
func deepseek2(l *loader, c *Config) family {
	form := latentForm{absent: gateSoftmax}
	if blocks := l.integer("block_count"); c.Vocab == 154880 && (blocks == 47 || blocks == 48) {
		form.absent = gateSigmoid // GLM-4.7 Flash, whose files do not say so
	}
	return latentFamily(l, c, form)
}

// mistral4 is Mistral Small 4: deepseek2 with another magnitude of the angles.
func mistral4(l *loader, c *Config) family {
	return latentFamily(l, c, latentForm{absent: gateSoftmax, reduced: true})
}

// latentForm is what families with latent attention and experts differ in.
type latentForm struct {
	absent  gating   // where a file does not say it; 0: it must
	reduced bool     // the magnitude of the angles, by YaRN's multiplier: see latentScaling
	plain   bool     // there is no such multiplier
	indexed *indexed // layers look at the positions that an index chooses; nil: at all
}

func latentFamily(l *loader, c *Config, form latentForm) family {
	width := l.integerOr("expert_feed_forward_length", c.FeedForward)
	f := family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs, keys: ownMagnitude},
		feed: feedParts{gate: gated, experts: l.experts(c, l.byKeys(form.absent, expertOptions{
			width: width, dense: l.leadingDense(),
		}))},
	}
	s := l.latentSizes(c)
	multiplier := float32(0)
	if !form.plain {
		multiplier = l.floatOr("rope.scaling.yarn_log_multiplier", 0) / 0.1
	}
	one := multiplier != 0 && (multiplier == 1 || !form.reduced) // latentScaling's magnitude of the angles is 1
	if x := l.floatOr(yarnMagnitude, 0); l.ok() && x != 0 && !(one && x == 1) {
		l.fail(yarnMagnitude, ErrUnsupported, "%v", x)
	}
	sharper, length := l.floatOr("attention.temperature_scale", 0), l.integerOr("attention.temperature_length", 0)
	if l.ok() && sharper != 0 && length < 1 {
		l.fail("attention.temperature_length", ErrValue, "%d", length)
	}
	var angles *tensor.RopeTable
	var scale float32
	f.attention.own = func(b *build, i int) mixer {
		if angles == nil {
			angles, scale = b.latentScaling(s, multiplier, form.reduced)
		}
		a := b.latentAttention(i, s, scale, angles)
		if form.indexed != nil {
			a.index, a.only = b.index(i, s, form.indexed, angles), b.first == 0
		}
		if sharper != 0 {
			a.temper = func(p *pass, q []float32) { p.temper(q, sharper, length) }
		}
		return a
	}
	return f
}

// miniCPM3 is MiniCPM 3: latent attention, and scales that no key says.
func miniCPM3(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: halves, keys: longrope | longropeOnly},
		feed:  feedParts{gate: gated},
		scales: scaleParts{
			embedding: 12, residual: float32(1.4 / math.Sqrt(float64(c.Layers))), logit: 256 / float32(c.HiddenSize),
		},
	}
	s := l.latentSizes(c)
	f.attention.own = func(b *build, i int) mixer {
		return b.latentAttention(i, s, headScale(s.nope+s.rot), b.ropes.full)
	}
	return f
}

// plm is PLM 1.8B (arXiv:2503.12167): latent attention, and a feed-forward without a gate.
func plm(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}},
		rope:  ropeParts{pairing: pairs},
		feed:  feedParts{activation: reluSquared},
	}
	s := l.latentSizes(c)
	f.attention.own = func(b *build, i int) mixer {
		return b.latentAttention(i, s, headScale(s.nope+s.rot), b.ropes.full)
	}
	return f
}
