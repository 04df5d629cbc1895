package jinja

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// FuzzTemplate: a template renders, or ends with an error of the package, within its limits: also the memory that it
// really takes is bounded by them.
func FuzzTemplate(f *testing.F) {
	vars, cases := readCases(f, 2)
	for _, c := range cases {
		f.Add(c.Template)
	}
	vars.Set(lit("big"), NewText(strings.Repeat("Ab <é\n", 2000), 1))
	limits := Limits{Steps: 20_000, Depth: 500, Bytes: 1 << 20, Output: 1 << 19}
	f.Fuzz(func(t *testing.T, src string) {
		tmpl, err := Parse(src)
		if err == nil {
			var out Text
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err = tmpl.Render(t.Context(), Context{Vars: vars, Clock: clock, Limits: limits})
			runtime.ReadMemStats(&after)
			if len(out.s) != len(out.o) || len(out.s) > limits.Output {
				t.Fatalf("%d bytes, %d origins", len(out.s), len(out.o))
			}
			if took := int(after.TotalAlloc - before.TotalAlloc); took > 4*limits.Bytes+500*limits.Steps+1<<20 {
				t.Fatalf("%d bytes of memory", took)
			}
		}
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%T %v", err, err)
		}
	})
}
