package engine

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/tensor"
)

// apertus is Apertus (Swiss AI 2025, arXiv:2509.14233): normalized queries and keys, a feed-forward without a gate with
// an activation whose numbers are trained.
func apertus(l *loader, c *Config) family {
	f := qwen3(l, c)
	f.rope.keys, f.ends.output, f.feed.gate = freqFactors|longrope, outputRequired, ungated
	alphaN, alphaP := l.ofLayers("alpha_n"), l.ofLayers("alpha_p")
	beta, eps := l.ofLayers("beta"), l.ofLayers("eps")
	f.feed.own = func(b *build, i int) sublayer {
		ffn := b.feedForward(b.block(i), "", b.ffn[i])
		if b.ok() {
			ffn.act = xIELU{newXIELU(alphaN[i], alphaP[i], beta[i], eps[i])}
		}
		return ffn
	}
	return f
}

// xieluKeys begins the keys of the activation's numbers. They do not begin with the architecture's name.
const xieluKeys = "xielu."

// ofLayers is a number of the activation for every layer, or one for all.
func (l *loader) ofLayers(name string) []float32 {
	if !l.ok() {
		return nil
	}
	key := xieluKeys + name
	l.keys[key] = true
	list, err := l.f.Float32s(key)
	if x, single := l.f.Float32(key); single == nil {
		list, err = slices.Repeat([]float32{x}, l.layers), nil
	}
	l.keep(err)
	if l.ok() && (len(list) < l.layers || !tensor.Finite(list)) {
		l.keep(fmt.Errorf("%s: key %q: %v, expected a number for each of %d blocks: %w", l.f.Name, key, list, l.layers,
			ErrValue))
	}
	return list
}

// xIELU is x -> ap x² + beta x above 0, and an (exp(min(x, eps)) - 1 - x) + beta x below, with ap and an of what is
// trained (Huang and Schlag 2024, arXiv:2411.13010).
type xIELU struct{ f func(float32) float32 }

func newXIELU(alphaN, alphaP, beta, eps float32) func(float32) float32 {
	ap, an := tensor.Softplus(alphaP), beta+tensor.Softplus(alphaN)
	return func(x float32) float32 {
		if x > 0 {
			return float32(float32(ap*x)*x) + float32(beta*x)
		}
		return float32(an*(tensor.Exp(min(x, eps))-1-x)) + float32(beta*x)
	}
}

func (a xIELU) alone(p *pass, x []float32)        { p.each(x, a.f) }
func (a xIELU) gated(p *pass, gate, up []float32) { p.each(gate, a.f); p.mul(gate, up) }
