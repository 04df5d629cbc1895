package convert

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rawTensor is a tensor of a safetensors file, of any type.
type rawTensor struct {
	dtype string
	shape []int
	raw   []byte
}

// safetensorsOf is a safetensors file.
func safetensorsOf(t testing.TB, tensors map[string]rawTensor) string {
	header, data := map[string]any{}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		x := tensors[name]
		header[name] = map[string]any{"dtype": x.dtype, "shape": x.shape, "data_offsets": []int{len(data),
			len(data) + len(x.raw)}}
		data = append(data, x.raw...)
	}
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(h)))) + string(h) + string(data)
}

// blockScaled is a model whose matrices, but for embedding and output, are F8_E4M3 with a factor for each block of 3
// rows and 5 columns, and its config.json; want are the numbers that they stand for.
func blockScaled(t *testing.T) (s *source, config map[string]any, tensors map[string]rawTensor,
	want map[string][]float32) {
	s, config = llamaSource(t, "LlamaForCausalLM")
	config["quantization_config"] = map[string]any{"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
		"weight_block_size": []int{3, 5}, "modules_to_not_convert": []string{"lm_head"}}
	tensors, want = map[string]rawTensor{}, map[string][]float32{}
	floats := func(n int, x func(i int) float32) (raw []byte) {
		for i := range n {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x(i)))
		}
		return raw
	}
	for name, shape := range s.tensors {
		n := shape[0]
		if len(shape) > 1 {
			n *= shape[1]
		}
		if len(shape) == 1 || !strings.Contains(name, "layers") {
			tensors[name] = rawTensor{"F32", shape, floats(n, func(i int) float32 { return float32(i%7) / 8 })}
			continue
		}
		across := (shape[1] + 4) / 5
		down := (shape[0] + 2) / 3
		factor := func(i int) float32 { return float32(1+i) / 16 }
		raw := make([]byte, n)
		for i := range raw {
			if raw[i] = byte(i * 29); raw[i]&127 == 127 { // not a number
				raw[i]--
			}
			row, col := i/shape[1], i%shape[1]
			want[name] = append(want[name], e4m3[raw[i]]*factor(row/3*across+col/5))
		}
		tensors[name] = rawTensor{"F8_E4M3", shape, raw}
		tensors[name+"_scale_inv"] = rawTensor{"F32", []int{down, across}, floats(down*across, factor)}
	}
	return s, config, tensors, want
}

// TestBlockScales: weights in F8_E4M3 are what their blocks' factors make of them, also where blocks end beyond rows or
// columns.
func TestBlockScales(t *testing.T) {
	s, config, tensors, want := blockScaled(t)
	s.file("config.json", config)
	s.file("model.safetensors", safetensorsOf(t, tensors))
	got, file := converted(t, s.dir, Options{Type: "f32"})
	for name, from := range map[string]string{"attn_v": "self_attn.v_proj", "ffn_down": "mlp.down_proj",
		"attn_output": "self_attn.o_proj"} {
		x, _ := got.Tensor("blk.0." + name + ".weight")
		if !slices.Equal(floats(t, got, x), want["model.layers.0."+from+".weight"]) {
			t.Errorf("%s: %v, want %v", name, floats(t, got, x), want["model.layers.0."+from+".weight"])
		}
	}
	runs(t, file)
	s.file("config.json", map[string]any{"architectures": []string{"Qwen3VLForConditionalGeneration"},
		"text_config": map[string]any{}, "quantization_config": map[string]any{"quant_method": "fp8"}})
	if c, _, err := readFamily(s.dir); err != nil || c.object("quantization_config") == nil {
		t.Errorf("a model of several parts says it for all: %v", err)
	}
}

// TestBlockScalesRefused: what is not such a model is refused by what it is.
func TestBlockScalesRefused(t *testing.T) {
	const v, scale = "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.v_proj.weight_scale_inv"
	for name, c := range map[string]struct {
		change func(q map[string]any, tensors map[string]rawTensor)
		want   []string
	}{
		"another method": {func(q map[string]any, _ map[string]rawTensor) { q["quant_method"] = "gptq" },
			[]string{"quantization_config.quant_method", "gptq"}},
		"no method": {func(q map[string]any, _ map[string]rawTensor) { delete(q, "quant_method") },
			[]string{"quantization_config.quant_method: missing"}},
		"one factor": {func(q map[string]any, _ map[string]rawTensor) { q["weight_block_size"] = nil },
			[]string{scaleEnd, "[1 1] of numbers"}},
		"gpt-oss' method": {func(q map[string]any, _ map[string]rawTensor) { q["quant_method"] = "mxfp4" },
			[]string{"quantization_config.quant_method", "mxfp4"}},
		"one factor for several blocks": {func(_ map[string]any, tensors map[string]rawTensor) {
			tensors[scale] = rawTensor{"F32", []int{}, make([]byte, 4)}
		}, []string{scale, "[2 2] of numbers"}},
		"one size": {func(q map[string]any, _ map[string]rawTensor) { q["weight_block_size"] = []int{3} },
			[]string{"weight_block_size", "[3]"}},
		"activations of another": {func(_ map[string]any, tensors map[string]rawTensor) {
			tensors["model.layers.0.mlp.other.activation_scale"] = rawTensor{"F32", []int{1}, make([]byte, 4)}
		}, []string{"model.layers.0.mlp.other.activation_scale"}},
		"no size": {func(q map[string]any, _ map[string]rawTensor) { q["weight_block_size"] = []float64{0, 128} },
			[]string{"weight_block_size", "[0 128]"}},
		"half a size": {func(q map[string]any, _ map[string]rawTensor) { q["weight_block_size"] = []float64{1.5, 128} },
			[]string{"weight_block_size", "[1.5 128]"}},
		"another format": {func(q map[string]any, _ map[string]rawTensor) { q["fmt"] = "e5m2" }, []string{"e5m2"}},
		"more": {func(q map[string]any, _ map[string]rawTensor) { q["clip"] = 2 },
			[]string{"quantization_config.clip"}},
		"no factors": {func(_ map[string]any, tensors map[string]rawTensor) { delete(tensors, scale) },
			[]string{scale, "is missing"}},
		"other factors": {func(_ map[string]any, tensors map[string]rawTensor) {
			tensors[scale] = rawTensor{"F32", []int{1, 4}, tensors[scale].raw}
		}, []string{scale, "[1 4]", "[2 2]"}},
		"factors of a byte": {func(_ map[string]any, tensors map[string]rawTensor) {
			tensors[scale] = rawTensor{"F8_E4M3", []int{2, 2}, make([]byte, 4)}
		}, []string{scale, "F8_E4M3"}},
		"a vector": {func(_ map[string]any, tensors map[string]rawTensor) {
			tensors[v] = rawTensor{"F8_E4M3", []int{32}, tensors[v].raw}
		}, []string{scale, "[32]"}},
	} {
		s, config, tensors, _ := blockScaled(t)
		c.change(config["quantization_config"].(map[string]any), tensors)
		s.file("config.json", config)
		s.file("model.safetensors", safetensorsOf(t, tensors))
		s.refused(name, c.want)
	}
	s, config, tensors, _ := blockScaled(t)
	delete(config, "quantization_config")
	s.file("config.json", config)
	s.file("model.safetensors", safetensorsOf(t, tensors))
	s.refused("not said", []string{"_scale_inv", "is not part of a llama model"})
}

// TestBlockScalesOfSeveral: the matrices of a tensor have blocks of their own, read alone or together.
func TestBlockScalesOfSeveral(t *testing.T) {
	raw := make([]byte, 2*3*5)
	for i := range raw {
		raw[i] = 0x38 // 1
	}
	var factors []byte
	for i := range 2 * 2 * 2 {
		factors = binary.LittleEndian.AppendUint32(factors, math.Float32bits(float32(i)))
	}
	name := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(name, slices.Concat(raw, factors), 0o666); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := stored{file: file, dtype: "F8_E4M3", shape: []int{2, 3, 5}, size: 30, scales: &blockScales{rows: 2, cols: 3,
		of: stored{file: file, dtype: "F32", shape: []int{2, 2, 2}, at: 30, size: 32}}}
	want := []float32{0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5, 4, 4, 4, 5, 5, 6, 6, 6, 7, 7}
	if got, err := s.read(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for k := range 2 {
		if got, err := s.matrix(k, 2).read(); err != nil || !slices.Equal(got, want[15*k:15*k+15]) {
			t.Errorf("matrix %d: %v, %v, want %v", k, got, err, want[15*k:15*k+15])
		}
	}
}

// TestOneScale: a factor may be for a whole tensor, of any shape of one number. In a model of two parts
// quantization_config stands outside of that for texts; what was measured of activations is left out.
func TestOneScale(t *testing.T) {
	s, config, tensors, _ := blockScaled(t)
	delete(config, "quantization_config")
	config["architectures"] = nil
	want := map[string][]float32{}
	shapes := [][]int{{}, {1}, {1, 1}}
	for name, x := range tensors {
		if x.dtype != "F8_E4M3" {
			continue
		}
		scale := name + scaleEnd
		tensors[scale] = rawTensor{"F32", shapes[len(want)%3], binary.LittleEndian.AppendUint32(nil,
			math.Float32bits(0.75))}
		tensors[strings.TrimSuffix(name, "weight")+[]string{"activation_scale", "input_scale"}[len(want)%2]] = rawTensor{
			"BF16", []int{}, make([]byte, 2)}
		for _, b := range x.raw {
			want[name] = append(want[name], e4m3[b]*0.75)
		}
	}
	s.file("config.json", map[string]any{"architectures": []string{"Mistral3ForConditionalGeneration"},
		"text_config": config, "quantization_config": map[string]any{"quant_method": "fp8", "activation_scheme": "static",
			"weight_block_size": nil, "dequantize": false}})
	s.file("model.safetensors", safetensorsOf(t, tensors))
	got, file := converted(t, s.dir, Options{Type: "f32"})
	for name, from := range map[string]string{"attn_v": "self_attn.v_proj", "ffn_down": "mlp.down_proj",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "attn_output": "self_attn.o_proj"} {
		x, _ := got.Tensor("blk.0." + name + ".weight")
		if !slices.Equal(floats(t, got, x), want["model.layers.0."+from+".weight"]) {
			t.Errorf("%s: %v, want %v", name, floats(t, got, x), want["model.layers.0."+from+".weight"])
		}
	}
	runs(t, file)
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Close(); len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "7 matrices of 8 bits") {
		t.Errorf("notes %q", m.Notes)
	}
}
