package grammar

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// decimal is a number as JSON writes it, without exponent: integer has no leading zeros (but "0"), fraction no
// trailing ones.
type decimal struct {
	negative          bool
	integer, fraction string
}

// parseDecimal reads a JSON number of at most so many digits, its exponent written out.
func parseDecimal(text string, most int) (d decimal, ok bool) {
	rest, negative := strings.CutPrefix(text, "-")
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(rest), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	if len(integer)+len(fraction) > most || integer == "" || strings.Trim(integer+fraction, "0123456789") != "" {
		return d, false
	}
	if scaled {
		n, err := strconv.Atoi(exponent)
		point := len(integer) + n
		digits := integer + fraction
		if err != nil || n > most || n < -most || point > most || len(digits)-point > most {
			return d, false
		}
		if point < 0 {
			digits, point = strings.Repeat("0", -point)+digits, 0
		}
		digits += strings.Repeat("0", max(0, point-len(digits)))
		integer, fraction = digits[:point], digits[point:]
	}
	d = decimal{negative, strings.TrimLeft(integer, "0"), strings.TrimRight(fraction, "0")}
	if d.integer == "" {
		d.integer = "0"
	}
	d.negative = negative && (d.integer != "0" || d.fraction != "")
	return d, true
}

// integral reports whether a JSON number is whole, of any size.
func integral(text string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	integer, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := strings.TrimRight(integer+fraction, "0") // the last one that counts stands at its end
	if digits == "" {
		return true
	}
	n, err := strconv.Atoi(exponent)
	if err != nil && exponent != "" { // longer than any text
		return !strings.HasPrefix(exponent, "-")
	}
	return len(digits)-len(integer) <= n
}

// decimal reads a number of a schema.
func (s *schema) decimal(n json.Number, path *place) (d decimal, ok bool) {
	if n == "" {
		s.fail(path, "a number expected")
		return d, false
	}
	if d, ok = parseDecimal(string(n), s.limits.Digits); !ok {
		s.beyond(path, "Digits", s.limits.Digits)
	}
	return d, ok
}

// compare is the order of two numbers without their signs.
func (d decimal) compare(e decimal) int {
	if len(d.integer) != len(e.integer) {
		return len(d.integer) - len(e.integer)
	}
	if c := strings.Compare(d.integer, e.integer); c != 0 {
		return c
	}
	return strings.Compare(d.fraction, e.fraction)
}

// limit is one end of a range of numbers.
type limit struct {
	decimal
	open bool // the number itself is outside
}

// tighterLimit is the narrower of two bounds of one side (1: lower ones, -1: upper ones); nil is none.
func tighterLimit(a, b *limit, side int) *limit {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	if c := signed(a.decimal, b.decimal) * side; c > 0 || c == 0 && a.open {
		return a
	}
	return b
}

// digits is how many d has.
func (d decimal) digits() int { return len(d.integer) + len(d.fraction) }

// isZero reports whether d is 0.
func (d decimal) isZero() bool { return d.integer == "0" && d.fraction == "" }

// scaled is d as an integer and the power of 10 that divides it; false: the integer is too large for [multiple].
func (d decimal) scaled() (n int64, places int, ok bool) {
	n, err := strconv.ParseInt(d.integer+d.fraction, 10, 64)
	return n, len(d.fraction), err == nil && n < 1<<59
}

// isMultiple reports whether m, which is above 0, divides d.
func (d decimal) isMultiple(m decimal) bool {
	places := max(len(d.fraction), len(m.fraction))
	return new(big.Int).Rem(d.whole(places), m.whole(places)).Sign() == 0
}

// whole is d, but for its sign, times 10 to the power of places, of which it has no more.
func (d decimal) whole(places int) *big.Int {
	n, _ := new(big.Int).SetString(d.integer+d.fraction+strings.Repeat("0", places-len(d.fraction)), 10)
	return n
}

// joined are steps of which those that divide a number are one, their least common multiple, as far as that is not too
// large for [multiple].
func joined(list []step) []step {
	var all []step
	for _, m := range list {
		i := slices.IndexFunc(all, func(o step) bool { return !o.not })
		if i >= 0 && !m.not {
			if both, ok := all[i].common(m.decimal); ok {
				all[i].decimal = both
				continue
			}
		}
		all = append(all, m)
	}
	return all
}

// common is the least common multiple of two numbers above 0; false: it is too large for [multiple].
func (d decimal) common(e decimal) (decimal, bool) {
	places := max(len(d.fraction), len(e.fraction))
	a, b := d.whole(places), e.whole(places)
	a.Mul(a, b).Div(a, new(big.Int).GCD(nil, nil, d.whole(places), b))
	text := a.String()
	text = strings.Repeat("0", max(0, places+1-len(text))) + text
	both := decimal{integer: text[:len(text)-places], fraction: text[len(text)-places:]}
	_, _, ok := both.scaled()
	return both, ok
}

// number is the numbers of a branch, of the types in set.
func (s *schema) number(b *branch, at *place, set typeSet) expression {
	sets := false // whether the text is an intersection
	parts := both{nil}
	sign := repeat{literal("-"), 0, 1}
	for _, m := range joined(b.multiples) {
		step, places, _ := m.scaled()
		if step == 1 && places == 0 && !m.not {
			set &^= isFraction
			continue
		}
		x := expression(sequence{sign, multiple{step, places}})
		if m.not {
			x = complement{x}
		}
		parts, sets = append(parts, x), true
	}
	zeros := repeat{sequence{literal("."), repeat{literal("0"), 1, -1}}, 0, 1}
	if set == isFraction {
		parts, sets = append(parts, complement{sequence{sign, repeat{digit, 0, -1}, zeros}}), true
	}
	for _, v := range b.excluded {
		number, ok := v.(json.Number)
		if !ok {
			continue
		}
		d, ok := s.decimal(number, at)
		if !ok {
			return choice{}
		}
		text := sequence{literal(d.integer), zeros}
		if d.fraction != "" {
			text = sequence{literal(d.integer + "." + d.fraction), repeat{literal("0"), 0, -1}}
		}
		switch {
		case d.isZero():
			text = append(sequence{sign}, text...)
		case d.negative:
			text = append(sequence{literal("-")}, text...)
		}
		parts, sets = append(parts, complement{text}), true
	}
	integer := set == isInteger
	switch {
	case b.lo != nil || b.hi != nil:
		x := s.bounded(b.lo, b.hi, integer)
		if x == nil {
			return s.nothing(at, "no number is within the bounds")
		}
		parts[0] = x
	case integer:
		parts[0] = s.anyInteger()
	case !sets:
		return s.anyNumber()
	default: // without an exponent
		fraction := sequence{literal("."), repeat{digit, 1, -1}}
		parts[0] = sequence{s.wholeNumber(), repeat{fraction, 0, 1}}
	}
	if !sets {
		return parts[0]
	}
	if integer && b.lo == nil && b.hi == nil { // a rule is no expression of characters
		parts[0] = s.wholeNumber()
	}
	return lazy{parts, true}
}

// bounded is the numbers, or the integers, within bounds of which one is not nil; nil: there is none.
func (s *schema) bounded(lower, upper *limit, integer bool) expression {
	var all choice
	zero := &limit{decimal: decimal{integer: "0"}}
	// Negative numbers: their magnitudes lie between those of the upper and the lower bound, above 0.
	if lower == nil || lower.negative {
		near := &limit{zero.decimal, true}
		if upper != nil && upper.negative {
			near = upper
		}
		if x := s.magnitudes(near, lower, integer); x != nil {
			all = append(all, sequence{literal("-"), x})
		}
	}
	if upper == nil || !upper.negative {
		near := zero
		if lower != nil && !lower.negative {
			near = lower
		}
		if x := s.magnitudes(near, upper, integer); x != nil {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// signed is the order of two numbers.
func signed(a, b decimal) int {
	switch {
	case a.negative && !b.negative:
		return -1
	case !a.negative && b.negative:
		return 1
	case a.negative:
		return -a.compare(b)
	}
	return a.compare(b)
}

// magnitudes is the numbers from lo to hi, both without sign, hi nil for no bound; nil if there is none.
func (s *schema) magnitudes(lo, hi *limit, integer bool) expression {
	if integer {
		if lo.fraction != "" || lo.open {
			lo = &limit{decimal: decimal{integer: increment(lo.integer)}}
		}
		if hi != nil && hi.open && hi.fraction == "" {
			if hi.integer == "0" {
				return nil
			}
			hi = &limit{decimal: decimal{integer: decrement(hi.integer)}}
		}
		if hi == nil {
			return s.atLeast(lo.integer)
		}
		return s.between(lo.integer, hi.integer)
	}
	// What is rounded to the digits of binary64 does not pass a bound that is inside the range; one outside it may reach.
	most := -1
	if lo.open || hi != nil && hi.open {
		most = maxDigits + len(lo.fraction)
	}
	if hi != nil {
		if c := lo.compare(hi.decimal); c > 0 || c == 0 && (lo.open || hi.open) {
			return nil
		}
		if lo.integer == hi.integer {
			return sequence{literal(lo.integer), s.fractions(lo.fraction, lo.open, &hi.fraction, hi.open, most)}
		}
	}
	// The lowest integer part, those between, the highest.
	all := choice{sequence{literal(lo.integer), s.fractions(lo.fraction, lo.open, nil, false, most)}}
	anyFraction := repeat{sequence{literal("."), repeat{digit, 1, most}}, 0, 1}
	if hi == nil {
		return append(all, sequence{s.atLeast(increment(lo.integer)), anyFraction})
	}
	if hi.integer != "0" {
		if inner := s.between(increment(lo.integer), decrement(hi.integer)); inner != nil {
			all = append(all, sequence{inner, anyFraction})
		}
	}
	if !hi.open || hi.fraction != "" {
		all = append(all, sequence{literal(hi.integer), s.fractions("", false, &hi.fraction, hi.open, most)})
	}
	return all
}

// fractions is what may stand behind an integer part: nothing, or a point and digits f with lo <= 0.f <= hi (hi nil: no
// bound), of at most so many digits (-1: any number); a bound that is open is outside. Digits behind the last one of
// both bounds are free.
func (s *schema) fractions(lo string, loOpen bool, hi *string, hiOpen bool, most int) expression {
	var all choice
	if lo == "" && !loOpen && (hi == nil || *hi != "" || !hiOpen) {
		all = append(all, sequence{})
	}
	if x := s.digits(lo, loOpen, hi, hiOpen, true, most); x != nil {
		all = append(all, sequence{literal("."), x})
	}
	return all
}

// digits is a digit string between two; needed says that at least one digit must come. room is how many may.
func (s *schema) digits(lo string, loOpen bool, hi *string, hiOpen, needed bool, room int) expression {
	var all choice
	if !s.take(nodeBytes + len(lo)) {
		return all
	}
	// The text may end here: it stands for all zeros behind.
	ends := lo == "" && !loOpen && (hi == nil || *hi != "" || !hiOpen)
	if ends && !needed {
		all = append(all, sequence{})
	}
	if lo == "" && !loOpen && hi == nil {
		if needed {
			return repeat{digit, 1, room}
		}
		return repeat{digit, 0, room}
	}
	if lo == "" && !loOpen && hi != nil && *hi == "" { // zeros
		if hiOpen {
			return nil
		}
		n := 0
		if needed {
			n = 1
		}
		return repeat{literal("0"), n, room}
	}
	if room != 0 {
		first, last := byte('0'), byte('9')
		if lo != "" {
			first = lo[0]
		}
		if hi != nil {
			last = '0'
			if *hi != "" {
				last = (*hi)[0]
			}
		}
		for d := first; d <= last; d++ {
			nextLo, nextLoOpen := "", false
			if d == first && (lo != "" || loOpen) && (lo == "" && d == '0' || lo != "") {
				if lo != "" {
					nextLo = lo[1:]
				}
				nextLoOpen = loOpen
			}
			nextHi, nextHiOpen := (*string)(nil), false
			if hi != nil && d == last {
				rest := ""
				if *hi != "" {
					rest = (*hi)[1:]
				}
				nextHi, nextHiOpen = &rest, hiOpen
			}
			if x := s.digits(nextLo, nextLoOpen, nextHi, nextHiOpen, false, room-1); x != nil {
				all = append(all, sequence{literal(string(d)), x})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// atLeast is the integers from lo on.
func (s *schema) atLeast(lo string) expression {
	all := choice{}
	if x := s.between(lo, strings.Repeat("9", len(lo))); x != nil {
		all = append(all, x)
	}
	return append(all, sequence{digit1, repeat{digit, len(lo), -1}})
}

// between is the integers lo to hi without leading zeros; nil if there is none.
func (s *schema) between(lo, hi string) expression {
	if (decimal{integer: lo}).compare(decimal{integer: hi}) > 0 {
		return nil
	}
	var all choice
	for n := len(lo); n <= len(hi); n++ {
		from, to := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(lo) {
			from = lo
		}
		if n == len(hi) {
			to = hi
		}
		all = append(all, s.sameLength(from, to))
	}
	return all
}

// sameLength is the digit strings from lo to hi, which have one length.
func (s *schema) sameLength(lo, hi string) expression {
	if lo == "" || !s.take(nodeBytes+2*len(lo)) {
		return sequence{}
	}
	if lo[0] == hi[0] {
		return sequence{literal(lo[:1]), s.sameLength(lo[1:], hi[1:])}
	}
	n := len(lo) - 1
	if strings.Trim(lo, "0") == "" && strings.Trim(hi, "9") == "" {
		return repeat{digit, n + 1, n + 1}
	}
	all := choice{
		sequence{literal(lo[:1]), s.sameLength(lo[1:], strings.Repeat("9", n))},
		sequence{literal(hi[:1]), s.sameLength(strings.Repeat("0", n), hi[1:])},
	}
	if lo[0]+1 <= hi[0]-1 {
		all = append(all, sequence{class{{rune(lo[0] + 1), rune(hi[0] - 1)}}, repeat{digit, n, n}})
	}
	return all
}

func increment(n string) string {
	b := []byte(n)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < '9' {
			b[i]++
			return string(b)
		}
		b[i] = '0'
	}
	return "1" + string(b)
}

// decrement is n-1 for n > 0.
func decrement(n string) string {
	b := []byte(n)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] > '0' {
			b[i]--
			break
		}
		b[i] = '9'
	}
	if s := strings.TrimLeft(string(b), "0"); s != "" {
		return s
	}
	return "0"
}
