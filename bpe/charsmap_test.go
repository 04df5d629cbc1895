package bpe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// compileCharsmap makes the compiled form of rules. With far, every edge uses the form
// of a unit for distances that are multiples of 256.
func compileCharsmap(t testing.TB, rules map[string]string, far bool) []byte {
	t.Helper()
	units := make([]uint32, 1<<16)
	used, states := map[uint32]bool{0: true}, map[uint32]bool{}
	var right []byte
	offset := func(distance uint32) uint32 {
		if !far {
			return distance << 10
		}
		if distance%256 != 0 {
			t.Fatalf("distance %d", distance)
		}
		return distance>>8<<10 | 1<<9
	}
	// place finds a state at which the edges, bytes or 0 for a value, fall on free units.
	place := func(from uint32, labels []byte) uint32 {
		for distance := uint32(1); ; distance++ {
			if far && distance%256 != 0 {
				continue
			}
			state := from ^ distance
			if int(state|0xff) >= len(units) {
				t.Fatal("too many rules")
			}
			if !states[state] && !slices.ContainsFunc(labels, func(c byte) bool { return used[state^uint32(c)] }) {
				states[state] = true
				for _, c := range labels {
					used[state^uint32(c)] = true
				}
				return state
			}
		}
	}
	var build func(state uint32, keys []string, depth int)
	labels := func(keys []string, depth int) (list []byte) {
		for _, k := range keys {
			c := byte(0)
			if len(k) > depth {
				c = k[depth]
			}
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
		return list
	}
	build = func(state uint32, keys []string, depth int) {
		if len(keys[0]) == depth { // the keys are sorted
			units[state] = 1<<31 | uint32(len(right))
			right = append(append(right, rules[keys[0]]...), 0)
			keys = keys[1:]
		}
		for _, c := range labels(keys, depth) {
			var below []string
			for _, k := range keys {
				if k[depth] == c {
					below = append(below, k)
				}
			}
			edge := state ^ uint32(c)
			to := place(edge, labels(below, depth+1))
			units[edge] = uint32(c) | offset(edge^to)
			if len(below[0]) == depth+1 {
				units[edge] |= unitMatch
			}
			build(to, below, depth+1)
		}
	}
	keys := slices.Sorted(maps.Keys(rules))
	root := place(0, labels(keys, 0))
	units[0] = offset(root)
	build(root, keys, 0)
	for !used[uint32(len(units)-1)] {
		units = units[:len(units)-1]
	}
	units = append(units, make([]uint32, 255)...)[:(len(units)+255)&^255] // blocks, as files have them
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, uint32(4*len(units)))
	binary.Write(&b, binary.LittleEndian, units)
	b.Write(right)
	return b.Bytes()
}

// tinyRules are a few of Unicode's compatibility forms and what SentencePiece makes of
// control characters, and rules that are beginnings of one another.
var tinyRules = map[string]string{
	"\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\u00ad": "", "ﬁ": "fi", "½": "1/2",
	"e\u0301": "é", "e\u0301\u0323": "ẹ́",
	"…": "...", "Ａ": "A", "q": "k", "qq": " k k ", "qqqq": "!", "①": "<x1>", "②": "ay",
}

func TestCharsmap(t *testing.T) {
	for _, far := range []bool{false, true} {
		m, err := newCharsmap(compileCharsmap(t, tinyRules, far))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(slices.Sorted(maps.Keys(tinyRules)), "", "a", "ex", "e\u0301x", "e\u0301\u0323x",
			"e\u0323", "qqq", "qqqqq", "\xef\xac", "\x00q", "q\x00") {
			want, n := "", 0
			for from, to := range tinyRules {
				if len(from) > n && strings.HasPrefix(text, from) {
					want, n = to, len(from)
				}
			}
			if got, gotN := m.find(text); string(got) != want || gotN != n {
				t.Errorf("far %v, %q: %q for %d bytes, want %q for %d", far, text, got, gotN, want, n)
			}
		}
	}
	if m, err := newCharsmap(nil); m != nil || err != nil {
		t.Error("no bytes make a map", err)
	}
}

// TestCharsmapDamaged: a rule that cannot be applied is found before any text is read.
func TestCharsmapDamaged(t *testing.T) {
	unit := func(c byte, distance uint32, match bool) uint32 {
		u := uint32(c) | distance<<10
		if match {
			u |= unitMatch
		}
		return u
	}
	compile := func(right string, units map[uint32]uint32) []byte {
		list := make([]uint32, 1024)
		for i, u := range units {
			list[i] = u
		}
		var b bytes.Buffer
		binary.Write(&b, binary.LittleEndian, uint32(4*len(list)))
		binary.Write(&b, binary.LittleEndian, list)
		b.WriteString(right)
		return b.Bytes()
	}
	const root = 256
	edge := uint32(root ^ 'a')
	one := func(u, value uint32) map[uint32]uint32 {
		return map[uint32]uint32{0: root << 10, edge: u, edge ^ 512: 1<<31 | value}
	}
	good := compile("b\x00", one(unit('a', 512, true), 0))
	if m, err := newCharsmap(good); err != nil {
		t.Fatal(err)
	} else if r, n := m.find("ab"); string(r) != "b" || n != 1 {
		t.Fatalf("%q, %d", r, n)
	}
	for _, c := range []struct {
		want string
		b    []byte
	}{
		{"3 bytes are no map", good[:3]},
		{"a trie of 4096 bytes in the 0 that follow", good[:4]},
		{"a trie of 4096 bytes in the 4095 that follow", good[:4+4095]},
		{"a trie of 0 bytes", make([]byte, 8)},
		{"a trie of 6 bytes", append([]byte{6, 0, 0, 0}, make([]byte, 64)...)},
		{"a trie of 4294967292 bytes", append([]byte{0xfc, 0xff, 0xff, 0xff}, make([]byte, 64)...)},
		{"a replacement at byte 0 of 0", good[:len(good)-2]},
		{"the replacement at byte 0 has no end", good[:len(good)-1]},
		{"a replacement at byte 2 of 2", compile("b\x00", one(unit('a', 512, true), 2))},
		{"a replacement at byte 2147483647 of 2", compile("b\x00", one(unit('a', 512, true), unitValue))},
		{"the value at unit", compile("b\x00", one(unit('a', 1<<20, true), 0))},
		{"a replacement of 129 bytes, the limit is 128",
			compile(strings.Repeat("b", 129)+"\x00", one(unit('a', 512, true), 0))},
		{`a replacement that is not UTF-8: "b\xc3"`, compile("b\xc3\x00", one(unit('a', 512, true), 0))},
		// to the root
		{"leads back", compile("b\x00", map[uint32]uint32{0: root << 10, edge: unit('a', 'a', false)})},
		// by way of another state
		{"leads back", compile("b\x00", map[uint32]uint32{
			0: root << 10, edge: unit('a', 512, false), edge ^ 512 ^ 'b': unit('b', (root ^ edge ^ 512 ^ 'b'), false)})},
	} {
		if _, err := newCharsmap(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	// Edges that lead nowhere are dead ends and no damage: no text follows them.
	m, err := newCharsmap(compile("b\x00", map[uint32]uint32{0: root << 10, edge: unit('a', 1<<20, false)}))
	if err != nil {
		t.Fatal(err)
	}
	if r, n := m.find("aaa"); n != 0 {
		t.Errorf("%q, %d", r, n)
	}
}

// TestCharsmapBits: of a map with one bit changed either nothing comes or a map whose
// every walk ends inside it.
func TestCharsmapBits(t *testing.T) {
	good := compileCharsmap(t, map[string]string{"ab": "x", "abc": "y", "b": ""}, false)
	damaged, changed := 0, 0
	for i := range len(good) * 8 {
		b := slices.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		m, err := newCharsmap(b)
		if err != nil {
			damaged++
			continue
		}
		var all string
		for _, text := range []string{"ab", "abc", "abcabc", "b", "c", "aaaa", "\x80", "\xff\xff"} {
			r, n := m.find(text)
			all += fmt.Sprintf("%q %d,", r, n)
		}
		if all != `"x" 2,"y" 3,"y" 3,"" 1,"" 0,"" 0,"" 0,"" 0,` {
			changed++
		}
	}
	if damaged < 20 || changed < 20 {
		t.Errorf("%d maps refused, %d changed", damaged, changed)
	}
}

// FuzzCharsmap: any bytes are refused or are a map of which every walk ends.
func FuzzCharsmap(f *testing.F) {
	f.Add(compileCharsmap(f, map[string]string{"a": "b"}, false), "a")
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0, 'a', 0}, "a")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		// A header that fits, so that the rest is read.
		if len(b) >= 4 {
			binary.LittleEndian.PutUint32(b, uint32((len(b)-4)*3/4/4*4))
		}
		m, err := newCharsmap(b)
		if err != nil || m == nil {
			return
		}
		for i := range text {
			if r, n := m.find(text[i:]); n > len(text)-i || n == 0 && r != nil || len(r) > maxReplacement {
				t.Fatalf("%q becomes %q, %d bytes of %d", text[i:], r, n, len(text)-i)
			}
		}
	})
}
