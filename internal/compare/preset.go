package compare

// A Preset repeats a publication's experiment. Its lists stand in for flags that were not given.
type Preset struct {
	Name, About string
	Matrix      Matrix
	Also        *Matrix // settings beside the product
	Sets        []string
	Prompts     int // of each set; 0: all
	Tokens      int
	Repeats     int
	Warmup      int
}

// Presets are the experiments that docs/PAPERS.md reports.
var Presets = []Preset{
	{
		Name: "assisted",
		About: "Assisted generation (Gante 2023): one draft model, drafts of 5 tokens at first, +2 after a fully accepted " +
			"draft, else -1; " +
			"greedy, then sampled at temperatures 0.2 to 1.4; code prompts; with 16-bit and with 8-bit weights",
		Matrix: Matrix{
			Weights: []string{"f16", "q8_0"}, Temperatures: []float32{0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4},
			Drafters: []string{"model"}, Schedules: []string{"heuristic"}, Verifiers: []string{""}, DraftMax: []int{0},
			Confidence: []float32{0},
		},
		Sets: []string{"code"}, Tokens: 64, Repeats: 3, Warmup: 1,
	},
	{
		Name: "dynamic",
		About: "Dynamic speculation lookahead (Mamou et al. 2024): static 5, heuristic 5 and dynamic (at most 20, " +
			"confidence 0.4) " +
			"beside the oracle; greedy; code, copying and open-ended prompts",
		Matrix: Matrix{
			Weights: []string{""}, Temperatures: []float32{0},
			Drafters: []string{"model"}, Schedules: []string{"constant", "heuristic", "dynamic", oracle},
			Verifiers: []string{"greedy"}, DraftMax: []int{0}, Confidence: []float32{0},
		},
		Sets: []string{"code", "copy", "open"}, Tokens: 64, Repeats: 3, Warmup: 1,
	},
	{
		Name: "stairs",
		About: "Stairs (Grigaliunas and Lukosevicius 2024): batch sizes 2 to 11, that is drafts of 1 to 10 tokens, beside " +
			"plain " +
			"decoding and the heuristic schedule; greedy; one prompt, a warm-up, 100 runs each",
		Matrix: Matrix{
			Weights: []string{""}, Temperatures: []float32{0},
			Drafters: []string{"model"}, Schedules: []string{"constant"}, Verifiers: []string{"stairs"},
			DraftMax: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Confidence: []float32{0},
		},
		Also: &Matrix{
			Weights: []string{""}, Temperatures: []float32{0},
			Drafters: []string{"model"}, Schedules: []string{"heuristic"}, Verifiers: []string{"greedy"}, DraftMax: []int{0},
			Confidence: []float32{0},
		},
		Sets: []string{"code"}, Prompts: 1, Tokens: 32, Repeats: 100, Warmup: 3,
	},
	{
		Name: "leviathan",
		About: "Speculative decoding (Leviathan et al. 2023): constant drafts of 1 to 10 tokens; greedy at temperature 0, " +
			"rejection " +
			"sampling at 1; the measured speedup beside the one that the paper's formula gives for the acceptance",
		Matrix: Matrix{
			Weights: []string{""}, Temperatures: []float32{0},
			Drafters: []string{"model"}, Schedules: []string{"constant"}, Verifiers: []string{"greedy"},
			DraftMax: []int{1, 2, 3, 4, 5, 7, 10}, Confidence: []float32{0},
		},
		Also: &Matrix{
			Weights: []string{""}, Temperatures: []float32{1},
			Drafters: []string{"model"}, Schedules: []string{"constant"}, Verifiers: []string{"rejection"},
			DraftMax: []int{1, 2, 3, 4, 5, 7, 10}, Confidence: []float32{0},
		},
		Sets: []string{"code"}, Tokens: 64, Repeats: 3, Warmup: 1,
	},
}

// PresetOf returns the preset of that name.
func PresetOf(name string) (Preset, bool) {
	for _, p := range Presets {
		if p.Name == name {
			return p, true
		}
	}
	return Preset{}, false
}
