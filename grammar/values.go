package grammar

import "unicode/utf8"

// maxBlanks is the longest indentation that SchemaOptions.Blanks allows.
const maxBlanks = 20

// shared is the rule of a part of JSON that many schemas use.
func (s *schema) shared(name string, body func() expression) rule {
	if r, ok := s.builtin[name]; ok {
		return r
	}
	r := s.add(&place{part: name}, choice{})
	s.builtin[name] = r
	s.bodies[r] = body()
	return r
}

// blank is what may stand between two JSON tokens.
func (s *schema) blank() expression {
	if !s.Blanks {
		return sequence{}
	}
	return s.shared("blank", func() expression {
		indent := repeat{newClass(runeRange{' ', ' '}, runeRange{'\t', '\t'}), 0, maxBlanks}
		return choice{sequence{}, literal(" "), sequence{literal("\n"), indent}}
	})
}

// comma and colon with the blanks around them; after an opening and before a closing bracket there may be blanks too.
func (s *schema) comma() expression { return s.separator(",") }
func (s *schema) colon() expression { return s.separator(":") }

func (s *schema) separator(mark string) expression {
	if s.Spaces {
		return literal(mark + " ")
	}
	return sequence{s.blank(), literal(mark), s.blank()}
}

func (s *schema) brackets(open, close string, inside expression) expression {
	return sequence{literal(open), s.blank(), inside, s.blank(), literal(close)}
}

// any is any JSON value.
func (s *schema) any() expression {
	return s.shared("value", func() expression {
		v := s.builtin["value"]
		return choice{s.anyObject(), s.brackets("[", "]", s.list(v, 0, -1)), s.anyString(), s.anyNumber(),
			literal(s.constant(true)), literal(s.constant(false)), literal(s.constant(nil))}
	})
}

func (s *schema) anyObject() expression {
	return s.shared("object", func() expression {
		return s.brackets("{", "}", s.list(s.anyMember(false), 0, -1))
	})
}

// anyMember is a member of any object.
func (s *schema) anyMember(call bool) expression {
	name := s.anyString()
	if s.Names || call {
		name = repeat{wordClass, 1, -1}
	}
	return sequence{name, s.assign(call), s.any()}
}

var (
	digit    = newClass(runeRange{'0', '9'})
	digit1   = newClass(runeRange{'1', '9'})
	hexDigit = newClass(runeRange{'0', '9'}, runeRange{'a', 'f'}, runeRange{'A', 'F'})

	// plain is the characters that stand for themselves in a JSON string (RFC 8259, section 7).
	plain = newClass(runeRange{' ', '!'}, runeRange{'#', '['}, runeRange{']', utf8.MaxRune})

	// escape is one escaped character. A surrogate comes with its other half.
	escape = sequence{literal(`\`), choice{
		oneOf(`"\/bfnrt`),
		sequence{literal("u"), choice{
			sequence{newClass(runeRange{'0', '9'}, runeRange{'a', 'c'}, runeRange{'A', 'C'}, runeRange{'e', 'f'},
				runeRange{'E', 'F'}),
				hexDigit, hexDigit, hexDigit},
			sequence{oneOf("dD"), newClass(runeRange{'0', '7'}), hexDigit, hexDigit},
			anyPair,
		}},
	}}
)

// oneOf is one of some characters.
func oneOf(characters string) class {
	var all []runeRange
	for _, r := range characters {
		all = append(all, runeRange{r, r})
	}
	return newClass(all...)
}

// character is one character of a JSON string.
func (s *schema) character() expression {
	return s.shared("character", func() expression { return choice{plain, escape} })
}

func (s *schema) anyString() expression {
	return s.shared("string", func() expression {
		if s.Quote != "" {
			return s.quoted(0, -1, nil)
		}
		return sequence{literal(`"`), repeat{s.character(), 0, -1}, literal(`"`)}
	})
}

// maxDigits bounds the digits of a fraction where a bound is outside of the range: more could be rounded to the bound
// by a reader.
const maxDigits = 15

// wholeNumber is any integer.
func (s *schema) wholeNumber() expression {
	return sequence{repeat{literal("-"), 0, 1}, choice{literal("0"), sequence{digit1, repeat{digit, 0, -1}}}}
}

func (s *schema) anyInteger() expression {
	return s.shared("integer", s.wholeNumber)
}

func (s *schema) anyNumber() expression {
	return s.shared("number", func() expression {
		exponent := sequence{oneOf("eE"), repeat{oneOf("+-"), 0, 1}, digit, repeat{digit, 0, 1}}
		fraction := sequence{literal("."), repeat{digit, 1, -1}}
		return sequence{s.anyInteger(), repeat{fraction, 0, 1}, repeat{exponent, 0, 1}}
	})
}
