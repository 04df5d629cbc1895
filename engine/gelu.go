package engine

// geluForms says which form of GELU (Hendrycks and Gimpel 2016, arXiv:1606.08415) the published models of an
// architecture compute: gelu, with a tanh, or geluErf, which is exact. No key of a file says it; the source is what the
// models' configuration names in the program that they were published with. The two differ by at most 5e-4.
var geluForms = map[string]function{
	"bloom":            gelu, // BloomGelu: x*0.5*(1+tanh(…))
	"codegen":          gelu, // activation_function gelu_new
	"codeshell":        gelu, // gelu_pytorch_tanh
	"gemma":            gelu, // gelu_pytorch_tanh; "gelu" in the first configurations was corrected to it
	"gemma2":           gelu, // gelu_pytorch_tanh
	"gemma3":           gelu, // gelu_pytorch_tanh
	"gemma3n":          gelu, // gelu_pytorch_tanh
	"gemma4":           gelu, // gelu_pytorch_tanh
	"gemma4-assistant": gelu, // gelu_pytorch_tanh
	"gpt2":             gelu, // gelu_new
	"gptj":             gelu, // gelu_new
	"phi2":             gelu, // gelu_new
	"starcoder":        gelu, // gelu_pytorch_tanh
	"starcoder2":       gelu, // gelu_pytorch_tanh
	"t5":               gelu, // gated-gelu: gelu_new
	"t5encoder":        gelu, // gated-gelu: gelu_new

	"gemma-embedding": gelu, // gelu_pytorch_tanh

	"falcon":   geluErf, // nn.GELU()
	"gptneox":  geluErf, // hidden_act gelu
	"mpt":      geluErf, // nn.GELU(approximate="none")
	"spark2_5": geluErf, // hidden_act gelu

	"bert":           geluErf, // hidden_act gelu; also RoBERTa and XLM-R
	"jina-bert-v2":   geluErf, // nn.GELU() of its gates
	"jina-bert-v3":   geluErf, // hidden_act gelu
	"modern-bert":    geluErf, // hidden_activation and classifier_activation gelu
	"nomic-bert-moe": geluErf, // activation_function gelu
}

// gelu is the form of GELU that the architecture's models compute.
func (l *loader) gelu() function {
	form, ok := geluForms[l.arch]
	if !ok {
		l.fail("general.architecture", ErrUnsupported, "no form of GELU is known of its models")
	}
	if l.options.tanhGELU {
		return gelu
	}
	return form
}
