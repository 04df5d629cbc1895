package main

import "strings"

// jsonRow is --json of commands whose whole output is JSON with it.
func jsonRow(p *bool) flag { return switchFlag("--json", p, true, "write JSON") }

// promptRows are the flags of a command's text.
func (f *promptFlags) rows(what, standard string) []flag {
	return []flag{
		valueFlag("-p, --prompt", "TEXT", what, func(v string) error {
			f.text, f.given = v, true
			return nil
		}).or(standard).of(fieldPrompt),
		fileFlag("-f, --file", &f.file, "FILE", what+" from a file, byte for byte; - is standard input").of(fieldPrompt),
		switchFlag("-e, --escape", &f.verbatim, false,
			`read \n, \t, \r, \", \', \\ and \xHH in -p and --stop as the characters they name, as is usual`).of("escape"),
		switchFlag("--no-escape", &f.verbatim, true, "take -p and --stop as they are").of("escape"),
	}
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
	return flag{names: names("--color"), arg: "on|off|auto", values: []string{"on", "off", "auto"}, optional: true,
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
