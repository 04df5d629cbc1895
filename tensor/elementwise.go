package tensor

import "github.com/specgo/spec/asm"

// Operations on numbers one by one, or on rows of them, that no kernel does: each is its own specification.

// elementJob applies f to rows of numbers.
type elementJob struct {
	f         func(j *elementJob, dst, x []float32, row int)
	g         func(float32) float32 // of mapRow
	dst, x, w []float32
	a, b      float32
	width     int // of a row
	rows      int // per unit
	unit      func(worker, unit int)
}

func (j *elementJob) init(*Runtime) {
	j.unit = func(_, unit int) {
		for i := unit * j.rows * j.width; i < min((unit+1)*j.rows*j.width, len(j.dst)); i += j.width {
			var x []float32
			if j.x != nil {
				x = j.x[i : i+j.width]
			}
			j.f(j, j.dst[i:i+j.width], x, i/j.width)
			safepoint()
		}
	}
}

// each runs job on the rows of job.dst.
func (rt *Runtime) each(job elementJob) error {
	if job.width < 1 || len(job.dst)%job.width != 0 || job.x != nil && len(job.x) != len(job.dst) {
		return shapeError("%d and %d numbers in rows of %d", len(job.dst), len(job.x), job.width)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.element
	job.unit = j.unit
	job.rows = max(1, vectorUnit/job.width)
	*j = job
	n := job.rows * job.width
	rt.pool.run((len(job.dst)+n-1)/n, j.unit)
	j.dst, j.x, j.w, j.g = nil, nil, nil, nil
	return nil
}

// rowWidth cuts n numbers that are independent into rows.
func rowWidth(n int) int {
	for _, w := range []int{vectorUnit, 1024, 256, 64, 16} {
		if n%w == 0 && n > 0 {
			return w
		}
	}
	return 1
}

// Scale multiplies x by a number: x[i] *= s.
func (rt *Runtime) Scale(x []float32, s float32) error {
	return rt.each(elementJob{f: scaleRow, dst: x, a: s, width: rowWidth(len(x))})
}

func scaleRow(j *elementJob, dst, _ []float32, _ int) { multiplyBy(dst, j.a) }

func multiplyBy(x []float32, s float32) {
	for i := range x {
		x[i] *= s
	}
}

// Clamp limits x to -limit … limit.
func (rt *Runtime) Clamp(x []float32, limit float32) error {
	return rt.each(elementJob{f: clampRow, dst: x, a: limit, width: rowWidth(len(x))})
}

func clampRow(j *elementJob, dst, _ []float32, _ int) {
	for i, v := range dst {
		dst[i] = min(max(v, -j.a), j.a)
	}
}

// SoftCap limits x smoothly: x[i] = limit * tanh(x[i]/limit).
func (rt *Runtime) SoftCap(x []float32, limit float32) error {
	return rt.each(elementJob{f: capRow, dst: x, a: limit, width: rowWidth(len(x))})
}

func capRow(j *elementJob, dst, _ []float32, _ int) { softCap(dst, j.a) }

func softCap(x []float32, limit float32) {
	for i, v := range x {
		x[i] = limit * asm.Tanh32(v/limit)
	}
}

// Mul multiplies elementwise: dst[i] *= x[i].
func (rt *Runtime) Mul(dst, x []float32) error {
	if len(dst) != len(x) {
		return shapeError("%d *= %d numbers", len(dst), len(x))
	}
	return rt.each(elementJob{f: mulRow, dst: dst, x: x, width: rowWidth(len(x))})
}

func mulRow(_ *elementJob, dst, x []float32, _ int) {
	for i, v := range x {
		dst[i] *= v
	}
}

// MulWeights multiplies every row of x [rows][len(w)] by w.
func (rt *Runtime) MulWeights(x, w []float32) error {
	return rt.each(elementJob{f: mulWeightsRow, dst: x, w: w, width: len(w)})
}

func mulWeightsRow(j *elementJob, dst, _ []float32, _ int) {
	for i, v := range j.w {
		dst[i] *= v
	}
}

// MulRows multiplies row i of x [len(s)][…] by s[i]. Rows whose factor is 1 keep their bits.
func (rt *Runtime) MulRows(x, s []float32) error {
	if len(s) == 0 || len(x)%len(s) != 0 {
		return shapeError("%d numbers in %d rows", len(x), len(s))
	}
	return rt.each(elementJob{f: mulRowsRow, dst: x, w: s, width: len(x) / len(s)})
}

func mulRowsRow(j *elementJob, dst, _ []float32, row int) {
	s := j.w[row]
	for i := range dst {
		dst[i] *= s
	}
}

// ReLU is max(x, 0) (Nair and Hinton 2010). Zeros of either sign, and what is below, become +0.
func (rt *Runtime) ReLU(x []float32) error {
	return rt.each(elementJob{f: reluRow, dst: x, width: rowWidth(len(x))})
}

func reluRow(_ *elementJob, dst, _ []float32, _ int) {
	for i, v := range dst {
		dst[i] = max(v, 0)
	}
}

// ReLUSquared is max(x, 0)² (So et al. 2021, Primer, arXiv:2109.08668).
func (rt *Runtime) ReLUSquared(x []float32) error {
	return rt.each(elementJob{f: reluSquaredRow, dst: x, width: rowWidth(len(x))})
}

func reluSquaredRow(_ *elementJob, dst, _ []float32, _ int) {
	for i, v := range dst {
		v = max(v, 0)
		dst[i] = v * v
	}
}

// ClampedSwiGLU is the gate of gpt-oss: with g = min(gate, limit) and u = up limited to -limit … limit,
// gate = (g * sigmoid(alpha*g)) * (u + 1).
func (rt *Runtime) ClampedSwiGLU(gate, up []float32, alpha, limit float32) error {
	if len(gate) != len(up) {
		return shapeError("%d gates for %d numbers", len(gate), len(up))
	}
	return rt.each(elementJob{f: clampedSwiGLURow, dst: gate, x: up, a: alpha, b: limit, width: rowWidth(len(up))})
}

func clampedSwiGLURow(j *elementJob, gate, up []float32, _ int) {
	for i, u := range up {
		g := min(gate[i], j.b)
		u = min(max(u, -j.b), j.b)
		gate[i] = float32(g*asm.Sigmoid32(float32(j.a*g))) * (u + 1)
	}
}

// Map is x[i] = f(x[i]), for functions that no kernel and no other operation does. f is called on several threads.
func (rt *Runtime) Map(x []float32, f func(float32) float32) error {
	return rt.each(elementJob{f: mapRow, g: f, dst: x, width: rowWidth(len(x))})
}

func mapRow(j *elementJob, dst, _ []float32, _ int) {
	for i, v := range dst {
		dst[i] = j.g(v)
	}
}

// Sigmoid is 1/(1+exp(-x)).
func Sigmoid(x float32) float32 { return asm.Sigmoid32(x) }

// MulAdd is dst[i] = fma(x[i], s, dst[i]), on the caller's thread.
func MulAdd(dst, x []float32, s float32) {
	for i, v := range x {
		dst[i] = asm.FMA(v, s, dst[i])
	}
}
