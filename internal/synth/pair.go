package synth

// The shapes to which the embedded pair is enlarged, for `spec synth` and for the figures of the documentation.
var (
	// LargeTarget has 0.98 billion parameters: 1.05 GB as Q8_0.
	LargeTarget = Shape{Name: "target-1b", HiddenSize: 2048, Layers: 16, Heads: 32, KVHeads: 8, FeedForward: 8192}
	// LargeDrafts are for one draft model, from the smallest on. Its heads keep their size of 64.
	LargeDrafts = []Shape{
		{Name: "draft-5m", HiddenSize: 256, Layers: 4, Heads: 4, FeedForward: 1024},
		{Name: "draft-14m", HiddenSize: 384, Layers: 6, Heads: 6, FeedForward: 1536},
		{Name: "draft-50m", HiddenSize: 640, Layers: 9, Heads: 10, FeedForward: 2560},
		{Name: "draft-91m", HiddenSize: 768, Layers: 12, Heads: 12, FeedForward: 3072},
		{Name: "draft-246m", HiddenSize: 1280, Layers: 12, Heads: 20, FeedForward: 5120},
	}
)
