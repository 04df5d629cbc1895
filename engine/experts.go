package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/tensor"
)

// experts is a mixture of experts (Shazeer et al. 2017, arXiv:1701.06538; Fedus et al. 2021, arXiv:2101.03961): of E
// feed-forwards every token is sent to those that its router ranks highest. What a token gets does not depend on the
// others in the pass: its experts are added in ascending order.
type experts struct {
	router    linear        // [E][D]
	choice    []float32     // [E] added to the probabilities for the choice only; nil: none
	each      []feedForward // [E]
	used      int           // experts for each token
	gating    gating
	normalize bool    // the weights of the chosen sum to 1
	scale     float32 // of the weights; 0: none

	weighInputs bool // the weights multiply what goes into the experts, not what they give

	groups, groupsUsed int // cut into so many groups of neighbours, of which a token may use so many; 0 or 1: not cut

	shared     *feedForward // of every token; nil: none
	sharedGate linear       // [1][D]: the shared one is multiplied by the sigmoid of this
}

// gating says how the router's logits become weights; the numbers are those of the key expert_gating_func.
type gating int

const (
	gateSoftmax       gating = 1 // softmax over all experts
	gateSigmoid       gating = 2
	gateSoftmaxChosen gating = 3 // softmax over the chosen experts' logits

	gateSigmoidChosen gating = -1 // their sigmoids; no key says so
)

func (e *experts) forward(p *pass, _ *Config, y, h []float32) {
	e.route(p, h)
	e.send(p, y, h)
}

// route computes the router's logits of h [rows][D].
func (e *experts) route(p *pass, h []float32) {
	p.matmul(h, e.router.w.Cols(), e.router.times(p.matrix(&p.routing.logits, len(e.each))))
}

// send computes y [rows][D] of h [rows][D] when route is done.
func (e *experts) send(p *pass, y, h []float32) {
	if p.err != nil {
		return
	}
	r, n, d := &p.routing, p.rows(), e.each[0].up.w.Cols()
	sized(&r.chosen, n*e.used)
	sized(&r.weights, n*e.used)
	for i := range n {
		e.choose(r, i)
	}
	r.read.add(r.chosen, e.used, len(e.each), e.each[0].bytes())
	clear(y)
	if n == 1 && !e.weighInputs && !panels.OnDisk(e.each[0].down.w) {
		e.one(p, y, h)
	} else {
		e.several(p, y, h)
	}
	if e.shared != nil {
		out := p.matrix(&r.y, d)
		e.shared.forward(p, nil, out, h)
		if e.sharedGate.w != nil {
			gate := p.matrix(&r.gate, 1)
			p.matmul(h, d, e.sharedGate.times(gate))
			for i, z := range gate {
				gate[i] = tensor.Sigmoid(z)
			}
			p.mulRows(out, gate)
		}
		p.add(y, out)
	}
}

// one adds to y [D] what the experts of the only row h [D] give. All of them take part in two parallel phases: of one
// row an expert's matrices are read in some ten microseconds each.
func (e *experts) one(p *pass, y, h []float32) {
	r, d, f := &p.routing, len(h), e.each[0].up.w.Rows()
	gate, up, out := sized(&p.gate, e.used*f), sized(&p.up, e.used*f), sized(&r.y, e.used*d)
	part := func(x []float32, i int) []float32 { return x[i*len(x)/e.used : (i+1)*len(x)/e.used] }
	list := p.eachProducts[:0]
	for i, expert := range r.chosen {
		x := &e.each[expert]
		if x.gate.w != nil {
			list = append(list, x.gate.times(part(gate, i)))
		}
		list = append(list, x.up.times(part(up, i)))
	}
	p.matmul(h, d, list...)
	list = list[:0]
	for i, expert := range r.chosen {
		x := &e.each[expert]
		if x.gate.w != nil {
			x.act.gated(p, part(gate, i), part(up, i))
		} else {
			x.act.alone(p, part(up, i))
		}
		list = append(list, x.down.times(part(out, i)))
	}
	if e.each[0].gate.w == nil {
		gate = up
	}
	p.matmulEach(gate, f, list)
	for i, w := range r.weights[:e.used] {
		tensor.MulAdd(y, part(out, i), w)
	}
	clear(list[:cap(list)])
	p.eachProducts = list[:0]
}

// several adds to y [rows][D] what the experts of the rows of h [rows][D] give, one expert after the other.
func (e *experts) several(p *pass, y, h []float32) {
	r, n, d := &p.routing, p.rows(), e.each[0].up.w.Cols()
	next := p.chosen(e, r.chosen)
	for expert := range e.each {
		r.rows = r.rows[:0]
		for i := range n {
			if slices.Contains(r.chosen[i*e.used:(i+1)*e.used], int32(expert)) {
				r.rows = append(r.rows, int32(i))
			}
		}
		if len(r.rows) == 0 {
			continue
		}
		p.expect(e, next)
		next = next[min(1, len(next)):]
		x, out := sized(&r.x, len(r.rows)*d), sized(&r.y, len(r.rows)*d)
		for j, i := range r.rows {
			copy(x[j*d:(j+1)*d], h[int(i)*d:])
		}
		if e.weighInputs {
			e.weigh(r, int32(expert), x)
		}
		p.part = r.rows
		e.each[expert].forward(p, nil, out, x)
		p.part = nil
		for j, i := range r.rows {
			at := int(i) * e.used
			w := r.weights[at+slices.Index(r.chosen[at:at+e.used], int32(expert))]
			tensor.MulAdd(y[int(i)*d:(int(i)+1)*d], out[j*d:(j+1)*d], w)
		}
	}
}

// weigh multiplies the inputs x [rows][D] of an expert by its weights, which then are 1 for what it gives.
func (e *experts) weigh(r *routing, expert int32, x []float32) {
	d := len(x) / len(r.rows)
	for j, i := range r.rows {
		at := int(i) * e.used
		w := &r.weights[at+slices.Index(r.chosen[at:at+e.used], expert)]
		for k := range d {
			x[j*d+k] *= *w
		}
		*w = 1
	}
}

// expect tells which experts come next, so that those on disk are read in time: numbers of e.each, ascending.
func (p *pass) expect(e *experts, numbers []int32) {
	if p.err != nil {
		return
	}
	for _, i := range numbers {
		p.held.Expect(e.each[i].down.w)
	}
	p.held.ReadAhead()
}

// chosen are the experts that rows have chosen, ascending, if their weights are on disk; nil else.
func (p *pass) chosen(e *experts, rows []int32) []int32 {
	if p.err != nil || !panels.OnDisk(e.each[0].down.w) {
		return nil
	}
	r := &p.routing
	r.needed = append(r.needed[:0], rows...)
	slices.Sort(r.needed)
	r.needed = slices.Compact(r.needed)
	return r.needed
}

// choose fills r.chosen and r.weights of row i from r.logits. Ties go to the lower expert.
func (e *experts) choose(r *routing, i int) {
	n := len(e.each)
	p, order := sized(&r.p, n), sized(&r.order, n)
	copy(p, r.logits[i*n:])
	switch e.gating {
	case gateSoftmax:
		tensor.Softmax(p)
	case gateSigmoid:
		for j, z := range p {
			p[j] = tensor.Sigmoid(z)
		}
	}
	rank := p
	if e.choice != nil || e.groups > 1 {
		rank = r.logits[i*n : (i+1)*n]
		copy(rank, p)
		for j, b := range e.choice {
			rank[j] += b
		}
		e.limit(r, rank)
	}
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(a, b))
	})
	chosen, weights := r.chosen[i*e.used:(i+1)*e.used], r.weights[i*e.used:(i+1)*e.used]
	copy(chosen, order)
	slices.Sort(chosen)
	for j, expert := range chosen {
		weights[j] = p[expert]
	}
	if e.gating == gateSigmoidChosen {
		for j, z := range weights {
			weights[j] = tensor.Sigmoid(z)
		}
	}
	if e.gating == gateSoftmaxChosen {
		most, sum := slices.Max(weights), float32(0)
		for j, z := range weights {
			weights[j] = tensor.Exp(z - most)
			sum += weights[j]
		}
		for j := range weights {
			weights[j] /= sum
		}
	}
	if e.normalize {
		sum := float32(0)
		for _, w := range weights {
			sum += w
		}
		sum = max(sum, 1.0/(1<<14))
		for j := range weights {
			weights[j] /= sum
		}
	}
	if e.scale != 0 {
		for j := range weights {
			weights[j] *= e.scale
		}
	}
}

// limit excludes the experts outside the best groups (DeepSeek-V3, arXiv:2412.19437, section 2.1.2): a group is worth
// the sum of its two highest ranks. Ties go to the lower group.
func (e *experts) limit(r *routing, rank []float32) {
	if e.groups < 2 {
		return
	}
	least, size := float32(math.Inf(-1)), len(rank)/e.groups
	worth := sized(&r.worth, e.groups)
	for g := range worth {
		first, second := least, least
		for _, x := range rank[g*size : (g+1)*size] {
			first, second = max(first, x), max(second, min(first, x))
		}
		if worth[g] = first; size > 1 {
			worth[g] += second
		}
	}
	for g, w := range worth {
		better := 0
		for other, v := range worth {
			if v > w || v == w && other < g {
				better++
			}
		}
		if better >= e.groupsUsed {
			for j := range size {
				rank[g*size+j] = least
			}
		}
	}
}

// expertOptions say how an architecture uses experts.
type expertOptions struct {
	count, used        int
	groups, groupsUsed int
	width              int    // of an expert
	inputs             int    // of an expert; 0: D
	gating             gating // 0: gateSoftmax
	normalize          bool   // the weights of the chosen sum to 1
	scale              float32
	choice             string // the tensor of what is added for the choice; "": exp_probs_b.bias
	mustChoose         bool   // that one has to be there
	weighInputs        bool   // the weights multiply what goes into the experts
	shared             int    // width of the expert that every token is sent to; 0: none
	sharedGate         bool   // that one has a gate, b.ffn_gate_inp_shexp

	dense func(layer int) bool // layers with a feed-forward instead; nil: none
}

// experts completes the options from the file; nil if it has no experts.
func (l *loader) experts(c *Config, o expertOptions) *expertOptions {
	if o.count = l.integerOr("expert_count", 0); o.count == 0 || !l.ok() {
		return nil
	}
	const most = 1 << 12
	if o.count > most {
		l.fail("expert_count", ErrValue, "%d", o.count)
		return nil
	}
	if o.used = l.integer("expert_used_count"); o.used > o.count {
		l.fail("expert_used_count", ErrValue, "%d of %d experts", o.used, o.count)
	}
	if o.gating == 0 {
		o.gating = gateSoftmax
	}
	if n := l.integerOr("expert_gating_func", 0); n != 0 && gating(n) != o.gating {
		l.fail("expert_gating_func", ErrUnsupported, "%d", n)
	}
	o.scale = l.floatOr("expert_weights_scale", 0)
	if l.has("expert_weights_norm") && l.boolOr("expert_weights_norm", false) != o.normalize {
		l.fail("expert_weights_norm", ErrUnsupported, "%v", !o.normalize)
	}
	if o.width < 1 || o.width > largest {
		l.fail("expert_feed_forward_length", ErrValue, "%d", o.width)
	}
	o.groups, o.groupsUsed = l.integerOr("expert_group_count", 0), l.integerOr("expert_group_used_count", 0)
	switch {
	case !l.ok() || o.groups < 2:
	case o.count%o.groups != 0:
		l.fail("expert_group_count", ErrValue, "%d groups of %d experts", o.groups, o.count)
	case o.groupsUsed < 1 || o.groupsUsed > o.groups || o.groupsUsed*(o.count/o.groups) < o.used:
		l.fail("expert_group_used_count", ErrValue, "%d of %d groups, for %d of %d experts", o.groupsUsed, o.groups, o.used,
			o.count)
	}
	c.Experts, c.ExpertsUsed = o.count, o.used
	return &o
}

// gating is the key expert_gating_func; absent is what holds without it, 0 says that it must be there.
func (l *loader) gating(absent gating) gating {
	const key = "expert_gating_func"
	if absent != 0 && !l.has(key) || l.integerOr("expert_count", 0) == 0 {
		return absent
	}
	g := gating(l.integer(key))
	if l.ok() && g > gateSoftmaxChosen {
		l.fail(key, ErrUnsupported, "%d", g)
	}
	return g
}

// byKeys completes the options of families whose files say how the weights are made of the router's logits, how wide
// an expert is, and how many of that width every token is sent to.
func (l *loader) byKeys(absent gating, o expertOptions) expertOptions {
	o.gating, o.normalize = l.gating(absent), l.boolOr("expert_weights_norm", false)
	if n := l.integerOr("expert_shared_count", 0); o.shared == 0 {
		o.shared = n * o.width
	}
	return o
}

// leadingDense says which layers come before those with experts: leading_dense_block_count.
func (l *loader) leadingDense() func(layer int) bool {
	n := l.integerOr("leading_dense_block_count", 0)
	return func(layer int) bool { return l.first+layer < n }
}

// routerless says that a layer has no router, and so no experts.
func (l *loader) routerless(layer int) bool { return !l.holds(l.block(layer) + "ffn_gate_inp.weight") }

// gatesAndUps reads a tensor of n matrices [2*rows][cols]: the rows of a gate, then those of what it multiplies.
func (l *loader) gatesAndUps(name string, n, rows, cols int) (gate, up []linear) {
	both := l.read(request{name: name, dims: []int{cols, 2 * rows, n}, rows: slices.Repeat([]int{rows}, 2*n), each: 2})
	if !l.ok() {
		return nil, nil
	}
	for i := range n {
		gate, up = append(gate, both[2*i]), append(up, both[2*i+1])
	}
	return gate, up
}

// linears reads n matrices and, if there, n factors and n biases from one tensor each.
func (l *loader) linears(name string, n, rows, cols int) []linear {
	all := l.stack(name+".weight", n, rows, cols)
	var b []float32
	if _, ok := l.find(name + ".bias"); ok {
		b = l.floats(name+".bias", rows, n)
	}
	if !l.ok() {
		return nil
	}
	for i := range all {
		if b != nil {
			all[i].b = b[i*rows : (i+1)*rows : (i+1)*rows]
		}
	}
	return all
}
