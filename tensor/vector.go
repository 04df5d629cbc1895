package tensor

import "github.com/specgo/spec/asm"

// vectorUnit is the number of elements in a unit of work. The caller alone does less than two units.
const vectorUnit = 4096

// vectorJob applies a kernel to rows of width numbers, or, with width 1, to numbers one by one.
type vectorJob struct {
	k         *asm.Kernels
	op        vectorOp
	dst, a, b []float32 // [rows][width]
	w, bias   []float32 // [width], the same for all rows
	eps       float32
	width     int
	rows      int // per unit
	unit      func(worker, unit int)
}

type vectorOp uint8

const (
	opAdd vectorOp = iota
	opSiLUMul
	opSigmoidMul
	opGELU
	opGELUErf
	opRMSNorm
	opLayerNorm
)

func (j *vectorJob) init(rt *Runtime) {
	j.k = &rt.k
	j.unit = func(_, unit int) {
		n := j.rows * j.width
		j.apply(unit*n, min((unit+1)*n, len(j.dst)))
	}
}

// apply computes elements from … to-1, which are whole rows.
func (j *vectorJob) apply(from, to int) {
	dst, a := j.dst[from:to], j.a[from:to]
	switch j.op {
	case opAdd:
		j.k.Add(dst, a)
	case opSiLUMul:
		j.k.SiLUMul(dst, a, j.b[from:to])
	case opSigmoidMul:
		j.k.SigmoidMul(dst, a)
	case opGELU:
		j.k.GELU(dst, a)
	case opGELUErf:
		j.k.GELUErf(dst, a)
	default:
		for i := 0; i < len(dst); i += j.width {
			if j.op == opRMSNorm {
				j.k.RMSNorm(dst[i:i+j.width], a[i:i+j.width], j.w, j.eps)
			} else {
				j.k.LayerNorm(dst[i:i+j.width], a[i:i+j.width], j.w, j.bias, j.eps)
			}
			safepoint()
		}
	}
}

// do runs job, on the pool if it is large enough. The units, and so the results, are the same either way.
func (rt *Runtime) do(job vectorJob) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	j := &rt.vector
	job.k, job.unit = j.k, j.unit
	job.rows = max(1, vectorUnit/job.width)
	*j = job
	n := job.rows * job.width
	rt.pool.run((len(job.dst)+n-1)/n, j.unit)
	j.dst, j.a, j.b, j.w, j.bias = nil, nil, nil, nil, nil
	return nil
}

// Add adds x to dst: dst[i] += x[i].
func (rt *Runtime) Add(dst, x []float32) error {
	if len(dst) != len(x) {
		return shapeError("%d += %d numbers", len(dst), len(x))
	}
	return rt.do(vectorJob{op: opAdd, dst: dst, a: x, width: 1})
}

// SiLUMul is the gate of a SwiGLU feed-forward network: dst[i] = gate[i]/(1+exp(-gate[i])) * up[i]. dst may be gate
// or up.
func (rt *Runtime) SiLUMul(dst, gate, up []float32) error {
	if len(dst) != len(gate) || len(dst) != len(up) {
		return shapeError("%d = silu(%d) * %d numbers", len(dst), len(gate), len(up))
	}
	return rt.do(vectorJob{op: opSiLUMul, dst: dst, a: gate, b: up, width: 1})
}

// SigmoidMul multiplies by gates: dst[i] *= 1/(1+exp(-x[i])).
func (rt *Runtime) SigmoidMul(dst, x []float32) error {
	if len(dst) != len(x) {
		return shapeError("%d *= sigmoid of %d numbers", len(dst), len(x))
	}
	return rt.do(vectorJob{op: opSigmoidMul, dst: dst, a: x, width: 1})
}

// GELU is the Gaussian error linear unit in its tanh form (Hendrycks and Gimpel, 2016). dst may be x.
func (rt *Runtime) GELU(dst, x []float32) error {
	if len(dst) != len(x) {
		return shapeError("%d = gelu(%d) numbers", len(dst), len(x))
	}
	return rt.do(vectorJob{op: opGELU, dst: dst, a: x, width: 1})
}

// GELUErf is the Gaussian error linear unit (Hendrycks and Gimpel, 2016): x * (1 + erf(x/sqrt(2))) / 2. dst may be x.
func (rt *Runtime) GELUErf(dst, x []float32) error {
	if len(dst) != len(x) {
		return shapeError("%d = gelu(%d) numbers", len(dst), len(x))
	}
	return rt.do(vectorJob{op: opGELUErf, dst: dst, a: x, width: 1})
}

// RMSNorm divides every row of x [rows][len(w)] by its root mean square and multiplies it with w (Zhang and Sennrich,
// 2019): dst = x / sqrt(mean(x*x) + eps) * w. dst may be x.
func (rt *Runtime) RMSNorm(dst, x, w []float32, eps float32) error {
	if len(w) == 0 || len(dst) != len(x) || len(x)%len(w) != 0 {
		return shapeError("%d = norm(%d) numbers with %d weights", len(dst), len(x), len(w))
	}
	return rt.do(vectorJob{op: opRMSNorm, dst: dst, a: x, w: w, eps: eps, width: len(w)})
}

// LayerNorm normalizes every row of x [rows][len(w)] to mean 0 and variance 1, multiplies it with w and adds b (Ba,
// Kiros and Hinton, 2016): dst = (x - mean) / sqrt(variance + eps) * w + b. dst may be x.
func (rt *Runtime) LayerNorm(dst, x, w, b []float32, eps float32) error {
	if len(w) == 0 || len(dst) != len(x) || len(x)%len(w) != 0 || len(b) != len(w) {
		return shapeError("%d = norm(%d) numbers with %d weights, %d biases", len(dst), len(x), len(w), len(b))
	}
	return rt.do(vectorJob{op: opLayerNorm, dst: dst, a: x, w: w, bias: b, eps: eps, width: len(w)})
}

// Quantize turns x into signed bytes q and a scale d per block of 32, as activations are for integer weights:
// d = max|x|/127, q = x*(127/max|x|) rounded half to even; a block under 2^-100 is zeros. x is about q[i]*d[i/32].
// len(x) is a multiple of 32 and len(q), and 32 times len(d). NaN and infinity give ErrNotFinite.
func (rt *Runtime) Quantize(q []int8, d []float32, x []float32) error {
	if len(x) == 0 || len(x)%asm.BlockSize != 0 || len(q) != len(x) || len(d)*asm.BlockSize != len(x) {
		return shapeError("%d numbers into %d quants and %d scales", len(x), len(q), len(d))
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	in := &rt.single
	if err := in.Set(rt, x, 1, len(x)); err != nil {
		return err
	}
	rt.matmul.in = in
	defer rt.matmul.forget()
	if err := in.prepare(rt, Q8_0); err != nil {
		return err
	}
	copy(q, in.tiles[0].Q)
	copy(d, in.tiles[0].D)
	return nil
}
