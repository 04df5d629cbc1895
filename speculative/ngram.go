package speculative

import "context"

// NGram looks the last tokens of the sequence up in the sequence itself (prompt lookup decoding, Saxena 2023). It
// copies what followed the longest match, the latest of equally long ones. A copy that reaches the end of the
// sequence continues with its own draft, so a repetition is drafted to any length. A token's confidence is how often
// tokens after a match of that length were right so far, n/(n+3) for a match of n before anything is known. What an
// encoder has read stands in front of the sequence.
func NGram(o NGramOptions) Drafter { return newNGram(o) }

func newNGram(o NGramOptions) *ngram {
	least, most := o.MinMatch, o.MaxMatch
	if least <= 0 {
		least = 1
	}
	if most <= 0 {
		most = max(3, least)
	}
	return &ngram{least: least, most: max(least, most)}
}

// NGramOptions configure [NGram].
type NGramOptions struct {
	MinMatch int // tokens of the shortest match that counts; 0: 1
	MaxMatch int // tokens of the longest match that is looked for; 0: 3, or MinMatch if that is more
}

type ngram struct {
	least, most int
	matches
	input, path []int32 // of the encoder; with the sequence and a draft
}

func (g *ngram) Start(_ context.Context, s Setup) error {
	g.input = append(g.input[:0], s.Input...)
	return nil
}

func (g *ngram) Draft(_ context.Context, sequence []int32, d *Draft) error {
	g.begin()
	if !d.More() {
		return nil
	}
	path := g.behindInput(append(sequence, d.Tokens...))
	from, n := g.lookup(path)
	if from < 0 {
		return nil
	}
	d.Source = SourceLookup
	for i := from; d.More(); i, n = i+1, n+1 {
		at := d.Len()
		id := path[i]
		if !d.Add(id, g.confidence(n), nil) {
			break
		}
		g.drafted(id, n, at)
		d.Extend(at)
		if path = append(path, d.Tokens[at:]...); d.Len() > at+1 { // forced tokens: what they match is looked up anew
			if i, n = g.lookup(path); i < 0 {
				break
			}
			i, n = i-1, n-1
		}
	}
	return nil
}

// behindInput is path behind what the encoder has read, valid until the next call.
func (g *ngram) behindInput(path []int32) []int32 {
	if len(g.input) == 0 {
		return path
	}
	g.path = append(append(g.path[:0], g.input...), path...)
	return g.path
}

// Continues says that the lookup continues forced tokens.
func (g *ngram) Continues() bool { return true }

// lookup returns the index of the token after the best match, -1 if there is none, and the match's
// length.
func (g *ngram) lookup(sequence []int32) (from, best int) {
	best, from = g.least-1, -1
	for end := len(sequence) - 1; end > best && best < g.most; end-- { // a match of text[..end) with the text's end
		n := 0
		for n < g.most && n < end && sequence[end-1-n] == sequence[len(sequence)-1-n] {
			n++
		}
		if n > best {
			best, from = n, end
		}
	}
	return from, best
}

func (g *ngram) Observe(r *Round) { g.observe(r) }
