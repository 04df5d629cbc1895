package engine

import (
	"math"

	"github.com/specgo/spec/tensor"
)

// afmoe is Trinity (Arcee): norms before and after the sublayers, gates of attention's result, windows in three of four
// layers, which alone are rotated, and experts behind plain layers.
func afmoe(l *loader, c *Config) family {
	f := qwen3(l, c)
	f.norms.at = atBoth
	f.scales.embedding = float32(math.Sqrt(float64(c.HiddenSize)))
	windowed := l.fixedWindow(func(layer int) bool { return layer%4 < 3 })
	if f.attention.window = l.integerOr("attention.sliding_window", 0); f.attention.window > 0 {
		f.attention.windowed = windowed
	}
	f.rope.layers = windowed
	f.attention.own = func(b *build, i int) mixer { return b.outputGate(i, c.HeadDim, tensor.Sigmoid) }
	f.feed.experts = l.experts(c, l.byKeys(gateSigmoid, expertOptions{
		width: l.integerOr("expert_feed_forward_length", c.FeedForward), mustChoose: true, dense: l.leadingDense(),
	}))
	return f
}
