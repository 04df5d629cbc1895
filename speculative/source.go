package speculative

// A CandidateSource says, without a model, which token may follow a sequence: a lookup in the text, a grammar that
// leaves one choice, a list of phrases. [Tree] and [Splice] combine sources with a model.
type CandidateSource interface {
	// Reset begins a text.
	Reset()
	// Begin is told the sequence at the beginning of each draft. Mostly it continues that of the draft before.
	Begin(sequence []int32)
	// Next returns the token that may follow path, and the number of tokens on which this rests, such as the length of a
	// match; a longer match is trusted more, by experience. 0 is: nothing known. A token that the target does not know, or
	// that a constraint forbids, is not drafted. path is the sequence of Begin followed by drafted tokens, of which the
	// last branch are new.
	Next(path []int32, branch int) (id int32, match int)
}

// Reading is a [CandidateSource] that also looks up in what the target's encoder has read. Read is told before Reset,
// for each text; the tokens are valid during the call, nil: there is no encoder.
type Reading interface {
	CandidateSource
	Read(input []int32)
}

// Failing is a [CandidateSource] that may fail. It knows nothing then, and Err, which is not nil any more, ends the
// text.
type Failing interface {
	CandidateSource
	Err() error
}

// SuffixSource is what followed the longest match of the path's end in the text: the lookup of [Suffix]. It is
// [Reading].
func SuffixSource(o SuffixOptions) CandidateSource { return suffixSource{newSuffix(o)} }

type suffixSource struct{ *suffix }

func (s suffixSource) Read(input []int32)     { s.input = append(s.input[:0], input...) }
func (s suffixSource) Reset()                 { s.reset() }
func (s suffixSource) Begin(sequence []int32) { s.begin(sequence) }
func (s suffixSource) Next(path []int32, branch int) (int32, int) {
	return s.ahead(path, branch)
}

// NGramSource is what followed the latest of the longest matches of a few tokens in the text: the lookup of [NGram]. It
// is [Reading].
func NGramSource(o NGramOptions) CandidateSource { return ngramSource{newNGram(o)} }

type ngramSource struct{ *ngram }

func (s ngramSource) Read(input []int32) { s.input = append(s.input[:0], input...) }
func (ngramSource) Reset()               {}
func (ngramSource) Begin([]int32)        {}
func (s ngramSource) Next(path []int32, _ int) (int32, int) {
	path = s.behindInput(path)
	from, n := s.lookup(path)
	if from < 0 {
		return 0, 0
	}
	return path[from], n
}

// sources are several, of which the one with the longest match is heard.
type sources []CandidateSource

// reset begins a text; input is what the target's encoder reads, nil: it has none.
func (s sources) reset(input []int32) {
	for _, x := range s {
		if r, ok := x.(Reading); ok {
			r.Read(input)
		}
		x.Reset()
	}
}

func (s sources) begin(sequence []int32) {
	for _, x := range s {
		x.Begin(sequence)
	}
}

// err is the first error of one of them.
func (s sources) err() error {
	for _, x := range s {
		if f, ok := x.(Failing); ok {
			if err := f.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// next is the token after path with the longest match: of equally long ones that of the first source.
func (s sources) next(path []int32, branch int) (id int32, match int) {
	for _, x := range s {
		if token, n := x.Next(path, branch); n > match {
			id, match = token, n
		}
	}
	return id, match
}
