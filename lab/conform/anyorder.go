package main

import (
	"bytes"
	"encoding/json"
	"slices"
)

// search looks for a value in a grammar, with its keys in any order. It gives up where steps are spent.
type search struct {
	judge
	steps int
}

// inAnyOrder reports whether a value is a text of the grammar with the keys of each object in some order.
func (j judge) inAnyOrder(data []byte) bool {
	s := &search{j, 1 << 20}
	return s.value(j.Start(), parse(data), j.Final)
}

// text continues behind the bytes of a text.
func (s *search) text(state int32, text []byte, then func(int32) bool) bool {
	for _, b := range text {
		next, ok, err := s.Next(state, int32(b))
		if s.steps--; err != nil || !ok || s.steps < 0 {
			return false
		}
		state = next
	}
	return then(state)
}

func (s *search) value(state int32, v any, then func(int32) bool) bool {
	switch v := v.(type) {
	case *object:
		return s.text(state, []byte("{"), func(state int32) bool { return s.members(state, v, v.keys, then) })
	case []any:
		return s.text(state, []byte("["), func(state int32) bool { return s.items(state, v, "", then) })
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	return e.Encode(v) == nil && s.text(state, bytes.TrimSpace(b.Bytes()), then)
}

// members continues behind the members of an object whose keys are left, in each order that the grammar follows.
func (s *search) members(state int32, o *object, left []string, then func(int32) bool) bool {
	if len(left) == 0 {
		return s.text(state, []byte("}"), then)
	}
	comma := ""
	if len(left) < len(o.keys) {
		comma = ","
	}
	return slices.ContainsFunc(left, func(key string) bool {
		name, err := json.Marshal(key)
		return err == nil && s.text(state, []byte(comma+string(name)+":"), func(state int32) bool {
			others := slices.DeleteFunc(slices.Clone(left), func(k string) bool { return k == key })
			return s.value(state, o.values[key], func(state int32) bool { return s.members(state, o, others, then) })
		})
	})
}

func (s *search) items(state int32, list []any, comma string, then func(int32) bool) bool {
	if len(list) == 0 {
		return s.text(state, []byte("]"), then)
	}
	return s.text(state, []byte(comma), func(state int32) bool {
		return s.value(state, list[0], func(state int32) bool { return s.items(state, list[1:], ",", then) })
	})
}
