package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
)

// base are bodies that their endpoints answer, without the field under test.
var base = map[forms]map[string]string{
	formChat:       {"messages": `[{"role":"user","content":"func main"}]`, "max_tokens": "4"},
	formCompletion: {"prompt": `"func main"`, "max_tokens": "4"},
	formResponses:  {"input": `"func main"`, "max_output_tokens": "4"},
	formMessages:   {"messages": `[{"role":"user","content":"func main"}]`, "max_tokens": "4"},
	formEmbeddings: {"input": `"func main"`},
	formEmbedding:  {"input": `"func main"`},
	formTEI:        {"inputs": `"func main"`},
	formTokenize:   {"content": `"func main"`},
	formDetokenize: {"tokens": `[5,6,7]`},
	formTemplate:   {"messages": `[{"role":"user","content":"func main"}]`},
	formNative:     {"prompt": `"func main"`, "n_predict": "4"},
	formInfill:     {"input_prefix": `"func main"`, "n_predict": "4"},
	formOllamaChat: {"messages": `[{"role":"user","content":"func main"}]`,
		"options": `{"num_predict":4}`, "stream": "false"},
	formOllamaGenerate:   {"prompt": `"func main"`, "options": `{"num_predict":4}`, "stream": "false"},
	formOllamaEmbed:      {"input": `"func main"`},
	formOllamaEmbeddings: {"prompt": `"func main"`},
	formOllamaShow:       {"model": `"go"`},
	formOllamaOptions:    {"num_predict": "4"}, // inside of /api/chat
}

// bodyWith is a form's body with a field set to a value.
func bodyWith(form forms, name, v string) string {
	return bodyWithAll(form, map[string]string{name: v})
}

// bodyWithAll is a form's body with fields set to values.
func bodyWithAll(form forms, values map[string]string) string {
	members := maps.Clone(base[form])
	for name, v := range values {
		switch name { // two names of one thing
		case "max_completion_tokens", "n_predict", "max_new_tokens":
			delete(members, "max_tokens")
		}
		members[name] = v
		if name == "top_logprobs" && form != formResponses {
			members["logprobs"] = "true"
		}
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(members)) {
		list = append(list, fmt.Sprintf("%q:%s", k, members[k]))
	}
	body := "{" + strings.Join(list, ",") + "}"
	if form == formOllamaOptions {
		return bodyWith(formOllamaChat, "options", body)
	}
	return body
}

func pathOf(i int) string {
	if forms(1)<<i == formOllamaOptions {
		return "/api/chat"
	}
	return formNames[i]
}

// sample are values of a field: the good ones are answered, the bad ones refused by the field's name. same says that
// a good value does not change the answer.
type sample struct {
	good, bad []string
	same      bool
}

const aTool = `[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}]`

// anthropicSamples are those of /v1/messages where other forms have other values under the same name.
var anthropicSamples = map[string]sample{
	"messages": {good: []string{`[{"role":"user","content":[{"type":"text","text":"x","cache_control":{}}]},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":""},` +
		`{"type":"tool_use","id":"a","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a",` +
		`"content":[{"type":"text","text":"1","cache_control":{"type":"ephemeral"}}]}]}]`},
		bad: []string{`[]`, `[{"role":"user"}]`, `[{"content":"x"}]`, `[{"role":"user","content":[{"type":"image"}]}]`,
			`[{"role":"user","content":[{"type":"text","text":"x","more":1}]}]`, `1`,
			`[{"role":"user","content":[{"type":"text"}]}]`,
			`[{"role":"user","content":[{"type":"thinking","text":"x"}]}]`}},
	"system": {good: []string{`"x"`, `[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]`},
		bad: []string{`1`, `[{"type":"text","text":"x","more":1}]`}},
	"tools": {good: []string{`[{"name":"f","input_schema":{"type":"object","properties":{}}}]`,
		`[{"name":"f","input_schema":{"type":"object"},"input_examples":[{"a":1}],"allowed_callers":["direct"]}]`},
		bad: []string{`[{"name":"f"}]`, `[{"name":"f","input_schema":{"type":"object"},"input_examples":[1]}]`,
			`[{"name":"f","input_schema":{"type":"object"},"allowed_callers":["code_execution_20250825"]}]`,
			`[{"type":"bash_20250124","name":"bash"}]`, `{}`}},
	"tool_choice": {good: []string{`{"type":"auto"}`, `{"type":"none"}`},
		bad: []string{`"auto"`, `{"type":"tool"}`, `{"type":"any","name":"f"}`, `{}`}},
	"max_tokens": {good: []string{`2`}, bad: []string{`0`, `-1`, `"2"`}},
}

// samples are values of the honored fields.
var samples = map[string]sample{
	"model":    {good: []string{`"go"`, `"any"`}, bad: []string{`1`}},
	"messages": {good: []string{`[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"y"}]`}, bad: []string{`[]`, `"x"`, `[{"content":"x"}]`, `[{"role":"user","content":[{"type":"image_url"}]}]`, `[{"role":"user","content":"x","colour":1}]`, `[1]`}},
	"tools": {good: []string{aTool},
		bad: []string{`{}`, `[{"type":"x"}]`, `[{"type":"function","function":{"name":"a b"}}]`, `[{"type":"web_search"}]`}},
	"tool_choice": {good: []string{`"none"`, `"auto"`},
		bad: []string{`"some"`, `"required"`, `{"type":"function"}`, `{"type":"allowed_tools"}`,
			`{"type":"allowed_tools","mode":"none","tools":[]}`, `{"type":"allowed_tools","mode":"auto","tools":[]}`,
			`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]}`,
			`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function"}]}`, `{"mode":"auto","name":"f"}`,
			`{"type":"function","function":{"name":"g"}}`, `1`}},
	"chat_template_kwargs":  {good: []string{`{"enable_thinking":true}`}, bad: []string{`[]`, `"x"`}},
	"reasoning_effort":      {good: []string{`"low"`}, bad: []string{`1`}},
	"add_generation_prompt": {good: []string{`false`}, bad: []string{`0`}},
	"prompt":                {good: []string{`"x"`}, bad: []string{`1`, `{}`}},
	"suffix":                {good: []string{`""`}, bad: []string{`1`, `["x"]`}, same: true},
	"echo":                  {good: []string{`true`}, bad: []string{`1`}},
	"best_of":               {good: []string{`1`}, bad: []string{`2`, `"1"`}, same: true},
	"input":                 {good: []string{`"x"`}, bad: []string{`{}`, `7`, `[{}]`}},
	"instructions":          {good: []string{`"x"`}, bad: []string{`1`}},
	"text": {good: []string{
		`{"format":{"type":"text"}}`, `{"format":{"type":"json_schema","name":"x","schema":{"type":"boolean"}}}`},
		bad: []string{`{"format":{"type":"xml"}}`, `{"fmt":1}`, `1`}},
	"max_output_tokens": {good: []string{`3`}, bad: []string{`0`, `-1`, `"3"`, `1.5`}},
	"truncation":        {good: []string{`"disabled"`, `"auto"`}, bad: []string{`"x"`}, same: true},
	"when_full":         {good: []string{`"stop"`, `"drop"`}, bad: []string{`"ask"`, `true`}, same: true},
	"n_keep":            {good: []string{`-1`, `0`, `5`}, bad: []string{`-2`, `"x"`, `0.5`}, same: true},
	"num_keep":          {good: []string{`4`, `-1`}, bad: []string{`-2`, `true`}, same: true},
	"background":        {good: []string{`false`}, bad: []string{`true`}, same: true},
	"reasoning":         {good: []string{`{"effort":"low"}`}, bad: []string{`1`, `{"effort":1}`}},
	"include": {good: []string{`["reasoning.encrypted_content"]`, `[]`},
		bad: []string{`1`, `[1]`, `["message.output_text.logprobs"]`}, same: true},
	"encoding_format":       {good: []string{`"base64"`, `"float"`}, bad: []string{`"int8"`}},
	"pooling":               {good: []string{`"last"`}, bad: []string{`"max"`}},
	"inputs":                {good: []string{`"x"`, `[[5,6]]`}, bad: []string{`{}`, `7`, `[{}]`}},
	"normalize":             {good: []string{`true`}, bad: []string{`1`}, same: true},
	"embd_normalize":        {good: []string{`2`}, bad: []string{`3`, `-2`, `"l2"`}, same: true},
	"truncate":              {good: []string{`true`}, bad: []string{`1`}, same: true},
	"stream":                {good: []string{`false`, `true`}, bad: []string{`"yes"`, `1`}},
	"stream_options":        {good: []string{`{"include_usage":true}`}, bad: []string{`1`, `{"x":1}`}, same: true},
	"max_tokens":            {good: []string{`2`, `-1`, `2.0`}, bad: []string{`0`, `-3`, `1e99`, `"2"`, `2.5`, `true`}},
	"max_completion_tokens": {good: []string{`2`}, bad: []string{`0`, `[]`}},
	"n_predict":             {good: []string{`2`, `-1`}, bad: []string{`0`, `[]`}},
	"n_cmpl":                {good: []string{`2`}, bad: []string{`0`, `1000`, `"x"`}},
	"sse_ping_interval":     {good: []string{`1`, `0`, `-1`}, bad: []string{`-2`, `"x"`, `0.5`}, same: true},
	"parse_tool_calls":      {good: []string{`true`}, bad: []string{`false`, `1`}, same: true},
	"n":                     {good: []string{`2`}, bad: []string{`0`, `-1`, `1000`, `1.5`, `99999999999999999999`}},
	"stop": {good: []string{`"a"`, `["a","b"]`},
		bad: []string{`""`, `[""]`, `1`, `[1]`, `["","","","","","","","","","","","","","","","","",""]`}},
	"logprobs":     {good: nil, bad: []string{`"x"`, `-1`, `99`}},
	"top_logprobs": {good: []string{`3`}, bad: []string{`21`, `-1`}},
	"logit_bias": {good: []string{`{"5":1.5}`, `[[5,-1],[6,false]]`},
		bad: []string{`{"-1":1}`, `{"5":"a"}`, `{"999999":1}`, `{"5":1e30}`, `[[1]]`, `3`}},
	"ignore_eos": {good: []string{`true`}, bad: []string{`1`}},
	"response_format": {good: []string{
		`{"type":"text"}`, `{"type":"json_object"}`,
		`{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"boolean"}}}`},
		bad: []string{`{"type":"xml"}`, `{"type":"json_schema"}`,
			`{"type":"json_schema","json_schema":{"schema":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`, `1`,
			`{}`}},
	"typical_p":         {good: []string{`1`, `0.5`}, bad: []string{`2`, `"a"`}},
	"typ_p":             {good: []string{`0.5`}, bad: []string{`-1`}},
	"top_n_sigma":       {good: []string{`1`, `-1`}, bad: []string{`"a"`, `-2`}},
	"xtc_probability":   {good: []string{`0`, `0.5`}, bad: []string{`2`}},
	"xtc_threshold":     {good: []string{`0.2`}, bad: []string{`-0.1`}},
	"dynatemp_range":    {good: []string{`0`, `0.5`}, bad: []string{`-1`}},
	"dynatemp_exponent": {good: []string{`2`}, bad: []string{`-1`}},
	"mirostat":          {good: []string{`0`, `1`, `2`}, bad: []string{`3`, `0.5`}},
	"mirostat_tau":      {good: []string{`4`}, bad: []string{`-1`}, same: true},
	"mirostat_eta":      {good: []string{`0.2`}, bad: []string{`-1`}, same: true},
	"samplers": {good: []string{`["top_k","temperature"]`, `["top_k","top_p","infill"]`, `"kti"`,
		`"top_k;temp"`}, bad: []string{`["z"]`, `1`}},
	"repetition_penalty":      {good: []string{`1.2`}, bad: []string{`0`}},
	"dry_multiplier":          {good: []string{`0`, `0.5`}, bad: []string{`-1`}},
	"dry_base":                {good: []string{`2`}, bad: []string{`-1`}, same: true},
	"dry_allowed_length":      {good: []string{`3`}, bad: []string{`-1`}, same: true},
	"dry_penalty_last_n":      {good: []string{`-1`, `0`, `9`}, bad: []string{`-2`}, same: true},
	"dry_sequence_breakers":   {good: []string{`["a"]`, `[]`}, bad: []string{`1`, `[1]`}, same: true},
	"verbose":                 {good: []string{`true`}, bad: []string{`1`}},
	"thinking_budget":         {good: []string{`0`, `9`, `-1`}, bad: []string{`-2`, `"a"`}},
	"thinking_budget_tokens":  {good: []string{`0`}, bad: []string{`-2`}},
	"reasoning_budget_tokens": {good: []string{`0`}, bad: []string{`-2`}},
	"reasoning_budget":        {good: []string{`0`}, bad: []string{`-2`}},
	"truncate_prompt_tokens":  {good: []string{`-1`, `99`}, bad: []string{`0`, `-2`, `"x"`}, same: true},
	"return_progress":         {good: []string{`true`}, bad: []string{`1`}, same: true},
	"enable_thinking":         {good: []string{`true`, `false`}, bad: []string{`1`}},
	"continue_final_message":  {good: []string{`false`}, bad: []string{`1`}},
	"clock": {good: []string{`"2026-01-31T12:00:00Z"`, `"2026-01-31T12:00:00+02:00"`},
		bad: []string{`1`, `"now"`, `"2026-01-31"`}, same: true},
	"thinking": {good: []string{`{"type":"enabled","budget_tokens":9}`, `{"type":"disabled"}`},
		bad: []string{`true`, `{}`, `{"type":"x"}`}},
	"output_config": {good: []string{`{"effort":"low"}`, `{"format":{"type":"json_schema","schema":{"type":"boolean"}}}`},
		bad: []string{`{"format":{}}`, `{"x":1}`}},
	"output_format": {good: []string{`{"type":"json_schema","schema":{"type":"boolean"}}`},
		bad: []string{`{"type":"json_object"}`, `{"type":"json_schema"}`, `"json"`}},
	"image_data":       {good: []string{`[]`}, bad: []string{`[{"data":"aGk=","id":1}]`, `1`}, same: true},
	"stop_sequences":   {good: []string{`["a"]`}, bad: []string{`[""]`, `1`}},
	"min_tokens":       {good: []string{`2`}, bad: []string{`-1`, `"2"`}},
	"reasoning_format": {good: []string{`"auto"`, `"deepseek"`}, bad: []string{`"none"`, `1`}, same: true},
	"stop_token_ids":   {good: []string{`[5]`}, bad: []string{`[-1]`, `5`, `[999999]`}},
	"prompt_logprobs":  {good: []string{`0`, `3`}, bad: []string{`-1`, `21`}},
	"use_beam_search":  {good: []string{`false`}, bad: []string{`true`}, same: true},
	"length_penalty":   {good: []string{`1.0`}, bad: []string{`2`}, same: true},
	"response_fields":  {good: []string{`["content","generation_settings/seed"]`}, bad: []string{`1`, `[1]`}},
	"guided_json": {good: []string{`{"type":"boolean"}`, `"{\"type\":\"boolean\"}"`},
		bad: []string{`7`, `"{"`}},
	"guided_grammar":             {good: []string{`"root ::= \"yes\""`}, bad: []string{`"root ::= ("`}},
	"guided_choice":              {good: []string{`["yes","no \"x\"\n"]`}, bad: []string{`[]`, `1`}},
	"include_stop_str_in_output": {good: []string{`false`, `true`}, bad: []string{`1`}, same: true},
	"skip_special_tokens":        {good: []string{`true`}, bad: []string{`false`}, same: true},
	"structured_outputs": {good: []string{`{"json":{"type":"boolean"}}`, `{"choice":["a"]}`, `{"json_object":true}`},
		bad: []string{`{"regex":"("}`, `1`}},
	"banned_strings":       {good: []string{`["return","func"]`, `"x"`}, bad: []string{`[""]`, `7`}},
	"guided_regex":         {good: []string{`"(yes|no){2}"`}, bad: []string{`"("`, `7`}},
	"previous_response_id": {good: []string{`null`}, bad: []string{`"x"`}, same: true},
	"grammar":              {good: []string{`"root ::= \"yes\" | \"no\""`}, bad: []string{`"root ::= ("`, `1`}},
	"json_schema":          {good: []string{`{"type":"boolean"}`}, bad: []string{`{"type":"nothing"}`, `7`}},
	"speculation": {good: []string{
		`{"off":true}`, `{"min":0,"trace":false}`,
		`{"drafter":"suffix","schedule":"constant","max":3,"min":1,"verify":"match"}`},
		bad: []string{`{"drafter":"oracle"}`, `{"max":0}`, `{"max":1000}`, `{"verify":"x"}`, `{"max":2,"min":3}`,
			`{"x":1}`, `1`, `{"trace":true}`}, same: true},
	"lora": {good: []string{`[]`}, bad: []string{`1`, `[{"id":0,"scale":1}]`, `[{"id":0}]`, `[{"id":-1,"scale":1}]`,
		`[{"id":0,"scale":1,"x":1}]`}, same: true},
	"json_any_order":    {good: []string{`true`, `false`}, bad: []string{`1`}, same: true},
	"cache_salt":        {good: []string{`"x"`, `""`}, bad: []string{`1`, `["x"]`}, same: true},
	"timings_per_token": {good: []string{`true`}, bad: []string{`1`}, same: true},
	"system":            {good: []string{`"x"`}, bad: []string{`1`}},
	"raw":               {good: []string{`true`}, bad: []string{`1`}},
	"template":          {good: []string{`""`}, bad: []string{`"{{ .Prompt }}"`}, same: true},
	"context":           {good: []string{`[]`}, bad: []string{`[1]`}, same: true},
	"images":            {good: []string{`[]`}, bad: []string{`["aGk="]`}, same: true},
	"format":            {good: []string{`"json"`, `{"type":"boolean"}`}, bad: []string{`"yaml"`, `1`}},
	"think":             {good: []string{`true`, `false`, `"low"`}, bad: []string{`"very"`, `1`}},
	"options":           {good: []string{`{"num_predict":3,"seed":1}`}, bad: []string{`{"seeds":1}`, `[]`}},
	"num_predict":       {good: []string{`3`, `-1`, `-2`}, bad: []string{`0`, `"x"`}},
	"keep_alive": {good: []string{`0`, `"0s"`, `"5m"`, `-1`, `"-1"`, `300`}, bad: []string{`true`, `"x"`},
		same: true},
	"name":                {good: []string{`"go"`}, bad: []string{`1`}},
	"dimensions":          {good: []string{`128`}, bad: []string{`0`, `129`}, same: true},
	"content":             {good: []string{`"x"`}, bad: []string{`1`}},
	"add_special":         {good: []string{`true`}, bad: []string{`1`}},
	"parse_special":       {good: []string{`false`}, bad: []string{`1`}},
	"with_pieces":         {good: []string{`true`}, bad: []string{`1`}},
	"tokens":              {good: []string{`[1]`, `[]`}, bad: []string{`"x"`, `[-1]`, `[99999999]`, `[1.5]`}},
	"parallel_tool_calls": {good: []string{`true`, `false`}, bad: []string{`1`}},
	"prediction": {good: []string{`{"type":"content","content":"x"}`,
		`{"type":"content","content":[{"type":"text","text":"x"}]}`},
		bad: []string{`1`, `"x"`, `{}`, `{"type":"content"}`, `{"type":"text","content":"x"}`,
			`{"type":"content","content":1}`}, same: true},
	"metadata":            {good: []string{`{"a":"b"}`}, bad: []string{`1`}},
	"id_slot":             {good: []string{`0`, `3`, `-1`, `100`}, bad: []string{`-2`, `"x"`, `1.5`}, same: true},
	"filename":            {},
	"return_tokens":       {good: []string{`false`}, bad: []string{`1`}, same: true},
	"n_probs":             {good: []string{`0`, `3`}, bad: []string{`-1`, `21`, `true`}},
	"post_sampling_probs": {good: []string{`true`}, bad: []string{`1`}, same: true},
	"min_keep":            {good: []string{`0`}, bad: []string{`1`}, same: true},
	"n_indent":            {good: []string{`0`, `4`}, bad: []string{`-1`, `1.5`, `"x"`}},
	"t_max_predict_ms":    {good: []string{`0`, `-1`, `3600000`}, bad: []string{`-2`, `true`}},
	"input_prefix": {good: []string{`"x"`, `""`, `[5,"x",6]`, `[]`},
		bad: []string{`1`, `[1.5]`, `[99999999]`, `[{}]`}},
	"input_suffix": {good: []string{`"x"`, `""`, `[5]`}, bad: []string{`1`, `[-1]`, `["x",99999999]`}},
	"input_extra": {good: []string{`[]`, `[{"filename":"a.go","text":"package a"}]`, `[{"text":"x"}]`},
		bad: []string{`{}`, `[{}]`, `[{"filename":"a"}]`, `[{"filename":1,"text":"x"}]`,
			`[{"filename":"a","text":1}]`, `["x"]`}},
	"modalities":        {good: []string{`["text"]`}, bad: []string{`["audio"]`}, same: true},
	"temperature":       {good: []string{`0`, `1.5`}, bad: []string{`-1`, `1e30`, `"hot"`, `1e999`}},
	"top_p":             {good: []string{`0`, `0.5`, `1`}, bad: []string{`-0.1`, `1.1`}},
	"top_k":             {good: []string{`0`, `5`, `-1`}, bad: []string{`-2`, `0.5`}},
	"min_p":             {good: []string{`0.1`}, bad: []string{`2`}},
	"repeat_penalty":    {good: []string{`1.2`}, bad: []string{`0`, `-1`}},
	"repeat_last_n":     {good: []string{`0`, `-1`, `8`}, bad: []string{`-2`}},
	"frequency_penalty": {good: []string{`0.5`}, bad: []string{`1e9`}},
	"presence_penalty":  {good: []string{`0.5`}, bad: []string{`"x"`}},
	"seed":              {good: []string{`-1`, `0`, `7`, `9223372036854775807`}, bad: []string{`1.5`, `"x"`, `1e30`}},
	"tfs_z":             {good: []string{`1`}, bad: []string{`0.5`}, same: true},
	"penalize_newline":  {good: []string{`true`, `false`}, bad: []string{`1`}, same: true},
	"penalize_nl":       {good: []string{`true`, `false`}, bad: []string{`1`}, same: true},
}

// answeredForms are those whose fields TestFields tries. The pair is no reranker, which TestRerank has; there are no
// store and no files, which TestManageFields and TestSlotFilesAreRefused have; of formRoute the model is required,
// which TestRouter has.
const answeredForms = formOllamaOptions | formAll&^(formRerank|formManage|formOllamaCopy|formRoute|formSlots)

// Every field of every form: what it takes, what it refuses by its name, and that null is absence. Good values of a
// field that several forms have are divided among them.
func TestFields(t *testing.T) {
	s := newTester(t, func(o *Options) {
		smaller(t)(o)
		o.MaxTokens = 8 // also of -1, which asks for all that there is room for
	})
	withInfill(t, s)
	for i := range formNames {
		form := forms(1) << i
		if form&answeredForms == 0 {
			continue
		}
		plain := ""
		for k, v := range base[form] {
			plain = stable(s.post(pathOf(i), bodyWith(form, k, v), 200))
		}
		// fields with values that change nothing, the second and further values of a field apart
		without, read := map[string]string{}, [2]map[string]string{{}, {}}
		for name, f := range s.tables[form] {
			required := base[form][name] != "" && name != "options" && name != "stream" && !strings.HasPrefix(name, "max_") &&
				name != "num_predict" && name != "model" || name == "max_tokens" && form == formMessages
			switch {
			case required:
			case name == "stream" || name == "options" || strings.HasPrefix(name, "max_") || name == "num_predict" ||
				name == "n_predict" || name == "top_logprobs":
				s.post(pathOf(i), bodyWith(form, name, "null"), 200)
			default:
				without[name] = "null"
			}
			if f.kind == accepted {
				values := []string{`1`, `"x"`, `{"a":[1]}`}
				if testkit.IsLong(t) {
					for _, v := range values {
						changesNothing(s, i, plain, map[string]string{name: v})
					}
				}
				read[0][name] = values[len(name)%3] // by turns
				continue
			}
			sample, ok := samples[name]
			if slices.ContainsFunc(clientFields(), func(c field) bool { return c.name == name && c.in == f.in }) {
				sample, ok = clientSamples[name]
			}
			if !ok {
				t.Errorf("no sample of %s", name)
				continue
			}
			common := sample.good
			if name == "tools" && form == formResponses {
				sample = samples["tools"]
				sample.good = []string{`[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]`,
					`[{"type":"web_search"}]`}
				sample.bad = []string{`{}`, `[{}]`, `[{"type":1}]`, `[{"type":"function","name":"a b"}]`}
			}
			if special, ok := anthropicSamples[name]; ok && form == formMessages {
				sample = special
			}
			if name == "add_generation_prompt" && form == formChat {
				sample.good, sample.bad = []string{`true`}, append(sample.bad, `false`)
			}
			if name == "max_tokens" && form == formCompletion || name == "n_predict" && form&formLlama != 0 {
				sample.bad = slices.DeleteFunc(slices.Clone(sample.bad), func(v string) bool { return v == "0" })
				sample.good = append(slices.Clone(sample.good), "0")
			}
			if name == "logprobs" {
				sample.good = map[forms][]string{formChat: {`true`}, formOllamaChat: {`true`}, formOllamaGenerate: {`true`},
					formCompletion: {`0`, `2`}}[form]
			}
			turn, turns := 0, 1 // of the forms that divide the values
			if !testkit.IsLong(t) && slices.Equal(common, sample.good) {
				in := f.in & answeredForms
				turn, turns = bits.OnesCount(uint(in&(form-1))), bits.OnesCount(uint(in))
			}
			nth := -1
			for k, v := range sample.good {
				if k%turns != turn%len(sample.good) {
					continue
				}
				// a prediction needs drafts, which values of other fields turn off
				if nth++; sample.same && nth < len(read) && name != "prediction" && !testkit.IsLong(t) {
					read[nth][name] = v
					continue
				}
				if got := stable(s.post(pathOf(i), bodyWith(form, name, v), 200)); sample.same && got != plain {
					t.Errorf("%s: %s %s changes the answer:\n%s\n%s", formNames[i], name, v, got, plain)
				}
			}
			if name == "input" && form != formResponses && form != formEmbeddings && form != formEmbedding &&
				form != formOllamaEmbed {
				continue
			}
			for _, v := range sample.bad {
				if v == "[]" && form == formOllamaChat {
					continue // loads the model
				}
				status, text, _ := s.do("POST", pathOf(i), bodyWith(form, name, v))
				if status != 400 || !strings.Contains(text, name) {
					t.Errorf("%s: %s %s: %d %s", formNames[i], name, v, status, text)
				}
				if param, ok := decode(t, text)["error"].(map[string]any); ok && form != formMessages && // which has none
					!strings.Contains(fmt.Sprint(param["param"]), name) {
					t.Errorf("%s: %s %s: the param is %v", formNames[i], name, v, param["param"])
				}
			}
		}
		changesNothing(s, i, plain, without)
		changesNothing(s, i, plain, read[0])
		changesNothing(s, i, plain, read[1])
		// A field of no kind is refused by name, also where another form has it.
		for _, name := range []string{"nonsense", "previous_response_id", "functions", "Temperature", "audio"} {
			text := s.post(pathOf(i), bodyWith(form, name, `"x"`), 400)
			if !strings.Contains(text, name) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
	for name := range samples {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name && f.kind == honored }) {
			t.Errorf("a sample of %s, which is no honored field", name)
		}
	}
}

// changesNothing demands a form's plain answer also with fields set to values, all at once. Where it is another one,
// they are tried one by one, so that the error says which.
func changesNothing(s *tester, form int, plain string, values map[string]string) {
	s.t.Helper()
	status, text, _ := s.do("POST", pathOf(form), bodyWithAll(1<<form, values))
	if status == 200 && stable(text) == plain {
		return
	}
	s.t.Errorf("%s: fields that are to change nothing, together: %d %s", formNames[form], status, text)
	for name, v := range values {
		if status, text, _ := s.do("POST", pathOf(form), bodyWith(1<<form, name, v)); status != 200 || stable(text) != plain {
			s.t.Errorf("%s: %s %s changes the answer: %d %s", formNames[form], name, v, status, text)
		}
	}
}

// TestLongFields: each field that is accepted with each kind of value, and of the others each good value in each form.
func TestLongFields(t *testing.T) {
	testkit.Long(t)
	TestFields(t)
}

// What honored fields do to the answer.
func TestFieldsMean(t *testing.T) {
	s := newTester(t, smaller(t))
	ask := func(more string) object {
		return decode(t, s.post("/v1/completions", `{"prompt":"func (r *Ring) Push(","max_tokens":24`+more+`}`, 200))
	}
	text := func(more string) string { return ask(more).get(t, "choices", 0, "text").(string) }
	plain := text("")
	for name, more := range map[string]string{
		"top_p 0 is greedy":       `,"temperature":2,"top_p":0,"seed":3`,
		"top_k 1 is greedy":       `,"temperature":2,"top_k":1,"seed":3`,
		"a window of 0 is off":    `,"repeat_penalty":5,"repeat_last_n":0,"presence_penalty":9`,
		"a penalty of 1 is off":   `,"repeat_penalty":1`,
		"a bias of 0 is none":     `,"logit_bias":{"5":0}`,
		"an unknown null is none": `,"nonsense":null`,
		"no limit but the tokens": `,"n_predict":24`,
	} {
		if got := text(more); got != plain {
			t.Errorf("%s: %q, plain %q", name, got, plain)
		}
	}
	for name, more := range map[string]string{
		"temperature": `,"temperature":2,"seed":3`, "repeat_penalty": `,"repeat_penalty":5`,
		"presence_penalty": `,"presence_penalty":9`, "frequency_penalty": `,"frequency_penalty":9`,
	} {
		if got := text(more); got == plain {
			t.Errorf("%s changes nothing", name)
		}
	}
	// A window of 0 of the server's holds for penalties of requests that say no other one.
	off := newTester(t, func(o *Options) {
		smaller(t)(o)
		o.Sampling.SetLastN(0)
	})
	for more, same := range map[string]bool{
		`,"repeat_penalty":5`: true, `,"presence_penalty":9`: true, `,"repeat_penalty":5,"repeat_last_n":64`: false,
	} {
		got := decode(t, off.post("/v1/completions", `{"prompt":"func (r *Ring) Push(","max_tokens":24`+more+`}`, 200)).
			get(t, "choices", 0, "text").(string)
		if (got == plain) != same {
			t.Errorf("behind --repeat-last-n 0, %s: %q, plain %q", more, got, plain)
		}
	}
	if a, b := text(`,"temperature":1,"seed":5`), text(`,"temperature":1,"seed":5`); a != b {
		t.Errorf("one seed, two texts: %q %q", a, b)
	}
	if a, b := text(`,"temperature":1,"seed":5`), text(`,"temperature":1,"seed":6`); a == b {
		t.Errorf("two seeds, one text: %q", a)
	}
	for _, more := range []string{``, `,"seed":-1`} {
		different := map[string]bool{}
		for range 4 {
			different[text(`,"temperature":1`+more)] = true
		}
		if len(different) < 2 {
			t.Errorf("without a seed (%s) the text is always %v", more, different)
		}
	}
	if got := text(`,"stop":["*"]`); got != plain[:strings.Index(plain, "*")] {
		t.Errorf("stop: %q", got)
	}
	if o := ask(`,"stop":"*"`); o.get(t, "choices", 0, "finish_reason") != "stop" {
		t.Errorf("stop: %v", o)
	}
	first := decode(t, s.post("/tokenize", string(encode(map[string]any{"content": plain})), 200)).get(t, "tokens", 0)
	if got := text(fmt.Sprintf(`,"logit_bias":{"%v":-100}`, first)); got[0] == plain[0] {
		t.Errorf("a banned token is written: %q", got)
	}
	if got := text(fmt.Sprintf(`,"logit_bias":[[%v,false]]`, first)); got[0] == plain[0] {
		t.Errorf("a banned token is written: %q", got)
	}
	if got := text(`,"echo":true`); got != "func (r *Ring) Push("+plain {
		t.Errorf("echo: %q", got)
	}
}

// Log-probabilities: those of the chosen tokens, the same with and without drafts, at most 0, and the greatest
// alternative is what greedy decoding chooses.
func TestLogprobs(t *testing.T) {
	s := newTester(t, nil)
	var want string
	for _, more := range []string{`,"speculation":{"off":true}`, ``,
		`,"speculation":{"drafter":"model","schedule":"constant","max":5}`,
		`,"speculation":{"verify":"stairs","drafter":"model"}`} {
		o := decode(t, s.post("/v1/chat/completions",
			`{"messages":[{"role":"user","content":"func"}],"max_tokens":16,"logprobs":true,"top_logprobs":4`+more+`}`, 200))
		list := o.get(t, "choices", 0, "logprobs", "content").([]any)
		if len(list) != 16 {
			t.Fatalf("%d of 16 tokens", len(list))
		}
		text := []byte{}
		for _, x := range list {
			x := object(x.(map[string]any))
			p, top := x.get(t, "logprob").(float64), x.get(t, "top_logprobs").([]any)
			best := object(top[0].(map[string]any))
			if p > 0 || len(top) != 4 || best.get(t, "token") != x.get(t, "token") ||
				best.get(t, "logprob").(float64)-p > 1e-5 || p-best.get(t, "logprob").(float64) > 1e-5 {
				t.Errorf("%v", x)
			}
			for _, b := range x.get(t, "bytes").([]any) {
				text = append(text, byte(b.(float64)))
			}
		}
		if got := o.get(t, "choices", 0, "message", "content").(string); strings.TrimSpace(
			string(text)) != strings.TrimSpace(got) {
			t.Errorf("the tokens are %q, the text %q", text, got)
		}
		all, _ := json.Marshal(list)
		if want == "" {
			want = string(all)
		}
		if string(all) != want {
			t.Errorf("%s: other numbers than plain decoding's\n%s\n%s", more, all, want)
		}
	}
}

// fieldTable is the table of fields as the documentation has it, in Markdown: a row for each field, a column for each
// form of body.
func fieldTable() string {
	var b strings.Builder
	head, line := "| field |", "|---|"
	for i, name := range formNames {
		fmt.Fprintf(&b, "\n%d. %s", i+1, name)
		head, line = head+fmt.Sprintf(" %d |", i+1), line+":-:|"
	}
	b.WriteString("\n\n" + head + " meaning |\n" + line + "---|\n")
	marks := map[kind]string{honored: "●", accepted: "○"}
	byName := slices.SortedStableFunc(slices.Values(fields), func(a, b field) int {
		return strings.Compare(a.name, b.name)
	})
	for _, f := range byName {
		fmt.Fprintf(&b, "| `%s` |", f.name)
		for i := range formNames {
			mark := ""
			if f.in&(forms(1)<<i) != 0 {
				mark = marks[f.kind]
			}
			fmt.Fprintf(&b, " %s |", mark)
		}
		fmt.Fprintf(&b, " %s |\n", strings.ReplaceAll(f.doc, "|", `\|`))
	}
	b.WriteString("\n")
	return b.String()
}

// TestSeedNamesWhatElseTheTextDependsOn: the field's documentation names the verifiers whose texts depend on drafts.
func TestSeedNamesWhatElseTheTextDependsOn(t *testing.T) {
	for row := range strings.Lines(fieldTable()) {
		if !strings.Contains(row, "`seed`") {
			continue
		}
		for _, n := range speculative.Verifiers() {
			v, err := n.New(speculative.Parts{})
			if err != nil {
				t.Fatal(err)
			}
			if v.NeedsProbs() != strings.Contains(row, " "+n.Name) {
				t.Errorf("%s: %s", n.Name, row)
			}
		}
		return
	}
	t.Error("no row of seed")
}

// The documentation's table is the code's.
func TestFieldsAreDocumented(t *testing.T) {
	testkit.Printed(t, "docs/SERVER.md", "fields", fieldTable())
}
