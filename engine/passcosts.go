package engine

import (
	"sync"
	"time"

	"github.com/specgo/spec/engine/costs"
)

// passCosts is what passes of the model take, by the number of layers that they go through.
type passCosts struct {
	mu       sync.Mutex
	byLayers map[int]*costs.Costs // at most as many as the model has layers
}

// Costs is what passes through the first layers of the model take; 0 layers are all. Every pass teaches it. It is
// safe for concurrent use.
func (m *Model) Costs(layers int) *costs.Costs {
	if layers <= 0 || layers > m.config.Layers {
		layers = m.config.Layers
	}
	return m.costs.of(layers)
}

// costsOf is what passes of a form of the model take; nil: of the model itself.
func (m *Model) costsOf(f *DraftForm, layers int) *costs.Costs {
	if f == nil {
		return m.Costs(layers)
	}
	return f.costs.of(layers)
}

// Costs is what passes of the form take.
func (f *DraftForm) Costs() *costs.Costs { return f.costs.of(f.m.config.Layers) }

// of is what passes through so many layers take.
func (p *passCosts) of(layers int) *costs.Costs {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.byLayers[layers]
	if c == nil {
		if p.byLayers == nil {
			p.byLayers = map[int]*costs.Costs{}
		}
		c = &costs.Costs{}
		p.byLayers[layers] = c
	}
	return c
}

// Costs is what passes of the session take: that of its model, for as many layers.
func (s *Session) Costs() *costs.Costs { return s.costs }

// ShortRows is the most tokens without logits that count as rows of a pass all the same: what a decoder feeds before
// it drafts. More are a chunk of a prompt, and so are fewer in a [Segment] that says so.
const ShortRows = 8

// learn tells the costs of a pass. One of few tokens without any logits says nothing of rows: it did without the
// output matrix. One with a prompt's last few tokens alone says nothing of prompts either, since a pass of few tokens
// takes no less, and beside rows they take less than what passes differ by. One that recomputed tokens took its time
// for these too.
func (m *Model) learn(b Batch, results []Result, took time.Duration) {
	var c *costs.Costs
	rows, prompts, wanted, redone := 0, 0, 0, 0
	for i := range b {
		s, n := b[i].Session, len(b[i].Tokens)
		if results[i].Err != nil || s == nil {
			continue
		}
		if s.noCache || c != nil && s.costs != c { // of unlike passes it is not known which took the time
			return
		}
		c = s.costs
		redone += s.redone
		want := int(b[i].Logits)
		if want < 0 {
			want = n
		}
		if wanted += want; b[i].Chunk || b[i].Parents == nil && n-want > ShortRows {
			prompts += n
		} else {
			rows += n
		}
	}
	if c != nil && m.config.Experts > 0 && m.rt.pass.layers == m.config.Layers {
		m.rt.pass.routing.read.learn(c, m.dense)
	}
	if c != nil && redone == 0 && (prompts > ShortRows || prompts == 0 && wanted > 0) {
		c.Learn(rows, prompts, took.Seconds())
	}
}
