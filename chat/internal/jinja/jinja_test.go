package jinja

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

type testCase struct {
	Template, Text, Error string
}

// fromJSON reads a value; objects keep their order.
func fromJSON(t testing.TB, d *json.Decoder, o Origin) Value {
	t.Helper()
	tok, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch v := tok.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case string:
		return NewText(v, o)
	case nil:
		return None{}
	case json.Delim:
		if v == '[' {
			l := &List{}
			for d.More() {
				l.Items = append(l.Items, fromJSON(t, d, o))
			}
			d.Token()
			return l
		}
		m := &Dict{}
		for d.More() {
			k := fromJSON(t, d, o)
			m.Set(k, fromJSON(t, d, o))
		}
		d.Token()
		return m
	}
	return tok
}

func readCases(t testing.TB, o Origin) (*Dict, []testCase) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vars  json.RawMessage
		Cases []testCase
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(file.Vars)))
	d.UseNumber()
	return fromJSON(t, d, o).(*Dict), file.Cases
}

func clock() time.Time { return time.Date(2026, 7, 6, 12, 4, 0, 0, time.UTC) }

func render(src string, c Context) (Text, error) {
	tmpl, err := Parse(src)
	if err != nil {
		return Text{}, err
	}
	return tmpl.Render(context.Background(), c)
}

// TestCases compares with what Jinja2 renders.
func TestCases(t *testing.T) {
	vars, cases := readCases(t, 0)
	if len(cases) < 150 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		got, err := render(c.Template, Context{Vars: vars, Clock: clock})
		switch {
		case c.Error != "" && err == nil:
			t.Errorf("%s\n got: %q\nwant an error: %s", c.Template, got.String(), c.Error)
		case c.Error == "" && err != nil:
			t.Errorf("%s\n%v", c.Template, err)
		case c.Error == "" && got.String() != c.Text:
			t.Errorf("%s\n got: %q\nwant: %q", c.Template, got.String(), c.Text)
		}
	}
}
