package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Mixture says which type each tensor of a model gets. The names and the choices are llama.cpp's: most matrices get
// the base type, and those that matter more, or come in fewer bytes, one with more bits.
type Mixture struct {
	Name     string
	FileType uint32 // value of the key general.file_type

	base   tensor.Type
	pure   bool        // all matrices get the base type
	output tensor.Type // of the output matrix; F32: Q6_K
	rules  []rule      // the first that is for a matrix chooses its type
	falcon []rule      // in their place of a Falcon; nil: rules
	eight  tensor.Type // of attn_output where there are 8 experts; F32: as otherwise
	tiny   bool        // 2 bits: attn_v and attn_k have fewer bits than in the others where there are experts
}

// rule is a type for some parts of some layers.
type rule struct {
	parts part
	to    tensor.Type
	when  func(i, n int, m Facts) bool // of layer i of n; nil: always
}

// part is what a matrix is for; several make a set.
type part int

const (
	query part = 1 << iota
	key
	value
	fused // the three in one
	attention
	gate
	up
	down
	embedding
	kvLatent // keys and values are made of it

	values = value | fused | kvLatent // what a loss of precision shows in first
)

// parts are what the matrices' names have in them, in the order in which llama.cpp looks.
var parts = []struct {
	name string
	part part
}{
	{"attn_qkv.weight", fused}, {"attn_kv_b.weight", kvLatent}, {"attn_v.weight", value}, {"attn_k.weight", key},
	{"attn_q.weight", query}, {"attn_output.weight", attention}, {"ffn_up", up}, {"ffn_gate", gate}, {"ffn_down", down},
}

func partOf(name string) part {
	if name == "token_embd.weight" || name == "per_layer_token_embd.weight" {
		return embedding
	}
	for _, p := range parts {
		if strings.Contains(name, p.name) {
			return p.part
		}
	}
	return 0
}

// Which layers, and which models.
func firstEighth(i, n int, _ Facts) bool    { return i < n/8 }
func firstSixteenth(i, n int, _ Facts) bool { return i < n/16 }
func firstTwo(i, _ int, _ Facts) bool       { return i < 2 }
func firstFour(i, _ int, _ Facts) bool      { return i < 4 }
func middle(i, n int, _ Facts) bool         { return i >= n/8 && i < 7*n/8 }
func grouped(_, _ int, m Facts) bool        { return m.KVHeads > 0 && m.Heads/m.KVHeads >= 4 }
func groupedOrExperts(i, n int, m Facts) bool {
	return grouped(i, n, m) || m.Experts >= 4
}
func firstEighthOrMore(i, n int, m Facts) bool {
	return i < n/8 || m.Experts == 8 && more(i, n, m)
}
func blind(_, _ int, m Facts) bool            { return !m.Importance }
func blindFirstEighth(i, n int, m Facts) bool { return !m.Importance && i < n/8 }
func knownFirstEighth(i, n int, m Facts) bool { return m.Importance && i < n/8 }

// more are those layers whose attn_v and ffn_down get more bits: the first and the last eighth, and of the others every
// third.
func more(i, n int, _ Facts) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// mixtures are those whose types can all be written, the one with the most bits per weight first.
var mixtures = []Mixture{
	{Name: "F32", FileType: 0, base: tensor.F32},
	{Name: "F16", FileType: 1, base: tensor.F16},
	{Name: "BF16", FileType: 32, base: tensor.BF16},
	{Name: "Q8_0", FileType: 7, base: tensor.Q8_0},
	{Name: "Q6_K", FileType: 18, base: tensor.Q6_K},
	{Name: "Q5_1", FileType: 9, base: tensor.Q5_1},
	{Name: "Q5_K_M", FileType: 17, base: tensor.Q5_K, rules: []rule{{values | down, tensor.Q6_K, more}}},
	{Name: "Q5_K_S", FileType: 16, base: tensor.Q5_K},
	{Name: "Q5_0", FileType: 8, base: tensor.Q5_0, rules: []rule{{down, tensor.Q5_1, knownFirstEighth}}},
	{Name: "Q4_1", FileType: 3, base: tensor.Q4_1},
	{Name: "Q4_K_M", FileType: 15, base: tensor.Q4_K, eight: tensor.Q5_K,
		rules:  []rule{{values | down, tensor.Q6_K, more}},
		falcon: []rule{{values, tensor.Q6_K, more}, {down, tensor.Q6_K, firstSixteenth}, {down, tensor.Q5_K, more}}},
	{Name: "Q4_K_S", FileType: 14, base: tensor.Q4_K, eight: tensor.Q5_K,
		rules:  []rule{{values, tensor.Q5_K, firstFour}, {down, tensor.Q5_K, firstEighth}},
		falcon: []rule{{values, tensor.Q5_K, firstFour}}},
	{Name: "IQ4_NL", FileType: 25, base: tensor.IQ4_NL, eight: tensor.Q5_K,
		rules: []rule{{values, tensor.Q5_K, grouped}, {down, tensor.Q5_K, blindFirstEighth}}},
	{Name: "Q4_0", FileType: 2, base: tensor.Q4_0, rules: []rule{{down, tensor.Q4_1, knownFirstEighth}}},
	{Name: "IQ4_XS", FileType: 30, base: tensor.IQ4_XS, eight: tensor.Q5_K,
		rules: []rule{{values, tensor.Q5_K, grouped}, {down, tensor.Q5_K, blindFirstEighth}}},
	{Name: "Q3_K_L", FileType: 13, base: tensor.Q3_K, eight: tensor.Q3_K,
		rules:  []rule{{values | down | attention, tensor.Q5_K, nil}},
		falcon: []rule{{values, tensor.Q5_K, nil}, {down | attention, tensor.Q4_K, nil}}},
	{Name: "Q3_K_M", FileType: 12, base: tensor.Q3_K, eight: tensor.Q5_K, rules: []rule{{values, tensor.Q5_K, firstTwo},
		{down, tensor.Q5_K, firstSixteenth}, {values | down | attention, tensor.Q4_K, nil}},
		falcon: []rule{{values, tensor.Q5_K, firstTwo}, {values, tensor.Q4_K, nil}, {down, tensor.Q5_K, firstSixteenth},
			{down, tensor.Q4_K, more}}},
	{Name: "IQ3_M", FileType: 27, base: tensor.IQ3_S, eight: tensor.Q5_K,
		rules:  []rule{{values | attention, tensor.Q4_K, nil}, {down, tensor.Q4_K, firstEighthOrMore}},
		falcon: []rule{{values, tensor.Q4_K, nil}, {down, tensor.Q4_K, firstEighth}}},
	{Name: "Q3_K_S", FileType: 11, base: tensor.Q3_K, eight: tensor.Q5_K},
	{Name: "IQ3_S", FileType: 26, base: tensor.IQ3_S, eight: tensor.Q5_K, rules: []rule{{values, tensor.Q4_K, grouped}}},
	{Name: "IQ3_XS", FileType: 22, base: tensor.IQ3_S, eight: tensor.Q5_K, rules: []rule{{values, tensor.Q4_K, grouped},
		{query | key, tensor.IQ3_XXS, nil}, {gate | up, tensor.IQ3_XXS, middle}}},
	{Name: "IQ3_XXS", FileType: 23, base: tensor.IQ3_XXS, output: tensor.Q5_K, eight: tensor.Q5_K,
		rules: threeBits(attention), falcon: threeBits(0)},
	{Name: "Q2_K", FileType: 10, base: tensor.Q2_K, eight: tensor.Q5_K,
		rules:  []rule{{values, tensor.Q4_K, grouped}, {values | down | attention, tensor.Q3_K, nil}},
		falcon: []rule{{values, tensor.Q4_K, grouped}, {values | down, tensor.Q3_K, nil}}},
	{Name: "IQ2_M", FileType: 29, base: tensor.IQ2_S, output: tensor.Q5_K, eight: tensor.Q5_K, tiny: true,
		rules: twoBits(tensor.IQ3_S, true)},
	{Name: "Q2_K_S", FileType: 21, base: tensor.Q2_K,
		rules: []rule{{values, tensor.Q4_K, grouped}, {down, tensor.Q4_K, firstEighth}}},
	{Name: "IQ2_S", FileType: 28, base: tensor.IQ2_XS, output: tensor.Q5_K, eight: tensor.Q5_K, tiny: true,
		rules: twoBits(tensor.IQ3_S, true)},
	{Name: "IQ2_XS", FileType: 20, base: tensor.IQ2_XS, output: tensor.Q5_K, eight: tensor.Q5_K, tiny: true,
		rules: twoBits(tensor.Q2_K, false)},
	{Name: "IQ2_XXS", FileType: 19, base: tensor.IQ2_XXS, output: tensor.Q5_K, eight: tensor.Q5_K, tiny: true,
		rules: twoBits(tensor.Q2_K, false)},
	{Name: "TQ2_0", FileType: 37, base: tensor.TQ2_0, rules: []rule{{embedding, tensor.Q4_K, nil}}},
	{Name: "TQ1_0", FileType: 36, base: tensor.TQ1_0, rules: []rule{{embedding, tensor.Q4_K, nil}}},
}

// threeBits are the rules of IQ3_XXS, with those parts in the type better.
func threeBits(better part) []rule {
	return []rule{{embedding | better, tensor.IQ3_S, nil}, {values, tensor.Q4_K, grouped}, {values, tensor.IQ3_S, blind},
		{query | key, tensor.IQ2_S, nil}, {down, tensor.Q4_K, blindFirstEighth}, {down, tensor.Q3_K, blind}}
}

// twoBits are the rules of the mixtures of 2 bits, where what matters more gets the type better.
func twoBits(better tensor.Type, output bool) []rule {
	list := []rule{{values, tensor.Q4_K, groupedOrExperts}, {values | embedding, better, nil}, {down, better, firstEighth}}
	if output {
		list = append(list, rule{attention, better, nil})
	}
	return list
}

// aliases are other names, llama.cpp's too.
var aliases = map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

// Mixtures lists the names of the mixtures.
func Mixtures() (names []string) {
	for _, m := range mixtures {
		names = append(names, m.Name)
	}
	return names
}

// FindMixture finds a mixture by its name, in any case. "Q3_K", "Q4_K" and "Q5_K" are the mixtures that end in _M.
func FindMixture(name string) (Mixture, error) {
	upper := strings.ToUpper(name)
	if a, ok := aliases[upper]; ok {
		upper = a
	}
	for _, m := range mixtures {
		if m.Name == upper {
			return m, nil
		}
	}
	return Mixture{}, fmt.Errorf("no type %q to write (there are %s)", name, strings.Join(Mixtures(), ", "))
}

// PureMixture is the mixture of nothing but the type of that name, in any case, which is one that can be written.
func PureMixture(name string) (Mixture, error) {
	t, err := writable(name)
	if err != nil {
		return Mixture{}, err
	}
	return UniformMixture(t), nil
}

// writable is the type of that name, in any case, which is one that can be written.
func writable(name string) (tensor.Type, error) {
	for _, t := range tensor.Encodable() {
		if strings.EqualFold(t.String(), name) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("no type %q to write", name)
}

// UniformMixture is the mixture of nothing but t.
func UniformMixture(t tensor.Type) Mixture {
	m := Mixture{Name: strings.ToUpper(t.String()), base: t, pure: true}
	for _, known := range mixtures {
		if known.base == t { // the last: Q4_K_S stands for Q4_K
			m.FileType = known.FileType
		}
	}
	if n, ok := alone[t]; ok {
		m.FileType = n
	}
	return m
}

// alone has the file types of files of one type alone whose mixture of the same base is another, or that can be read
// but not written.
var alone = map[tensor.Type]uint32{
	tensor.IQ2_XS: 20, tensor.IQ1_S: 24, tensor.IQ3_S: 26, tensor.IQ2_S: 28, tensor.IQ1_M: 31, tensor.MXFP4: 38,
	tensor.Q2_K: 10, tensor.Q3_K: 11,
}

// Facts are what a mixture must know of a model.
type Facts struct {
	Architecture   string
	Layers         int
	Heads, KVHeads int
	Experts        int  // per layer, 0 without
	Tied           bool // there is no output.weight
	Importance     bool // an importance matrix is known: then fewer matrices need more bits

	// of a file: where a matrix stands among those of its part (what values are made of is one part), and how many
	// matrices values are made of; nil: every layer has one of each part
	places        map[string]int
	valueMatrices int
}

// count fills in the places, by llama.cpp's order of tensors: by the number of the block, first those of none, and by
// name. Matrices whose type is given for themselves are among those of a part, and move the place of no other.
func (m *Facts) count(list []gguf.Tensor, given func(name string) bool) {
	block := func(name string) int {
		if strings.HasPrefix(name, "blk.") {
			return layerOf(name)
		}
		return -1
	}
	m.places, m.valueMatrices = map[string]int{}, 0
	seen := map[part]int{}
	for _, t := range slices.SortedFunc(slices.Values(list), func(a, b gguf.Tensor) int {
		return cmp.Or(cmp.Compare(block(a.Name), block(b.Name)), strings.Compare(a.Name, b.Name))
	}) {
		p := partOf(t.Name)
		if p&values != 0 {
			p = values
		}
		if (Mixture{}).of(t.Name, t.Dims) {
			m.places[t.Name] = seen[p]
			if !given(t.Name) {
				seen[p]++
			}
			if p == values {
				m.valueMatrices++
			}
		}
	}
}

// place is which of n layers a rule takes a matrix to be of. llama.cpp counts the matrices instead of reading the
// number of the block, but for those of a feed-forward with experts, and of these it counts ffn_down where there are 2
// bits.
func (m *Facts) place(name string, p part, tiny bool) (i, n int) {
	i = layerOf(name)
	at, counted := m.places[name]
	switch {
	case counted && p&values != 0:
		return at, m.valueMatrices
	case counted && (m.Experts <= 1 || tiny && p == down):
		i = at
	}
	return i, m.Layers
}

// large reports whether a model has the depth of the 70B ones, whose attn_v is small beside the rest.
func (m *Facts) large() bool {
	switch m.Architecture {
	case "llama":
		return m.Layers == 80 && m.Heads != m.KVHeads
	case "qwen2", "deci", "olmo":
		return m.Layers == 80
	}
	return m.Architecture == "jais2" && m.Layers == 68
}

// FactsOf reads them of a file; what the file does not say is 0.
func FactsOf(f *gguf.File) Facts {
	var m Facts
	m.Architecture, _ = f.String("general.architecture")
	number := func(key string) int { // of the first layer where layers differ
		n, err := f.Uint32(m.Architecture + "." + key)
		if list, wrong := f.Uint32s(m.Architecture + "." + key); err != nil && wrong == nil && len(list) > 0 {
			n = list[0]
		}
		return int(n)
	}
	m.Layers, m.Heads, m.Experts = number("block_count"), number("attention.head_count"), number("expert_count")
	if m.KVHeads = number("attention.head_count_kv"); m.KVHeads == 0 {
		m.KVHeads = m.Heads
	}
	m.count(f.Tensors, func(string) bool { return false })
	_, untied := f.Tensor("output.weight")
	m.Tied = !untied
	return m
}

// fullPrecision are parts of names of matrices that are small or hold no weights of products, and stay as they are.
var fullPrecision = []string{"norm.weight", "ffn_gate_inp", "ffn_gate_tid2eid", "position_embd", "token_types",
	"ssm_conv1d", "shortconv.conv", "per_layer_model_proj", "attn_rel_b", "altup_router", "altup_predict_coef",
	"altup_correct_coef", "time_mix_lerp_fused", "time_mix_first", "channel_mix_lerp_k", ".patch_embd", ".patch_merger",
	".rel_pos", "sam.pos_embd", "sam.neck.", "sam.net_", "a.rvq.codebook", "mm.a.code_embd"}

// keptByMixtures are parts of names of further matrices that only a mixture of one type alone is for: those of Gemma
// 3n's streams, of RWKV's factors of low rank, and of an index.
var keptByMixtures = []string{"altup_", "laurel_", "time_mix_w1.", "time_mix_w2.", "time_mix_a1.", "time_mix_a2.",
	"time_mix_v1.", "time_mix_v2.", "time_mix_g1.", "time_mix_g2.", "time_mix_decay_w1.", "time_mix_decay_w2.",
	"indexer.k_proj.", "indexer.q_proj."}

// hasAny reports whether a name has one of the parts.
func hasAny(name string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}

// matrix reports whether a tensor is a matrix that a mixture may be for.
func matrix(name string, dims []uint64) bool {
	return len(dims) >= 2 && strings.HasSuffix(name, ".weight") && !hasAny(name, fullPrecision)
}

// of reports whether the mixture is for a tensor: if it is not of one type alone not for small matrices, nor for those
// of a single row.
func (m Mixture) of(name string, dims []uint64) bool {
	if !matrix(name, dims) || m.pure {
		return matrix(name, dims)
	}
	return slices.Max(dims[1:]) > 1 && !hasAny(name, keptByMixtures)
}

// Requantized is the type that a tensor of a model's file gets, whose type is now: Type, but what is no matrix keeps
// its own, and so do with a pure mixture matrices that no type of the mixture fits, as where the engine converts while
// loading.
func (m Mixture) Requantized(name string, dims []uint64, now gguf.Type, model Facts) gguf.Type {
	if !m.of(name, dims) {
		return now
	}
	if _, ok := tensor.Fitting(m.base, int(dims[0])); !ok && m.pure {
		return now
	}
	return m.Type(name, dims, model)
}

// Type is the type that a tensor of that name and shape, columns first, gets. Where rows are not whole blocks of the
// type chosen, another stands in: see [tensor.Fitting]; where they are not a multiple of 32, F16. All but matrices
// get F32.
func (m Mixture) Type(name string, dims []uint64, model Facts) gguf.Type {
	if !m.of(name, dims) {
		return gguf.F32
	}
	t, ok := tensor.Fitting(m.choose(name, dims, model), int(dims[0]))
	if !ok {
		return gguf.F16
	}
	return FileType(t)
}

// choose is the type of a matrix regardless of its rows' length, but for the output matrix.
func (m Mixture) choose(name string, dims []uint64, model Facts) tensor.Type {
	if m.pure || m.base.BlockWeights() == 1 {
		return m.base
	}
	p, eight := partOf(name), model.Experts == 8
	layer, n := model.place(name, p, m.tiny)
	switch {
	case name == "output.weight" || p == embedding && model.Tied:
		return m.outputType(dims, model)
	case eight && m.tiny && p == key:
		return tensor.Q4_K
	case eight && !m.tiny && p&(values|key) != 0:
		return tensor.Q8_0
	case eight && p == attention && m.eight != tensor.F32:
		return m.eight
	}
	to := m.base
	rules := m.rules
	if model.Architecture == "falcon" && m.falcon != nil {
		rules = m.falcon
	}
	for _, r := range rules {
		if r.parts&p != 0 && (r.when == nil || r.when(layer, n, model)) {
			to = r.to
			break
		}
	}
	if p&values != 0 && !m.tiny && model.large() && (to == tensor.Q3_K || to == tensor.Q4_K) {
		return tensor.Q5_K
	}
	return to
}

// outputType is the type of the output matrix.
func (m Mixture) outputType(dims []uint64, model Facts) tensor.Type {
	switch {
	case m.base == tensor.Q8_0 || model.Architecture == "falcon" || dims[0]%uint64(tensor.Q6_K.BlockWeights()) != 0:
		return tensor.Q8_0
	case m.output != tensor.F32:
		return m.output
	}
	return tensor.Q6_K
}

// layerOf is the number behind "blk." in a tensor's name; 0 where there is none.
func layerOf(name string) int {
	_, rest, _ := strings.Cut(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return layer
}

// FileType is the type that files call by the same name.
func FileType(t tensor.Type) gguf.Type {
	for n := gguf.Type(0); ; n++ {
		if strings.EqualFold(n.String(), t.String()) {
			return n
		}
	}
}
