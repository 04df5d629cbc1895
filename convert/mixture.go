package convert

import (
	"fmt"
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

	base     tensor.Type
	pure     bool // all matrices get the base type
	qkv      tensor.Type
	moreBits tensor.Type // attn_v and ffn_down of about half of the layers
	firstV   tensor.Type // attn_v of the first 4 layers
	firstFF  tensor.Type // ffn_down of the first eighth of the layers
	groupedV tensor.Type // attn_v where at least 4 heads of queries share one of keys
	small    bool        // 4 bits and fewer
}

// mixtures are those whose types can all be written, the one with the most bits per weight first. A type that is 0,
// F32, stands for the base type.
var mixtures = []Mixture{
	{Name: "F32", FileType: 0, base: tensor.F32},
	{Name: "F16", FileType: 1, base: tensor.F16},
	{Name: "BF16", FileType: 32, base: tensor.BF16},
	{Name: "Q8_0", FileType: 7, base: tensor.Q8_0},
	{Name: "Q6_K", FileType: 18, base: tensor.Q6_K},
	{Name: "Q5_1", FileType: 9, base: tensor.Q5_1},
	{Name: "Q5_K_M", FileType: 17, base: tensor.Q5_K, qkv: tensor.Q6_K, moreBits: tensor.Q6_K},
	{Name: "Q5_K_S", FileType: 16, base: tensor.Q5_K},
	{Name: "Q5_0", FileType: 8, base: tensor.Q5_0},
	{Name: "Q4_1", FileType: 3, base: tensor.Q4_1},
	{Name: "Q4_K_M", FileType: 15, base: tensor.Q4_K, qkv: tensor.Q5_K, moreBits: tensor.Q6_K, small: true},
	{Name: "Q4_K_S", FileType: 14, base: tensor.Q4_K, firstV: tensor.Q5_K, firstFF: tensor.Q5_K, small: true},
	{Name: "IQ4_NL", FileType: 25, base: tensor.IQ4_NL, groupedV: tensor.Q5_K, firstFF: tensor.Q5_K, small: true},
	{Name: "Q4_0", FileType: 2, base: tensor.Q4_0},
	{Name: "IQ4_XS", FileType: 30, base: tensor.IQ4_XS, groupedV: tensor.Q5_K, firstFF: tensor.Q5_K, small: true},
}

// aliases are other names, llama.cpp's too.
var aliases = map[string]string{"Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

// Mixtures lists the names of the mixtures.
func Mixtures() (names []string) {
	for _, m := range mixtures {
		names = append(names, m.Name)
	}
	return names
}

// FindMixture finds a mixture by its name, in any case. "Q4_K" and "Q5_K" are the mixtures that end in _M.
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
	for _, t := range tensor.Encodable() {
		if strings.EqualFold(t.String(), name) {
			return UniformMixture(t), nil
		}
	}
	return Mixture{}, fmt.Errorf("no type %q to write", name)
}

// UniformMixture is the mixture of nothing but t.
func UniformMixture(t tensor.Type) Mixture {
	m := Mixture{Name: strings.ToUpper(t.String()), base: t, pure: true}
	for _, known := range mixtures {
		if known.base == t && known.moreBits == 0 { // Q4_K_S stands for Q4_K
			m.FileType = known.FileType
		}
	}
	if n, ok := readOnly[t]; ok {
		m.FileType = n
	}
	return m
}

// readOnly has the file types of what can be read but not written.
var readOnly = map[tensor.Type]uint32{
	tensor.Q2_K: 10, tensor.Q3_K: 11, tensor.IQ2_XXS: 19, tensor.IQ2_XS: 20, tensor.IQ3_XXS: 23, tensor.IQ1_S: 24,
	tensor.IQ3_S: 26, tensor.IQ2_S: 28, tensor.IQ1_M: 31, tensor.TQ1_0: 36, tensor.TQ2_0: 37,
	tensor.MXFP4: 38,
}

// Facts are what a mixture must know of a model.
type Facts struct {
	Architecture   string
	Layers         int
	Heads, KVHeads int
	Experts        int  // per layer, 0 without
	Tied           bool // there is no output.weight
}

// FactsOf reads them of a file; what the file does not say is 0.
func FactsOf(f *gguf.File) Facts {
	var m Facts
	m.Architecture, _ = f.String("general.architecture")
	number := func(key string) int {
		n, _ := f.Uint32(m.Architecture + "." + key)
		return int(n)
	}
	m.Layers, m.Heads, m.Experts = number("block_count"), number("attention.head_count"), number("expert_count")
	if m.KVHeads = number("attention.head_count_kv"); m.KVHeads == 0 {
		m.KVHeads = m.Heads
	}
	_, untied := f.Tensor("output.weight")
	m.Tied = !untied
	return m
}

// fullPrecision are parts of names of matrices that are small and stay as they are.
var fullPrecision = []string{"norm.weight", "ffn_gate_inp", "position_embd", "token_types", "ssm_conv1d",
	"shortconv.conv", "per_layer_model_proj", "attn_rel_b"}

// matrix reports whether a tensor is a matrix that a mixture is for.
func matrix(name string, dims []uint64) bool {
	if len(dims) < 2 || !strings.HasSuffix(name, ".weight") {
		return false
	}
	for _, part := range fullPrecision {
		if strings.Contains(name, part) {
			return false
		}
	}
	return true
}

// Requantized is the type that a tensor of a model's file gets, whose type is now: Type, but what is no matrix keeps
// its own, and so do with a pure mixture matrices that no type of the mixture fits, as where the engine converts while
// loading.
func (m Mixture) Requantized(name string, dims []uint64, now gguf.Type, model Facts) gguf.Type {
	if !matrix(name, dims) {
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
	if !matrix(name, dims) {
		return gguf.F32
	}
	t, ok := tensor.Fitting(m.choose(name, dims, model), int(dims[0]))
	if !ok {
		return gguf.F16
	}
	return ggufType(t)
}

// choose is the type of a matrix regardless of its rows' length, but for the output matrix.
func (m Mixture) choose(name string, dims []uint64, model Facts) tensor.Type {
	if m.pure || m.base.BlockWeights() == 1 {
		return m.base
	}
	layer, part := layerOf(name)
	eight := model.Experts == 8
	or := func(t tensor.Type, when bool) tensor.Type {
		if t != 0 && when {
			return t
		}
		return m.base
	}
	switch {
	case name == "output.weight" || name == "token_embd.weight" && model.Tied:
		if m.base == tensor.Q8_0 || model.Architecture == "falcon" || dims[0]%uint64(tensor.Q6_K.BlockWeights()) != 0 {
			return tensor.Q8_0
		}
		return tensor.Q6_K
	case part == "attn_v.weight" && eight, part == "attn_k.weight" && eight:
		return tensor.Q8_0
	case part == "attn_v.weight" && m.firstV != 0:
		return or(m.firstV, layer < 4)
	case part == "attn_v.weight" && m.groupedV != 0:
		return or(m.groupedV, model.KVHeads > 0 && model.Heads/model.KVHeads >= 4)
	case part == "attn_v.weight":
		return or(m.moreBits, more(layer, model.Layers))
	case strings.HasPrefix(part, "ffn_down") && m.firstFF != 0:
		return or(m.firstFF, layer < model.Layers/8)
	case strings.HasPrefix(part, "ffn_down"):
		return or(m.moreBits, more(layer, model.Layers))
	case part == "attn_output.weight":
		return or(tensor.Q5_K, eight && m.small)
	case part == "attn_qkv.weight":
		return or(m.qkv, true)
	}
	return m.base
}

// more reports whether layer i of n is one of those whose attn_v and ffn_down get more bits: the first and the last
// eighth, and of the others every third.
func more(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// layerOf splits "blk.3.attn_v.weight" into 3 and "attn_v.weight"; other names are of no layer.
func layerOf(name string) (layer int, part string) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0, name
	}
	number, part, _ := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	if err != nil {
		return 0, name
	}
	return layer, part
}

// ggufType is the type of that name.
func ggufType(t tensor.Type) gguf.Type {
	for n := gguf.Type(0); ; n++ {
		if strings.EqualFold(n.String(), t.String()) {
			return n
		}
	}
}
