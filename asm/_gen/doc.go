package main

// The Go loops that are the kernels' comments. r is a row of the panel, t a token; acc begins at 0 and ends in
// out[t*stride+r].

const q8Doc = `for t < n, r < 16:
	for b < blocks:
		isum := bias[b][t]              // w is unsigned here: the sum of (w-128)*q
		for k < 32: isum += int(w[b][k/4][r][k%4]) * int(q[b][t][k])
		acc = fma(float(isum), scales[b][r]*d[b][t], acc)`

const q8SignedDoc = `for t < n, r < 16:
	for b < blocks:
		isum := 0
		for k < 32: isum += int(int8(w[b][k/4][r][k%4])) * int(q[b][t][k])
		acc = fma(float(isum), scales[b][r]*d[b][t], acc)`

const floatDoc = `for t < n, r < 16:
	acc := out[t*stride+r]
	for j < k: acc = fma(float32(w[j][r]), x[j][t], acc)`

const q4Doc = `for t < n, r < 16:
	for b < blocks:
		isum := bias[b][t] >> 4         // nibbles are unsigned: the sum of (w-8)*q
		for k < 16: isum += int(w[b][k/4][r][k%4]&15) * int(q[b][t][k])
		for k < 16: isum += int(w[b][k/4][r][k%4]>>4) * int(q[b][t][16+k])
		acc = fma(float(isum), scales[b][r]*d[b][t], acc)`

const scoresDoc = `for r < n, j < 16*blocks:
	acc := 0
	for d < dim: acc = fma(q[d*rows+r], float32(k[d][j]), acc)  // 8-bit keys: times scales[d/32][j]
	out[r*256+j] = acc * scale`

const valuesDoc = `for r < n, d < 16*blocks:
	for j < count: o[r*dim+d] = fma(p[r*256+j], float32(v[j][d]), o[r*dim+d])  // 8-bit values: times scales[j][d/32]`

const q4kDoc = `for t < n, r < 16:
	for b < 8*supers:                       // d, dmin are the super-block's
		isum := 0
		for k < 32: isum += nibble(w[b][k/4][r][k%4]) * int(q[b][t][k])
		acc = fma(float(isum), (d[r]*float(sc[b][r])) * d[b][t], acc)
		acc = fma(-(dmin[r]*float(mn[b][r])), dsum[b][t], acc)`

const q6kDoc = `for t < n, r < 16:
	for b < 8*supers:                       // weights are unsigned: w+32
		isum0, isum1 := half[b][t][0], half[b][t][1]
		for k < 16: isum0 += w[b][r][k] * int(q[b][t][k])
		for k < 16: isum1 += w[b][r][16+k] * int(q[b][t][16+k])
		acc = fma(float(sc[b][0][r]*isum0 + sc[b][1][r]*isum1), d[r]*d[b][t], acc)`

const pairDoc = `for p < 2: the kernel of one panel, with w[p*panel:], 8 tokens of 8, and out[p*16:]`
