package ini

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const text = "\ufeffversion = 1\r\n; a comment\n\n  # another\nthreads=8 ; behind a value\n" +
		"empty =\n[*]\n\tctx-size =\t4096\t# tabs\n[ owner/model-GGUF:Q8_0 ] ; a model\nmodel = \"a; b # c\" ; quoted\n" +
		"LLAMA_ARG_X = a = b\nv1.5_x = \"\"\n[empty]\n"
	f, err := Read("file", strings.NewReader(text))
	want := &File{"file", []Section{
		{"", 0, []Entry{{"version", "1", 1}, {"threads", "8", 5}, {"empty", "", 6}}},
		{"*", 7, []Entry{{"ctx-size", "4096", 8}}},
		{"owner/model-GGUF:Q8_0", 9, []Entry{{"model", "a; b # c", 10}, {"LLAMA_ARG_X", "a = b", 11}, {"v1.5_x", "", 12}}},
		{"empty", 13, nil},
	}}
	if err != nil || !reflect.DeepEqual(f, want) {
		t.Errorf("%v\n%+v\n%+v", err, f, want)
	}
}

// What other readers would take for something else is an error with its line.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"a = 1\nb":                              `file, line 2: neither KEY = VALUE nor [SECTION]: "b"`,
		"key: secret":                           `file, line 1: neither KEY = VALUE nor [SECTION]: "key"`,
		"= 1":                                   `file, line 1: neither KEY`,
		"a b = 1":                               `file, line 1: neither KEY = VALUE nor [SECTION]: "a"`,
		"1a = 1":                                `file, line 1: neither KEY`,
		"-a = 1":                                `file, line 1: neither KEY`,
		"a = 1\n\na = 2":                        `file, line 3: a again, after line 1`,
		"[x]\n[y]\n[x]":                         `file, line 3: section [x] again, after line 1`,
		"[x":                                    `file, line 1: not [NAME]`,
		"[]":                                    `file, line 1: not [NAME]`,
		"[x] y":                                 `file, line 1: not [NAME]`,
		"a = b#c":                               `file, line 1: '#' inside a value`,
		"a = b;":                                `file, line 1: ';' inside a value`,
		`a = "b`:                                `file, line 1: what begins with a double quote`,
		`a = "b" c`:                             `file, line 1: what begins with a double quote`,
		"a = \xff":                              `file, line 1: not a line of text`,
		"a = \x1b[m":                            `file, line 1: not a line of text`,
		strings.Repeat("x", MostLine):           `file, line 1: more than 65536 bytes`,
		strings.Repeat("# 89\n", MostBytes/5+1): `file, line 209716: the file has more than`,
		// also where the bytes that are read end with a line, and where lines end as on Windows
		strings.Repeat("# 45678901234567\n", MostBytes/17+9):  `file, line 61682: the file has more than`,
		strings.Repeat("# 4567890123456\r\n", MostBytes/17+9): `file, line 61682: the file has more than`,
	} {
		f, err := Read("file", strings.NewReader(text))
		var e *Error
		if f != nil || !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// Whatever the bytes are, reading ends without a panic, and what was read is read again from its own text.
func FuzzRead(f *testing.F) {
	f.Add("a = 1\n[*]\nb = \"c\" ; d\n")
	f.Add("[x]#\n k = v ;\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read("f", strings.NewReader(text))
		if err != nil {
			return
		}
		var b strings.Builder
		for i, s := range file.Sections {
			if i > 0 {
				b.WriteString("[" + s.Name + "]\n")
			}
			for _, e := range s.Entries {
				if strings.Contains(e.Value, `"`) {
					return // one that no quotes can hold
				}
				b.WriteString(e.Key + " = \"" + e.Value + "\"\n")
			}
		}
		again, err := Read("f", strings.NewReader(b.String()))
		if err != nil || len(again.Sections) != len(file.Sections) {
			t.Fatalf("%v in %q", err, b.String())
		}
		for i, s := range file.Sections {
			for j, e := range s.Entries {
				if a := again.Sections[i].Entries[j]; a.Key != e.Key || a.Value != e.Value {
					t.Fatalf("%+v, again %+v", e, a)
				}
			}
		}
	})
}
