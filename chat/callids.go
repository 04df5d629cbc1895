package chat

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"unicode/utf8"
)

// callIDs says what a template takes as ids of calls. Clients send those that a server has made, or none.
type callIDs uint8

const (
	idsFree   callIDs = iota // any, or none
	idsNeeded                // any
	idsShort                 // those of mistralIDSize characters
)

// probeIDs finds out what ids a template takes. fails reports whether it renders a conversation with an error.
func (t *Template) probeIDs(fails func(Conversation) bool) {
	talk := func(id string) Conversation {
		call := ToolCall{ID: id, Name: "f", Arguments: "{}"}
		return Conversation{Messages: []Message{User("a"), {Role: "assistant", ToolCalls: []ToolCall{call}},
			ToolResult(call, "b")}}
	}
	switch {
	case fails(talk("call00001")):
	case fails(talk("call_qzprobe7")):
		t.ids = idsShort
	case fails(talk("")):
		t.ids = idsNeeded
	}
}

// identified are messages whose calls and results have ids that the template takes. A call keeps the one that it has,
// if it may. Results without one are in the order of the calls.
func (t *Template) identified(all []Message) []Message {
	if t.ids == idsFree {
		return all
	}
	all = slices.Clone(all)
	var open []string // of the calls whose results come next
	for i := range all {
		m := &all[i]
		if len(m.ToolCalls) > 0 {
			m.ToolCalls, open = slices.Clone(m.ToolCalls), nil
			for k := range m.ToolCalls {
				c := &m.ToolCalls[k]
				c.ID = t.callID(c.ID, fmt.Sprintf("call %d of message %d", k, i))
				open = append(open, c.ID)
			}
		}
		if m.Role != "tool" {
			continue
		}
		next := ""
		if len(open) > 0 {
			next, open = open[0], open[1:]
		}
		if m.ToolCallID = cmp.Or(m.ToolCallID, next); m.ToolCallID != "" {
			m.ToolCallID = t.callID(m.ToolCallID, "")
		}
	}
	return all
}

// callID is an id that the template takes: the given one, or one that is made of it, or of the place of its call where
// there is none.
func (t *Template) callID(id, place string) string {
	if id != "" && (t.ids == idsNeeded || utf8.RuneCountInString(id) == mistralIDSize) {
		return id
	}
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	sum := sha256.Sum256([]byte(cmp.Or(id, place)))
	short := make([]byte, mistralIDSize)
	for i := range short {
		short[i] = letters[int(sum[i])%len(letters)]
	}
	return string(short)
}

// inCallOrder are messages in which the results of several calls are in the order of the calls, whichever a client has
// received first: most templates tell results apart by nothing else.
func inCallOrder(all []Message) []Message {
	cloned := false
	for i := range all {
		calls, end := all[i].ToolCalls, i+1
		for len(calls) > 1 && end < len(all) && all[end].Role == "tool" {
			end++
		}
		if end-i < 3 { // fewer than two results
			continue
		}
		place := make(map[string]int, len(calls))
		for k, c := range calls {
			place[c.ID] = k
		}
		known := !slices.ContainsFunc(all[i+1:end], func(m Message) bool {
			_, ok := place[m.ToolCallID]
			return !ok || m.ToolCallID == ""
		})
		if !known {
			continue
		}
		if !cloned {
			all, cloned = slices.Clone(all), true
		}
		slices.SortStableFunc(all[i+1:end], func(a, b Message) int {
			return cmp.Compare(place[a.ToolCallID], place[b.ToolCallID])
		})
	}
	return all
}
