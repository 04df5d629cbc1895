package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuite checks schemas against the public JSON-Schema-Test-Suite (json-schema-org/JSON-Schema-Test-Suite,
// the folder of a draft, which the variable names): each schema agrees on a value, is refused with an error that names
// the place, or allows less than the schema does, as documented. Nothing that is invalid is ever allowed.
func TestSuite(t *testing.T) {
	dir := os.Getenv("JSON_SCHEMA_TEST_SUITE")
	if dir == "" {
		t.Skip("JSON_SCHEMA_TEST_SUITE does not name the folder tests/draft2020-12 of the JSON-Schema-Test-Suite")
	}
	var sum struct{ schemas, refused, values, agree, narrower, wrong int }
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(path, ".json"); ok {
			files = append(files, strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(dir)+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		var groups []struct {
			Description string
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(data, &groups); err != nil {
			t.Fatal(err)
		}
		refused, agree, narrower, wrong := 0, 0, 0, 0
		for _, group := range groups {
			sum.schemas++
			g, err := ParseSchema(nil, group.Schema, SchemaOptions{})
			if err != nil {
				if !errors.Is(err, ErrGrammar) {
					t.Errorf("%s: %s: %v", name, group.Description, err)
				}
				refused++
				continue
			}
			for _, test := range group.Tests {
				var text bytes.Buffer
				if err := json.Compact(&text, test.Data); err != nil {
					t.Fatal(err)
				}
				switch got := accepts(t, g, text.String()); {
				case got == test.Valid:
					agree++
				case test.Valid:
					narrower++
				default:
					wrong++
					t.Errorf("%s: %s: %s: %.100s is allowed", name, group.Description, test.Description, text.String())
				}
			}
		}
		t.Logf("%-32s %3d schemas, %3d refused; values: %3d agree, %3d narrower, %d wrong", name, len(groups), refused,
			agree, narrower, wrong)
		sum.refused, sum.agree, sum.narrower, sum.wrong = sum.refused+refused, sum.agree+agree,
			sum.narrower+narrower, sum.wrong+wrong
	}
	sum.values = sum.agree + sum.narrower + sum.wrong
	t.Logf("%d files, %d schemas: %d refused by name; %d values: %d agree, %d narrower, %d wrong", len(files),
		sum.schemas, sum.refused, sum.values, sum.agree, sum.narrower, sum.wrong)
}
