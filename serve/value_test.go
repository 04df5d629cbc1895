package serve

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// An array has the elements that encoding/json finds.
func TestElements(t *testing.T) {
	for _, text := range []string{
		`[]`, `[ ]`, `[1]`, "[ 1\t,\n2 ]", `[[],[[1,2],3],{}]`, `["a,b","]","\"","\\",",\\\"]"]`,
		`[{"a":[1,{"b":"}]"}]}, null ,true,-1.5e3]`, `["",[""],{"":""}]`,
	} {
		var want []json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got, err := value{raw: []byte(text)}.list()
		same := func(v value, raw json.RawMessage) bool { return string(v.raw) == string(raw) }
		if err != nil || !slices.EqualFunc(got, want, same) {
			t.Errorf("%s: %q, not %q; %v", text, got, want, err)
		}
	}
	long := value{"x", []byte("[" + strings.Repeat("1,", mostItems) + "1]")}
	if _, err := long.list(); err == nil || !strings.Contains(err.Message, "more than 1048576 elements") {
		t.Error(err)
	}
	if ids, err := long.ids(); err != nil || len(ids) != mostItems+1 {
		t.Error(len(ids), err)
	}
}

// A prompt of token ids takes memory of the size of its body, not a multiple of it.
func TestIDsTakeTheMemoryOfTheirBody(t *testing.T) {
	const ids = 1 << 16
	for _, x := range []struct{ begin, end string }{{"[", "]"}, {"[[", "]]"}, {`["a",`, "]"}} {
		body := []byte(x.begin + strings.Repeat("1,", ids-1) + "1" + x.end)
		r := &request{}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := readPrompts(r, value{"prompt", body})
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		p := r.prompts[0]
		if p.Parts != nil {
			p = p.Parts[1]
		}
		if len(p.IDs) != ids {
			t.Errorf("%s: %d ids", x.begin, len(p.IDs))
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 40*ids { // of doublings as well
			t.Errorf("%s: %d bytes for %d ids", x.begin, took, ids)
		}
	}
}
