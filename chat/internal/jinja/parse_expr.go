package jinja

import "strings"

// expression parses a conditional expression, the loosest binding.
func (p *parser) expression() expr { return p.condition(true) }

func (p *parser) condition(withIf bool) expr {
	p.enter()
	defer p.leave()
	x := p.or()
	for n := 0; withIf && p.skip(kName, "if"); n++ {
		p.chain(n)
		c := &condExpr{yes: x, cond: p.or()}
		if p.skip(kName, "else") {
			p.conditional++
			c.no = p.condition(true)
			p.conditional--
		}
		x = c
	}
	return x
}

// tuple parses one expression, or several with commas between.
func (p *parser) tuple(withIf bool, where string) expr {
	if p.tupleEnds() {
		p.fail(ErrSyntax, "%s is missing", where)
	}
	x := p.condition(withIf)
	if !p.op(",") {
		return x
	}
	t := &listExpr{items: []expr{x}, kind: aTuple}
	for p.skip(kOp, ",") {
		if p.tupleEnds() {
			break
		}
		t.items = append(t.items, p.condition(withIf))
	}
	return t
}

func (p *parser) tupleEnds() bool {
	switch c := p.cur(); c.kind {
	case kEOF, kVarEnd, kBlockEnd:
		return true
	case kOp:
		return c.text == ")"
	case kName:
		return c.text == "recursive"
	}
	return false
}

func (p *parser) or() expr {
	return p.logical("or", func() expr { return p.logical("and", p.not) })
}

func (p *parser) logical(op string, operand func() expr) expr {
	x := operand()
	if !p.is(kName, op) {
		return x
	}
	c := &chainExpr{op: op, terms: []expr{x}}
	for p.skip(kName, op) {
		c.terms = append(c.terms, operand())
	}
	return c
}

func (p *parser) not() expr {
	line := p.cur().line
	if p.skip(kName, "not") {
		p.enter()
		defer p.leave()
		return &unaryExpr{line, "not", p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	line := p.cur().line
	x := p.sum()
	c := &compareExpr{line: line, x: x}
	for {
		op := ""
		switch t := p.cur(); {
		case t.kind == kOp:
			switch t.text {
			case "==", "!=", "<", "<=", ">", ">=":
				op = t.text
				p.advance()
			}
		case p.is(kName, "in"):
			op = "in"
			p.advance()
		case p.is(kName, "not") && p.tokens[p.at+1].kind == kName && p.tokens[p.at+1].text == "in":
			op = "not in"
			p.at += 2
		}
		if op == "" {
			break
		}
		c.ops = append(c.ops, op)
		c.ys = append(c.ys, p.sum())
	}
	if len(c.ops) == 0 {
		return x
	}
	return c
}

// binary parses operands with operators of one strength between, from the left.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	x := operand()
	for n := 0; ; n++ {
		p.chain(n)
		t := p.cur()
		found := false
		for _, op := range ops {
			found = found || t.kind == kOp && t.text == op
		}
		if !found {
			return x
		}
		p.advance()
		x = &binaryExpr{t.line, t.text, x, operand()}
	}
}

func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() expr {
	x := p.product()
	if !p.op("~") {
		return x
	}
	c := &chainExpr{op: "~", terms: []expr{x}}
	for p.skip(kOp, "~") {
		c.terms = append(c.terms, p.product())
	}
	return c
}

func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr {
	return p.binary(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(withFilter bool) expr {
	t := p.cur()
	var x expr
	if t.kind == kOp && (t.text == "-" || t.text == "+") {
		p.advance()
		p.enter()
		x = &unaryExpr{t.line, t.text, p.unary(false)}
		p.leave()
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if withFilter {
		x = p.filtered(x)
	}
	return x
}

func (p *parser) primary() expr {
	p.enter()
	defer p.leave()
	switch t := p.cur(); t.kind {
	case kName:
		p.advance()
		switch t.text {
		case "true", "True":
			return &constant{true}
		case "false", "False":
			return &constant{false}
		case "none", "None":
			return &constant{None{}}
		}
		p.asked.varargs = p.asked.varargs || t.text == "varargs"
		p.asked.kwargs = p.asked.kwargs || t.text == "kwargs"
		p.asked.caller = p.asked.caller || t.text == "caller"
		return &nameExpr{t.line, t.text}
	case kString:
		var all strings.Builder
		for p.cur().kind == kString {
			all.WriteString(p.advance().text)
		}
		return &constant{lit(all.String())}
	case kInt:
		p.advance()
		return &constant{t.i}
	case kFloat:
		p.advance()
		return &constant{t.f}
	case kOp:
		switch t.text {
		case "(":
			p.advance()
			if p.skip(kOp, ")") {
				return &listExpr{kind: aTuple}
			}
			x := p.tuple(true, "the expression in ( )")
			p.expect(kOp, ")", "( )")
			return x
		case "[":
			p.advance()
			l := &listExpr{}
			for !p.op("]") {
				if len(l.items) > 0 {
					p.expect(kOp, ",", "a list [ ]")
				}
				if p.op("]") {
					break
				}
				l.items = append(l.items, p.expression())
			}
			p.expect(kOp, "]", "a list [ ]")
			return l
		case "{":
			p.advance()
			d := &dictExpr{}
			for !p.op("}") {
				if len(d.keys) > 0 {
					p.expect(kOp, ",", "a dict { }")
				}
				if p.op("}") {
					break
				}
				d.keys = append(d.keys, p.expression())
				p.expect(kOp, ":", "a dict { }")
				d.values = append(d.values, p.expression())
			}
			p.expect(kOp, "}", "a dict { }")
			return d
		}
	}
	p.fail(ErrSyntax, "expected an expression, found %v", p.cur())
	return nil
}

func (p *parser) postfix(x expr) expr {
	for n := 0; ; n++ {
		p.chain(n)
		t := p.cur()
		switch {
		case p.skip(kOp, "."):
			switch name := p.advance(); name.kind {
			case kName:
				x = &attrExpr{t.line, x, name.text}
			case kInt:
				x = &itemExpr{t.line, x, &constant{name.i}}
			default:
				p.fail(ErrSyntax, "expected a name after the dot, found %v", name)
			}
		case p.skip(kOp, "["):
			x = p.subscript(t.line, x)
		case p.op("("):
			x = &callExpr{t.line, x, p.args()}
		default:
			return x
		}
	}
}

func (p *parser) subscript(line int, x expr) expr {
	var part [3]expr
	colons := 0
	for !p.op("]") {
		if p.skip(kOp, ":") {
			if colons++; colons > 2 {
				p.fail(ErrSyntax, "a slice with more than two colons")
			}
			continue
		}
		if part[colons] != nil {
			break
		}
		part[colons] = p.expression()
		if colons == 0 && p.op(",") {
			t := &listExpr{items: []expr{part[0]}, kind: aTuple}
			for p.skip(kOp, ",") {
				t.items = append(t.items, p.expression())
			}
			part[0] = t
			break
		}
	}
	p.expect(kOp, "]", "a subscript")
	if colons > 0 {
		return &sliceExpr{line, x, part[0], part[1], part[2]}
	}
	if part[0] == nil {
		p.fail(ErrSyntax, "an empty subscript")
	}
	return &itemExpr{line, x, part[0]}
}

// filtered parses filters, tests and calls behind an operand.
func (p *parser) filtered(x expr) expr {
	for n := 0; ; n++ {
		p.chain(n)
		t := p.cur()
		switch {
		case p.skip(kOp, "|"):
			f := p.filter()
			f.of = x
			x = &f
		case p.skip(kName, "is"):
			x = p.test(t.line, x)
		case p.op("("):
			x = &callExpr{t.line, x, p.args()}
		default:
			return x
		}
	}
}

// filters parses a row of filters without an operand.
func (p *parser) filters() []filterExpr {
	out := []filterExpr{p.filter()}
	for p.skip(kOp, "|") {
		p.chain(len(out))
		out = append(out, p.filter())
	}
	return out
}

func (p *parser) filter() filterExpr {
	t := p.expect(kName, "", "a filter")
	name := t.text
	for p.skip(kOp, ".") {
		name += "." + p.expect(kName, "", "a filter").text
	}
	if filterTable[name] == nil && p.conditional == 0 {
		p.fail(ErrUnsupported, "the filter %q", name)
	}
	f := filterExpr{line: t.line, name: name}
	if p.op("(") {
		f.args = p.args()
	}
	return f
}

func (p *parser) test(line int, x expr) expr {
	e := &testExpr{line: line, of: x, not: p.skip(kName, "not")}
	t := p.expect(kName, "", "a test")
	e.name = t.text
	for p.skip(kOp, ".") {
		e.name += "." + p.expect(kName, "", "a test").text
	}
	if testTable[e.name] == nil && p.conditional == 0 {
		p.fail(ErrUnsupported, "the test %q", e.name)
	}
	switch c := p.cur(); {
	case p.op("("):
		e.args = p.args()
	case c.kind == kString, c.kind == kInt, c.kind == kFloat, p.op("["), p.op("{"),
		c.kind == kName && c.text != "else" && c.text != "or" && c.text != "and":
		if c.kind == kName && c.text == "is" {
			p.fail(ErrSyntax, "two tests in a row")
		}
		if c.kind == kName && (c.text == "if" || c.text == "in" || c.text == "not" || c.text == "recursive") {
			break
		}
		e.args.pos = []expr{p.postfix(p.primary())}
	}
	return e
}

func (p *parser) args() argExprs {
	p.expect(kOp, "(", "a call")
	var a argExprs
	for first := true; !p.op(")"); first = false {
		if !first {
			p.expect(kOp, ",", "the arguments of a call")
			if p.op(")") {
				break
			}
		}
		switch {
		case p.op("*") && a.star == nil && a.starstar == nil:
			p.advance()
			a.star = p.expression()
		case p.op("**") && a.starstar == nil:
			p.advance()
			a.starstar = p.expression()
		case p.cur().kind == kName && p.tokens[p.at+1].kind == kOp && p.tokens[p.at+1].text == "=" && a.starstar == nil:
			a.names = append(a.names, p.advance().text)
			p.advance()
			a.values = append(a.values, p.expression())
		case len(a.names) == 0 && a.star == nil && a.starstar == nil:
			a.pos = append(a.pos, p.expression())
		default:
			p.fail(ErrSyntax, "a positional argument after a named one")
		}
	}
	p.expect(kOp, ")", "a call")
	return a
}
