package spectest

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/specgo/spec"
)

// part is what a field of a request is to an answer.
type part int

const (
	option  part = iota + 1 // changes the answer: recorded
	inIDs                   // becomes token ids of the prompt, which are recorded
	nothing                 // changes no token: not looked at
	refused                 // the answer would depend on what no file can hold
	own                     // set by Run, or looked at by itself
)

// requestParts are the fields of [spec.Request].
var requestParts = map[string]part{
	"Messages": inIDs, "Prompts": inIDs, "Infill": inIDs, "Keep": inIDs, "Clock": option, "Truncate": inIDs,
	"Variables": option, "Continue": option, "ThinkingBudget": option, "Tools": option, "ToolChoice": option,
	"OneCall": option, "MaxTokens": option, "WhenFull": option, "Stop": option, "ShowStop": option, "IgnoreEOS": option,
	"MinTokens": option, "Ends": option, "Breakers": option, "Constraint": option, "Adapters": option,
	"Lines": refused, "Drafter": refused, "Written": refused, "CallID": refused,
	"Trace": nothing, "Costs": nothing, "Previous": nothing, "Salt": nothing, "Timings": nothing, "Rounds": nothing,
	"N": own, "Sampling": own, "Speculation": own, "LogProbs": own, "Top": own, "Chosen": own, "Scored": own,
	"Progress": own,
}

// options are the fields of a request that change its answer, by name, as JSON. Sampling's stand by themselves.
func options(r *spec.Request) (map[string]string, error) {
	set := map[string]string{}
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch kind := requestParts[name]; {
		case kind == 0:
			return nil, fmt.Errorf("Request.%s: not known to package spectest", name)
		case kind == refused && !v.Field(i).IsZero():
			return nil, fmt.Errorf("Request.%s: what it does is not part of a golden file", name)
		case kind == option && !v.Field(i).IsZero():
			set[name] = written(v.Field(i).Interface())
		}
	}
	if r.N > 1 || len(r.Prompts) > 1 {
		return nil, fmt.Errorf("Request.N, Prompts: %d answers of %d prompts, a golden file holds one", r.N, len(r.Prompts))
	}
	if r.Sampling.Constraint != nil {
		return nil, fmt.Errorf("Request.Sampling.Constraint: what it does is not part of a golden file")
	}
	v = v.FieldByName("Sampling")
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name == "Seed" || !v.Field(i).IsZero() {
			set["Sampling."+name] = written(v.Field(i).Interface())
		}
	}
	return set, nil
}

// written is a value as JSON, or as fmt has it where JSON cannot (infinite biases); equal values are equal texts.
func written(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
