package jinja

import (
	"errors"
	"testing"
)

func FuzzTemplate(f *testing.F) {
	vars, cases := readCases(f, 2)
	for _, c := range cases {
		f.Add(c.Template)
	}
	f.Fuzz(func(t *testing.T, src string) {
		tmpl, err := Parse(src)
		if err == nil {
			var out Text
			out, err = tmpl.Render(Context{Vars: vars, Clock: clock, Limits: Limits{Steps: 20_000, Depth: 500, Bytes: 1 << 20}})
			if len(out.s) != len(out.o) || len(out.s) > 1<<20 {
				t.Fatalf("%d bytes, %d origins", len(out.s), len(out.o))
			}
		}
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%T %v", err, err)
		}
	})
}
