package sampling

import "github.com/specgo/spec/tensor"

// LogProb is the logarithm of a token's probability under the raw logits: log-softmax. It is -Inf for
// an id that has no logit.
func LogProb(logits []float32, id int32) float32 {
	if id < 0 || int(id) >= len(logits) {
		return negInf
	}
	return logits[id] - tensor.LogSumExp(logits)
}

// Probability is a token's probability under the raw logits: softmax. It is 0 for an id that has no logit.
func Probability(logits []float32, id int32) float32 { return tensor.Exp(LogProb(logits, id)) }
