package sampling

import (
	"reflect"
	"testing"
)

// A breaker of two characters stands in one token, or over the border of two.
func TestBreakers(t *testing.T) {
	pieces := []string{"a", "b", "ab", "xaby", "xa", "bz", "", "c", "ca"}
	encode := func(text string) (ids []int32) {
		for _, c := range text {
			for id, p := range pieces {
				if p == string(c) {
					ids = append(ids, int32(id))
				}
			}
		}
		return ids
	}
	got := Breakers(len(pieces), func(id int32) string { return pieces[id] }, encode, []string{"ab", ""})
	want := [][]int32{{0, 1}, {2}, {3}, {4, 1}, {8, 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	if got := Breakers(len(pieces), func(id int32) string { return pieces[id] }, encode,
		[]string{"aba"}); !reflect.DeepEqual(got,
		[][]int32{{0, 1, 0}, {2, 0}, {4, 1, 0}, {8, 1, 0}}) {
		t.Errorf("of three characters: %v", got)
	}
}
