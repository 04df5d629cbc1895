package recurrent

import "github.com/specgo/spec/tensor"

// Convolution is a causal convolution as a recurrence: the state is the last inputs.
type Convolution struct {
	w                     []float32 // [units][taps][channels/units]
	bias                  []float32 // [channels], of silu(conv(x) + bias); nil: conv(x)
	taps, channels, units int
}

// unitsOf is the number of parts that independent channels are cut into for the threads.
func unitsOf(channels int) int {
	for _, n := range []int{16, 8, 4, 2} {
		if channels%(16*n) == 0 {
			return n
		}
	}
	return 1
}

// NewConvolution makes the recurrence of filters w [taps][channels].
func NewConvolution(w []float32, taps, channels int) *Convolution {
	v := &Convolution{taps: taps, channels: channels, units: unitsOf(channels)}
	n := channels / v.units
	for u := range v.units {
		for tap := range taps {
			v.w = append(v.w, w[tap*channels+u*n:][:n]...)
		}
	}
	return v
}

// NewActivated is NewConvolution with biases [channels] and SiLU behind them.
func NewActivated(w, bias []float32, taps, channels int) *Convolution {
	v := NewConvolution(w, taps, channels)
	v.bias = bias
	return v
}

func (v *Convolution) shape() sizes {
	n := v.channels / v.units
	return sizes{units: v.units, state: (v.taps - 1) * n, inputs: [inputParts]int{v.channels}, output: v.channels,
		scratch: convolved(n, v.taps)}
}

func (v *Convolution) scan(t *tensor.Runtime, unit int, state []float32, in []tokenInput, out []float32,
	scratch *scanScratch) {
	n := v.channels / v.units
	x, _ := scratch.shift(in, func(dst, all []float32) []float32 { return append(dst, all[unit*n:(unit+1)*n]...) },
		state, n)
	if out == nil {
		return
	}
	y := scratch.numbers[len(x):][:len(in)*n]
	t.Conv(y, x, v.w[unit*v.taps*n:(unit+1)*v.taps*n], n)
	if v.bias != nil {
		for i := range in {
			t.AddRow(y[i*n:(i+1)*n], v.bias[unit*n:(unit+1)*n])
		}
		t.SiLU(y)
	}
	for i := range in {
		copy(out[i*v.channels+unit*n:], y[i*n:(i+1)*n])
	}
}
