package engine

// family says which parts of a decoder an architecture has and where a file keeps them. The zero value of a part is
// what most architectures have. What one family alone has is in that family's file: a norm is a normKind, and the
// functions below read sublayers of its own, or what comes before the blocks. decoder.go has the block itself.
type family struct {
	norms     normParts
	rope      ropeParts
	attention attentionParts
	feed      feedParts
	scales    scaleParts
	ends      endParts

	mixer func(b *build, i int) mixer  // reads layer i's, instead of attention; nil, or a nil one: attention
	end   func(b *build, i int) ending // reads what comes at the end of layer i; nil: nothing
}

// normParts are the norms around sublayers.
type normParts struct {
	kind     normKind
	at       normPlaces
	parallel bool              // both sublayers read the block's input
	names    map[string]string // of norms that the file calls otherwise, and that of an MTP block; "": not there
	lacking  bool              // the first block may lack attn_norm: attention reads its input as it is

	postEpsilon float32 // of the norms of outputs; 0: that of the others
}

// normPlaces is where a block's norms are.
type normPlaces uint8

const (
	atInputs   normPlaces = iota // of the sublayers' inputs: b.attn_norm, b.ffn_norm
	atOutputs                    // of their outputs: b.post_attention_norm, b.post_ffw_norm
	atBoth                       // of inputs and outputs
	atMixer                      // of the input of a block's only sublayer, which the mixer is: b.attn_norm
	atResidual                   // of the residual stream after each sublayer: b.attn_norm, b.ffn_norm
)

// ropeParts are positions that are not learned.
type ropeParts struct {
	pairing rotation
	layers  func(layer int) bool // that are rotated; nil: all
	keys    ropeKeys
	alibi   float32 // the greatest ALiBi bias; 0: none
	base    float32 // rope.freq_base of a file that does not say it; 0: 10000

	windowBase     float32 // rope.freq_base of layers with a window; 0: that of the others
	windowDims     int     // of a head that are rotated in layers with a window; 0: as in the others
	windowUnscaled bool    // layers with a window are rotated without scaling
}

// rotation is the pairing of rotary position embeddings.
type rotation uint8

const (
	none   rotation = iota
	pairs           // 2i and 2i+1
	halves          // i and i + n/2
)

// ropeKeys are the scalings of rotary position embeddings that are known of an architecture, beside linear ones and
// YaRN.
type ropeKeys uint8

const (
	freqFactors    ropeKeys = 1 << iota // rope_freqs.weight
	longrope                            // rope.scaling.type "longrope": rope_factors_long and rope_factors_short
	longropeOnly                        // those are there whatever the type is
	yarnMultiplier                      // rope.scaling.yarn_log_multiplier, as in the table of angles
	ownMagnitude                        // the magnitude of YaRN's angles is the family's own affair
	alphaKey                            // rope.scaling.alpha
)

// attentionParts are those of attention.
type attentionParts struct {
	norms    qkNorm
	scale    float32                     // of scores; 0: 1/sqrt(d)
	clamp    float32                     // of queries, keys and values; 0: none
	window   int                         // positions
	windowed func(layer int) bool        // layers with a window; nil: none
	both     bool                        // to later tokens, too: the window is as wide to both sides together
	own      func(b *build, i int) mixer // reads layer i's; nil: build.attention does
}

// qkNorm says what the norms of queries and keys, b.attn_q_norm and b.attn_k_norm, take together.
type qkNorm uint8

const (
	noQK        qkNorm = iota
	perHead            // a head; weights [d]
	perHeadLast        // likewise, after the rotation
	perToken           // all heads at once; weights [H*d] and [K*d]
	ownHead            // a head; weights for each, [H][d] and [K][d]
)

// feedParts are those of the feed-forward.
type feedParts struct {
	activation activation // nil: silu
	gate       gatePlace
	experts    *expertOptions                 // instead of it; nil: none
	own        func(b *build, i int) sublayer // reads layer i's; nil: the feed-forward or the experts
}

// gatePlace is where the matrix of a feed-forward's gate is.
type gatePlace uint8

const (
	ungated  gatePlace = iota // nowhere
	gated                     // ffn_gate beside ffn_up
	gateInUp                  // the first half of ffn_up's rows
)

// scaleParts are factors; 0: none.
type scaleParts struct{ embedding, residual, logit, logitCap float32 }

// endParts are what is before and after the blocks.
type endParts struct {
	// reads the embedding, and makes the network of m; nil: token_embd, and m
	start      func(b *build, m *decoder) network
	positions  bool // learned embeddings, position_embd
	output     outputPlace
	outputBias bool // output.bias is known

	// of encoders
	tokenTypes    typeKey
	embeddingNorm bool // token_embd_norm
}

// outputPlace says where the output matrix is.
type outputPlace uint8

const (
	outputOptional outputPlace = iota // output.weight, or the embedding
	outputRequired
	outputTied // always the embedding
)
