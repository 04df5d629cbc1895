package compare

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table prints the rows for people: plain decoding first in each group of one set, weights and
// temperature, then the others as they were asked for.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	head := []string{"drafter", "schedule", "verify", "speed-up", "quartiles", "formula", "tok/s", "accepted", "tok/pass", "passes", "draft", "oracle", "draft", "BLEU", "same text"}
	table := [][]string{head}
	flush := func() {
		if len(table) > 1 {
			align(&b, table)
		}
		table = table[:1]
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Drafter == Plain {
			flush()
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(r.title(row) + "\n")
		}
		table = append(table, row.cells())
	}
	flush()
	for _, text := range r.Broken {
		fmt.Fprintf(&b, "\nBROKEN PROMISE: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// title describes a group of rows.
func (r *Report) title(row *Row) string {
	prompts := "prompts"
	if row.NPrompts == 1 {
		prompts = "prompt"
	}
	s := fmt.Sprintf("%s: %d %s, at most %d tokens each, %s", row.Prompts, row.NPrompts, prompts, r.Tokens, heat(row.Temperature))
	if row.Weights != "" {
		s += ", weights " + row.Weights
	}
	if row.AgainstFirst != row.Speedup {
		s += fmt.Sprintf(" (plain decoding %.2fx of the first weights', BLEU %.0f against it)", row.AgainstFirst, row.BLEUFirst)
	}
	return s
}

func heat(t float32) string {
	if t == 0 {
		return "greedy"
	}
	return "temperature " + strconv.FormatFloat(float64(t), 'g', -1, 32)
}

func (row *Row) cells() []string {
	rate := fmt.Sprintf("%.1f", row.TokensPerSecond)
	if row.Drafter == Plain {
		return []string{"plain", "", "", "1.00", "", "", rate, "", "1.00", fmt.Sprint(row.TargetPasses), "", "", "", "", ""}
	}
	oracle, drafts := "", ""
	if row.OracleTarget != nil {
		oracle, drafts = fmt.Sprint(*row.OracleTarget), fmt.Sprint(*row.OracleDraft)
	}
	same := "not promised"
	switch {
	case row.Promised && row.Same:
		same = "yes"
	case row.Promised:
		same = "NO"
	}
	return []string{
		row.Drafter, row.setting.Limits(), row.Verify,
		fmt.Sprintf("%.2f", row.Speedup), fmt.Sprintf("%.2f-%.2f", row.SpeedupLow, row.SpeedupHigh), fmt.Sprintf("%.2f", row.Formula), rate,
		fmt.Sprintf("%.0f %%", 100*row.Acceptance), fmt.Sprintf("%.2f", row.TokensPerPass),
		fmt.Sprint(row.TargetPasses), fmt.Sprint(row.DraftPasses), oracle, drafts,
		fmt.Sprintf("%.0f", row.BLEU), same,
	}
}

// align writes columns; numbers go to the right.
func align(b *strings.Builder, table [][]string) {
	width := make([]int, len(table[0]))
	for _, line := range table {
		for i, text := range line {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	last := len(width) - 1
	for _, line := range table {
		for i, text := range line {
			space := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			left := slices.Contains([]int{0, 1, 2, last}, i)
			if i > 0 {
				b.WriteString("  ")
			}
			switch {
			case left && i == last:
				b.WriteString(text)
			case left:
				b.WriteString(text + space)
			default:
				b.WriteString(space + text)
			}
		}
		b.WriteString("\n")
	}
}
