package chat

// Calls as Python writes them.

// readPythonCalls reads f(a="x", b=1) and further calls, behind each other or as a list. Of calls that end early it
// returns what there is.
func readPythonCalls(text string) (calls []wholeRead, end wholeEnd) {
	r := &literalReader{s: text}
	list := r.take("[")
	for {
		name := r.word()
		if name == "" || !r.take("(") {
			return calls, r.fails("")
		}
		ok := r.pythonArguments()
		if calls = append(calls, wholeRead{name, r.out.String()}); !ok {
			return calls, r.fails("")
		}
		if r.take(",") {
			continue
		}
		if r.space(); list || r.s == "" {
			break
		}
	}
	if list && !r.take("]") {
		if r.s == "" {
			return calls, wholeDone // every call is whole
		}
		return calls, wholeBad
	}
	if r.space(); r.s != "" {
		return calls, wholeBad
	}
	return calls, wholeDone
}

// pythonArguments reads what is in a call's parentheses, as one JSON object.
func (r *literalReader) pythonArguments() bool {
	r.out.Reset()
	r.out.WriteByte('{')
	for n := 0; !r.take(")"); n++ {
		if n > 0 {
			if !r.take(",") {
				return false
			}
			if r.take(")") { // Python allows a comma at the end
				break
			}
			r.out.WriteString(", ")
		}
		key := r.word()
		if key == "" || !r.take("=") {
			return false
		}
		r.out.WriteString(quoted(key) + ": ")
		if !r.value() {
			return false
		}
	}
	r.out.WriteByte('}')
	return true
}
