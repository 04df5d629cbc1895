package main

import "strings"

// jsonRow is --json of commands whose whole output is JSON with it.
func jsonRow(p *bool) flag { return switchFlag("--json", p, true, "write JSON") }

// escapeRows say how the values of -p and of others are read.
func escapeRows(verbatim *bool, others ...string) []flag {
	what, are := "-p", "it is"
	if n := len(others); n > 0 {
		what, are = strings.Join(append([]string{what}, others[:n-1]...), ", ")+" and "+others[n-1], "they are"
	}
	return []flag{
		switchFlag("-e, --escape", verbatim, false,
			`read \n, \t, \r, \", \', \\ and \xHH in `+what+` as the characters they name, as is usual`).of("escape"),
		switchFlag("--no-escape", verbatim, true, "take "+what+" as "+are).of("escape"),
	}
}

// rows are the flags of a command's text; escaped are others that are read as -p is.
func (f *promptFlags) rows(what, standard string, escaped ...string) []flag {
	return append([]flag{
		valueFlag("-p, --prompt", "TEXT", what, func(v string) error {
			f.text, f.given = v, true
			return nil
		}).or(standard).of(fieldPrompt),
		fileFlag("-f, --file", &f.file, "FILE", what+" from a file, byte for byte; - is standard input").of(fieldPrompt),
	}, escapeRows(&f.verbatim, escaped...)...)
}

// displayRows say whether the prompt is shown, and how it is read.
func (g *generate) displayRows() []flag {
	return []flag{
		switchFlag("--display-prompt", &g.displayPrompt, true, "write the prompt before the text").
			or("on a terminal").of("display"),
		switchFlag("--no-display-prompt", &g.noDisplay, true, "do not write the prompt").of("display"),
		switchFlag("--parse-special", &g.parseSpecial, true, "read special tokens that are spelled out in the prompt as "+
			"such, as llama.cpp always does").when(func() bool { return !g.conversation }),
	}
}

// reportRows are what a single text has, and a conversation does not.
func (g *generate) reportRows() []flag {
	single := func() bool { return !g.conversation }
	return []flag{
		switchFlag("--json", &g.json, true, "write one JSON object at the end: text, token_ids, stats").when(single),
		flag{names: names("--trace"), arg: "FILE", optional: true, set: g.setTrace,
			help: "record each round: drafted, accepted, the model's own token, times; lines on standard error, or JSON " +
				"lines in FILE"}.when(single),
		switchFlag("--logprobs", &g.logprobs, true, "with --json: the log-probability of each token under the model").
			when(func() bool { return g.json }),
	}
}

// receiptRow is --receipt.
func (g *generate) receiptRow() flag {
	return fileFlag("--receipt", &g.receipt, "FILE",
		"write what determines the text, for spec verify: hashes of the model, prompt, sampling parameters, seed, tokens")
}

// colorRow is llama.cpp's --color: alone it means on.
func colorRow(p *string) flag {
	return flag{names: names("--color, -co"), arg: "on|off|auto", values: []string{"on", "off", "auto"}, optional: true,
		help: "show accepted drafts in another color",
		set: func(v string) (err error) {
			switch strings.ToLower(v) {
			case "", "always", "1":
				v = colorAlways
			case "never", "0":
				v = colorNever
			}
			*p, err = choose([]string{colorAlways, colorNever, colorAuto}, v)
			return err
		}}.or("auto: on a terminal")
}
