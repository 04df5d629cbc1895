package serve

func readResponseFormat(r *request, v value) *Error {
	kind, schema := "", value{}
	var wrapped value
	err := v.object(map[string]func(value) *Error{
		"type":        func(v value) (e *Error) { kind, e = v.oneOf("text", "json_object", "json_schema"); return },
		"json_schema": func(v value) *Error { wrapped = v; return nil },
		"schema":      func(v value) *Error { schema = v; return nil }, // llama.cpp's place
	})
	if err != nil {
		return err
	}
	if wrapped.raw != nil {
		if err := wrapped.object(schemaReaders(&schema)); err != nil {
			return err
		}
	}
	return r.setFormat(v, kind, schema)
}

// schemaReaders read the object in which OpenAI's API wraps a schema.
func schemaReaders(schema *value) map[string]func(value) *Error {
	return map[string]func(value) *Error{
		"name":        func(v value) *Error { _, err := v.text(); return err },
		"description": func(v value) *Error { _, err := v.text(); return err },
		"strict":      func(v value) *Error { _, err := v.boolean(); return err }, // schemas are always enforced
		"schema":      func(v value) *Error { *schema = v; return nil },
	}
}

func (r *tokenChoice) setFormat(v value, kind string, schema value) *Error {
	switch {
	case kind == "":
		return badField(v.path+".type", "missing")
	case kind == "text" && schema.raw != nil:
		return badField(schema.path, "a schema, and type is text")
	case kind == "text":
		return nil
	case schema.raw != nil:
		return r.setConstraint(constraintSource{"schema", schema.raw, schema.path})
	case kind == "json_schema":
		return v.bad("has no schema")
	}
	return r.setConstraint(constraintSource{"json", nil, v.path})
}

func readGrammar(r *request, v value) *Error {
	s, err := v.text()
	if err != nil || s == "" {
		return err
	}
	return r.setConstraint(constraintSource{"gbnf", []byte(s), v.path})
}

func readSchema(r *request, v value) *Error {
	return r.setConstraint(constraintSource{"schema", v.raw, v.path})
}

func readOllamaFormat(r *request, v value) *Error {
	if v.isObject() {
		return r.setConstraint(constraintSource{"schema", v.raw, v.path})
	}
	s, err := v.text()
	if err != nil || s != "json" && s != "" {
		return v.bad(`must be "json" or a JSON Schema`)
	}
	if s == "" {
		return nil
	}
	return r.setConstraint(constraintSource{"json", nil, v.path})
}
