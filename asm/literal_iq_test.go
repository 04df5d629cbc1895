package asm

import (
	"crypto/sha256"
	"encoding/hex"
	"math/bits"
	"testing"
)

// literalGrid is place j of an entry of a grid, whose digits index values.
func literalGrid(entry uint16, digit, j int, values ...int) int {
	return values[int(entry)>>(digit*j)&(1<<digit-1)]
}

// sevenSigns is the sign of weight j of 8, of 7 stored signs; the eighth makes the number of minus signs even.
func sevenSigns(s, j int) int {
	if j == 7 {
		return 1 - 2*(bits.OnesCount(uint(s))%2)
	}
	return 1 - 2*(s>>j&1)
}

func u16(p []byte, at int) int    { return int(p[at]) | int(p[at+1])<<8 }
func u32(p []byte, at int) uint32 { return uint32(u16(p, at)) | uint32(u16(p, at+2))<<16 }

// nibbleAt is nibble i of some bytes, the low one of each first.
func nibbleAt(p []byte, i int) int { return int(p[i/2]) >> (i % 2 * 4) & 15 }

// wholes is a super-block of 8 sub-blocks of 32 weights: d*u*q.
func wholes(d float32, q, u func(i int) int) []literalBlock { return someWholes(8, d, q, u) }

// someWholes is n sub-blocks.
func someWholes(n int, d float32, q, u func(i int) int) (list []literalBlock) {
	for s := range n {
		b := literalBlock{d: d, scale: [2]int{u(s)}}
		for k := range b.q {
			b.q[k] = q(32*s + k)
		}
		b.values()
		list = append(list, b)
	}
	return list
}

func literalIQ2(entry uint16, j int) int { return literalGrid(entry, 2, j, 8, 25, 43) }

func init() {
	one := func(int) int { return 1 }
	for f, read := range map[Format]func(p []byte) []literalBlock{
		IQ3_S: func(p []byte) []literalBlock {
			return wholes(f16(p, 0), func(k int) int {
				quad, octet := k/4, k/8
				entry := gridIQ3_S[int(p[2+quad])+int(p[66+quad/8]>>(quad%8)&1)*256]
				return literalGrid(entry, 3, k%4, 1, 3, 5, 7, 9, 11, 13, 15) * (1 - 2*int(p[74+octet]>>(k%8)&1))
			}, func(g int) int { return 2*nibbleAt(p[106:], g) + 1 })
		},
		IQ3_XXS: func(p []byte) []literalBlock {
			return wholes(f16(p, 0)/2, func(k int) int {
				q := literalGrid(gridIQ3_XXS[p[2+k/4]], 3, k%4, 2, 6, 10, 14, 18, 22, 26, 31)
				return q * sevenSigns(int(u32(p, 66+k/32*4)>>(k%32/8*7)&127), k%8)
			}, func(g int) int { return 2*int(u32(p, 66+4*g)>>28) + 1 })
		},
		IQ2_S: func(p []byte) []literalBlock {
			return inHalves(f16(p, 0)/8, 0, false, func(k int) int {
				octet := k / 8
				entry := gridIQ2_S[int(p[2+octet])+int(p[66+octet/4]>>(octet%4*2)&3)*256]
				return literalIQ2(entry, k%8) * (1 - 2*int(p[34+octet]>>(k%8)&1))
			}, func(s int) (int, int) { return 2*nibbleAt(p[74:], s) + 1, 0 })
		},
		IQ2_XS: func(p []byte) []literalBlock {
			return inHalves(f16(p, 0)/8, 0, false, func(k int) int {
				v := u16(p, 2+k/8*2)
				return literalIQ2(gridIQ2_XS[v%512], k%8) * sevenSigns(v>>9, k%8)
			}, func(s int) (int, int) { return 2*nibbleAt(p[66:], s) + 1, 0 })
		},
		IQ2_XXS: func(p []byte) []literalBlock {
			return wholes(f16(p, 0)/8, func(k int) int {
				group := p[2+k/32*8:]
				return literalIQ2(gridIQ2_XXS[group[k%32/8]], k%8) * sevenSigns(int(u32(group, 4)>>(k%32/8*7)&127), k%8)
			}, func(g int) int { return 2*int(u32(p, 2+8*g+4)>>28) + 1 })
		},
		IQ1_M: func(p []byte) []literalBlock {
			d := 0
			for i := range 4 {
				d |= u16(p, 48+2*i) >> 12 << (4 * i)
			}
			return inHalves(FromF16(uint16(d))/8, 0, false, func(k int) int {
				v := nibbleAt(p[32:], k/8)
				return 8*literalGrid(gridIQ1[int(p[k/8])+v%8*256], 2, k%8, -1, 0, 1) + 1 - 2*(v/8)
			}, func(s int) (int, int) { return 2*(u16(p, 48+s/4*2)>>(s%4*3)&7) + 1, 0 })
		},
		IQ1_S: func(p []byte) []literalBlock {
			return wholes(f16(p, 0)/8, func(k int) int {
				h := u16(p, 34+k/32*2)
				return 8*literalGrid(gridIQ1[int(p[2+k/8])+h>>(k%32/8*3)%8*256], 2, k%8, -1, 0, 1) + 1 - 2*(h>>15)
			}, func(g int) int { return 2*(u16(p, 34+2*g)>>12%8) + 1 })
		},
		TQ2_0: func(p []byte) []literalBlock {
			return wholes(f16(p, 64), func(k int) int { return int(p[k/128*32+k%32]>>(k/32%4*2)&3) - 1 }, one)
		},
		Q2_0: func(p []byte) []literalBlock {
			return someWholes(2, f16(p, 0), func(k int) int { return int(p[2+k/4]>>(k%4*2)&3) - 1 }, one)
		},
		Q1_0: func(p []byte) []literalBlock {
			return someWholes(4, f16(p, 0), func(k int) int { return 2*int(p[2+k/8]>>(k%8)&1) - 1 }, one)
		},
		TQ1_0: func(p []byte) []literalBlock {
			return wholes(f16(p, 52), func(k int) int {
				at, n := k%32, k/32
				if k >= 240 {
					at, n = 48+k%4, (k-240)/4
				} else if k >= 160 {
					at, n = 32+k%16, (k-160)/16
				}
				v := int(p[at])
				for range n {
					v = v * 3 % 256
				}
				return v*3/256 - 1
			}, one)
		},
	} {
		literals[f] = read
	}
}

// TestGrids: the tables are those of the file format: hashes of their entries as int8, weight by weight.
func TestGrids(t *testing.T) {
	iq2 := []int8{8, 25, 43}
	for _, g := range []struct {
		name    string
		entries []uint16
		digit   int
		values  []int8
		want    string
	}{
		{"iq2_xxs", gridIQ2_XXS[:], 2, iq2, "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54"},
		{"iq2_xs", gridIQ2_XS[:], 2, iq2, "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de"},
		{"iq2_s", gridIQ2_S[:], 2, iq2, "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88"},
		{
			"iq3_xxs", gridIQ3_XXS[:], 3, []int8{4, 12, 20, 28, 36, 44, 52, 62},
			"46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d",
		},
		{
			"iq3_s", gridIQ3_S[:], 3, []int8{1, 3, 5, 7, 9, 11, 13, 15},
			"bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f",
		},
		{"iq1", gridIQ1[:], 2, []int8{-1, 0, 1}, "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a"},
	} {
		var all []byte
		for _, e := range g.entries {
			places := 8
			if g.digit == 3 {
				places = 4
			}
			for j := range places {
				all = append(all, byte(g.values[int(e)>>(g.digit*j)&(1<<g.digit-1)]))
			}
		}
		if got := sha256.Sum256(all); hex.EncodeToString(got[:]) != g.want {
			t.Errorf("%s: not the format's grid", g.name)
		}
	}
}
