package chat

// lateCalls says how far calls in reasoning are looked for. A mark of calls in reasoning may be a thought about calls:
// it begins one only where the reasoning never ends, which is known when the answer ends.
type lateCalls int

const (
	lateHeld    lateCalls = iota // text behind a mark of calls is held back until the reasoning's end
	lateNone                     // too much was held back: what follows is reasoning
	lateReading                  // the answer has ended within reasoning, and its calls are read
)

// reasoningKind is what a section of reasoning is passed on as.
func (p *Parser) reasoningKind() EventKind {
	if p.o.Inline {
		return ContentEvent
	}
	return ReasoningEvent
}

// reasoning is a section of it.
func (p *Parser) reasoning() bool {
	marks := []string{p.f.ThinkEnd}
	if len(p.o.Tools) > 0 && p.late != lateNone {
		marks = append(marks, p.syntax.open...)
	}
	switch m := p.scan(p.reasoningKind(), marks...); m {
	case "":
		if p.closed && !p.o.Inline {
			p.edge()
		}
		return false
	case p.f.ThinkEnd:
		p.endReasoning()
	default:
		p.raw = m
		p.state = (*Parser).heldReasoning
	}
	return true
}

func (p *Parser) endReasoning() {
	if p.o.Inline {
		p.text(ContentEvent, p.f.ThinkEnd)
	} else {
		p.edge()
	}
	p.state = (*Parser).start
}

// heldReasoning is behind a mark of calls in reasoning.
func (p *Parser) heldReasoning() bool {
	text, found := "", false
	if p.late != lateReading {
		text, found = p.upTo(p.f.ThinkEnd)
	}
	switch {
	case found:
		p.text(p.reasoningKind(), p.raw+text)
		p.raw = ""
		p.endReasoning()
	case p.closed:
		p.searched = 0
		p.late = lateReading
		p.beginCalls(p.raw)
	case len(p.buf) > maxCall:
		p.searched = 0
		p.late = lateNone
		p.text(p.reasoningKind(), p.raw)
		p.raw = ""
		p.state = (*Parser).reasoning
	default:
		return false
	}
	return true
}
