package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// Identity is what a model's answers depend on beside the request, with its seed and its clock: where two programs of
// one version have the same identity, they give the same answer to a request, whatever machine they run on. Under the
// verifiers rejection and block answers depend on the drafts too, of which an identity says nothing.
type Identity struct {
	Rules    int                      `json:"numeric_rules"` // engine.NumericRules
	Model    speculative.ReceiptModel `json:"model"`
	Context  int                      `json:"n_context"`
	Template string                   `json:"template_sha256"` // with what belongs to it; "": the model has none
	// Altered: Options.Around is set, which may change logits. Answers are the same where it is the same function, which
	// nothing here identifies.
	Altered bool `json:"altered,omitempty"`
}

// Identity identifies the model by the fingerprint of its target's file and by its options. Adapters count with the
// scales of requests that do not choose; those of scale 0, too: requests choose them by their places.
func (m *Model) Identity(file engine.Fingerprint) Identity {
	target := m.parts.Target
	id := Identity{Rules: engine.NumericRules, Context: m.context, Template: m.templateHash(), Altered: m.around != nil,
		Model: speculative.ReceiptModel{
			Name: target.Config().Name, Model: file.Model, Tokenizer: file.Tokenizer, Weights: target.Weights(),
			Types: target.WeightTypes(), KV: cmp.Or(m.session.KV, engine.DefaultKV), Rope: target.Config().RopeFactors,
		}}
	for _, a := range m.Adapters() {
		id.Model.Adapters = append(id.Model.Adapters,
			speculative.ReceiptAdapter{Adapter: a.Adapter.Fingerprint(), Scale: a.Scale})
	}
	return id
}

// templateHash identifies the template and the options that belong to it.
func (m *Model) templateHash() string {
	if m.template == nil {
		return ""
	}
	h := sha256.New()
	h.Write(strconv.AppendBool(nil, m.toolFallback))
	parts := append([]string{m.template.Source()}, m.stops...)
	if other := m.template.For(true); other != m.template {
		parts = append(parts, "tools", other.Source())
	}
	for _, part := range parts {
		h.Write(strconv.AppendQuote(nil, part))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Sum is the SHA-256 of the identity in lower-case hexadecimal. The model's name is not part of it.
func (id Identity) Sum() (string, error) {
	id.Model.Name = ""
	text, err := json.Marshal(id)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
