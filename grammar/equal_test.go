package grammar

import "testing"

// Constants are equal as values: an object's members have no order, a number is its value, and kinds differ.
func TestConstantsAreEqualAsValues(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1e0}`, true},
		{`{"a":1}`, `{"a":2}`, false},
		{`{"a":1}`, `{"b":1}`, false},
		{`{"a":1}`, `{"a":1,"b":1}`, false},
		{`{"a":1,"b":1}`, `{"a":1}`, false},
		{`{}`, `{}`, true},
		{`{}`, `[]`, false},
		{`[]`, `{}`, false},
		{`{}`, `null`, false},
		{`null`, `{}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[1]`, `[1,1]`, false},
		{`1`, `1.0`, true},
		{`1`, `"1"`, false},
		{`"1"`, `1`, false},
	} {
		x := values{schema: `{"enum":["other",` + c.a + `],"not":{"const":` + c.b + `}}`, yes: []string{`"other"`}}
		if c.equal {
			x.no = []string{c.a}
		} else {
			x.yes = append(x.yes, c.a)
		}
		x.check(t)
	}
}
