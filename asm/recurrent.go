package asm

// DeltaTokens are the operands of [RecurrentKernels].DeltaScan for the tokens of one head. Row t of a matrix begins
// at t*stride; elements between rows are neither read nor written.
type DeltaTokens struct {
	Out       []float32 // [Tokens][values]
	OutStride int       // 0: every token overwrites the same row
	Q, K, V   []float32 // [Tokens][keys], [Tokens][keys], [Tokens][values]
	Stride    int       // of Q, K and V
	Decay     []float32 // [Tokens]
	Beta      []float32 // [Tokens]
	Scale     float32   // of Out
	Tokens    int       // at least 1
}

// Mamba2Tokens are the operands of [RecurrentKernels].Mamba2Scan for the tokens of one head, in rows as those of
// [DeltaTokens].
type Mamba2Tokens struct {
	Out       []float32 // [Tokens][values]
	OutStride int       // 0: every token overwrites the same row
	X, B, C   []float32 // [Tokens][values], [Tokens][keys], [Tokens][keys]
	Stride    int       // of X, B and C
	Step      []float32 // [Tokens], the discretization step
	Decay     []float32 // [Tokens]
	Skip      float32
	Tokens    int // at least 1
}

// deltaScan is the specification of [RecurrentKernels.DeltaScan].
func deltaScan(state []float32, keys, values int, x *DeltaTokens) {
	deltaColumns(state, keys, 0, values, x)
}

// deltaColumns is deltaScan of the values from, …, to-1; from is a multiple of PanelRows, where state begins.
func deltaColumns(state []float32, keys, from, to int, x *DeltaTokens) {
	var u, out [PanelRows]float32
	for ; from < to; from += PanelRows {
		width := min(PanelRows, to-from)
		panel := state[:keys*width]
		state = state[len(panel):]
		for t := range x.Tokens {
			q, k, v := x.Q[t*x.Stride:][:keys], x.K[t*x.Stride:][:keys], x.V[t*x.Stride+from:][:width]
			u, out := u[:width], out[:width]
			clear(u)
			for i, e := range k {
				axpy(u, e, panel[i*width:(i+1)*width])
			}
			for j, e := range v {
				u[j] = (e - float32(u[j]*x.Decay[t])) * x.Beta[t]
			}
			scanUpdate(out, panel, u, k, q, x.Decay[t])
			for j, e := range out {
				x.Out[t*x.OutStride+from+j] = e * x.Scale
			}
		}
	}
}

// mamba2Scan is the specification of [RecurrentKernels.Mamba2Scan].
func mamba2Scan(state []float32, keys, values int, x *Mamba2Tokens) {
	mamba2Columns(state, keys, 0, values, x)
}

// mamba2Columns is mamba2Scan of the values from, …, to-1; from is a multiple of PanelRows, where state begins.
func mamba2Columns(state []float32, keys, from, to int, x *Mamba2Tokens) {
	var u, out [PanelRows]float32
	for ; from < to; from += PanelRows {
		width := min(PanelRows, to-from)
		panel := state[:keys*width]
		state = state[len(panel):]
		for t := range x.Tokens {
			v := x.X[t*x.Stride+from:][:width]
			u, out := u[:width], out[:width]
			for j, e := range v {
				u[j] = e * x.Step[t]
			}
			scanUpdate(out, panel, u, x.B[t*x.Stride:][:keys], x.C[t*x.Stride:][:keys], x.Decay[t])
			for j, e := range out {
				x.Out[t*x.OutStride+from+j] = FMA(x.Skip, v[j], e)
			}
		}
	}
}

// scanUpdate is, for a panel: panel[i][j] = fma(panel[i][j], decay, u[j]*k[i]); out[j] = sum over i of
// q[i]*panel[i][j].
func scanUpdate(out, panel, u, k, q []float32, decay float32) {
	width := len(u)
	clear(out)
	for i, e := range k {
		row := panel[i*width : (i+1)*width]
		blend(row, u, decay, e)
		axpy(out, q[i], row)
	}
}

// conv is the specification of [RecurrentKernels.Conv].
func conv(out, x, w []float32, channels int) { convColumns(out, x, w, channels, 0) }

// convColumns is conv of the channels from, from+1, ….
func convColumns(out, x, w []float32, channels, from int) {
	for t := 0; t < len(out); t += channels {
		row := out[t+from : t+channels]
		clear(row)
		for tap := 0; tap < len(w); tap += channels {
			a, b := w[tap+from:tap+channels], x[t+tap+from:][:len(row)]
			for i, e := range row {
				row[i] = FMA(a[i], b[i], e)
			}
		}
	}
}

// divide is the specification of [ElementKernels.Divide].
func divide(x []float32, d float32) {
	for i := range x {
		x[i] /= d
	}
}
