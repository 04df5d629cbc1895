package grammar

import "fmt"

// ParseRegex compiles a regular expression of ECMA-262: the texts that it matches from their beginning to their end. A
// nil budget has the default limits and no end.
func ParseRegex(b *Budget, source string) (*Grammar, error) {
	b = b.orDefault()
	if _, err := parsePattern(b, source); err != nil { // parentheses that close what stands around it
		return nil, err
	}
	x, err := parsePattern(b, "^(?:"+source+")$")
	if err != nil {
		return nil, err
	}
	terms := newTerms(b, nil)
	if possible := terms.live(terms.of(x)); !possible && b.err == nil {
		return nil, fmt.Errorf("%w: regular expression %.60q: no text matches", ErrGrammar, source)
	}
	if b.err != nil {
		return nil, b.err
	}
	return compile(b, []expression{lazy{both{x}, true}}, 0), b.err
}
