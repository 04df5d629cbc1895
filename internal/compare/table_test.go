package compare

import (
	"strings"
	"testing"

	"github.com/specgo/spec/internal/terminal"
)

// What was left out of any of the tables is told, whatever the last one has room for.
func TestColumnsThatAreLeftOut(t *testing.T) {
	table := func(cell string) terminal.Table {
		return terminal.Table{Columns: []terminal.Column{{Head: "a"}, {Head: "b", Drop: 1}}, Rows: [][]string{{"1", cell}}}
	}
	var b strings.Builder
	parts := []part{{"first", table("more than there is room for")}, {"second", table("2")}}
	if err := writeTables(&b, parts, nil, 20); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	if !strings.HasSuffix(text, "Columns left out at this width: b.") {
		t.Error(text)
	}
}
