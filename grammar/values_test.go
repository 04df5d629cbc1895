package grammar

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestLargePatterns: what would be large if it was written out costs what its text says, until a text goes on.
func TestLargePatterns(t *testing.T) {
	for _, pattern := range []string{`^.{1,60000}$`, `^[^,]{1,2000}$`, `^(\\S+\\s+){0,300}\\S+$`, `^\\p{L}{1,50}$`} {
		b := NewBudget(t.Context(), Limits{Bytes: 1 << 16})
		g, err := ParseSchema(b, []byte(`{"type":"string","pattern":"`+pattern+`"}`), SchemaOptions{})
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
		} else if !accepts(t, g, `"abc"`) || accepts(t, g, `"a,"`) && pattern[1] == '[' || accepts(t, g, `""`) {
			t.Errorf("%s: its values are judged wrongly", pattern)
		}
	}
}

// TestKeywords: values that each keyword allows and values that it does not, alone and together with others.
func TestKeywords(t *testing.T) {
	for _, x := range []values{
		// Strings: what several keywords say holds together.
		{`{"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3}`, []string{`"ab"`, `"abc"`},
			[]string{`"a"`, `"abcd"`, `"A1"`}},
		{`{"type":"string","format":"date","pattern":"^2024"}`, []string{`"2024-02-29"`}, []string{`"2023-01-01"`,
			`"2024-02-30"`}},
		{`{"type":"string","pattern":"a","allOf":[{"pattern":"b"},{"pattern":"c$"}]}`, []string{`"bac"`, `"abc"`},
			[]string{`"ac"`, `"abcd"`}},
		{`{"enum":["ab","abc","x",1],"type":"string","minLength":2,"pattern":"^a"}`, []string{`"ab"`, `"abc"`},
			[]string{`"x"`, `1`}},
		{`{"type":"string","not":{"enum":["no","off"]}}`, []string{`""`, `"n"`, `"nor"`, `"on"`}, []string{`"no"`,
			`"off"`}},
		{`{"type":"string","not":{"pattern":"^x"},"minLength":1}`, []string{`"ax"`}, []string{`"x"`, `"xa"`, `""`}},
		{`{"not":{"type":"string","minLength":0}}`, []string{`null`, `1`, `[""]`}, []string{`""`, `"a"`}},
		{`{"type":"string","not":{"minLength":1}}`, []string{`""`}, []string{`"a"`}},
		{`{"type":"string","not":{"maxLength":0}}`, []string{`"a"`}, []string{`""`}},
		{`{"not":{"type":"array","minItems":0}}`, []string{`null`, `{"a":1}`}, []string{`[]`, `[1]`}},
		{`{"not":{"type":"object","minProperties":0}}`, []string{`null`, `[1]`}, []string{`{}`, `{"a":1}`}},
		{`{"type":"string","minLength":2,"pattern":"^\"*$"}`, []string{`"\"\""`}, []string{`"\""`, `""""`}},
		{`{"type":"string","pattern":"^[é-í]+$","maxLength":2}`, []string{`"é"`, `"\u00e9\u00EA"`},
			[]string{`"éêí"`, `"\u00e8"`}},
		{`{"type":"string"}`, []string{`"\ud83d\ude00"`, `"😀"`}, []string{`"\ud83d"`, `"\ude00\ud83d"`}},
		{`{"type":"string","maxLength":1000000,"minLength":1}`, []string{`"a"`, `"\ud83d\ude00"`},
			[]string{`""`, `"\ud83d"`}},
		{`{"type":"string","minLength":1025,"maxLength":1026}`, []string{`"` + strings.Repeat("é", 1025) + `"`},
			[]string{`"` + strings.Repeat("a", 1024) + `"`, `"` + strings.Repeat("a", 1027) + `"`}},
		{`{"type":"array","maxItems":100000,"items":{"type":"null"}}`, []string{`[]`, `[null,null]`}, []string{`[1]`}},
		{`{"type":"string","maxLength":1,"pattern":"."}`, []string{`"\ud83d\ude00"`, `"😀"`},
			[]string{`"\ud83d\ude00a"`}},

		// Regular expressions.
		{`{"type":"string","pattern":"(?i)^\\W[^\\W]$"}`, []string{`"-k"`, `"\u2126S"`},
			[]string{`"sk"`, `"\u212ak"`, `"\u017fk"`, `"--"`}},
		{`{"type":"string","pattern":"^[^,]{2,2000}$"}`, []string{`"\\\"x"`, `"\u00e9😀"`, `"a\n"`}, []string{`"a"`, `"a,b"`,
			`"\u002c\u002c"`}},
		{`{"type":"string","pattern":"^\\p{L}{1,50}( \\p{L}{1,50})?$"}`, []string{`"äß"`, `"\u00e4 b"`},
			[]string{`""`, `" b"`,
				`"a b c"`}},
		{`{"type":"string","pattern":"^(?=.*[A-Z])(?=.*\\d).{4,}$"}`, []string{`"aB1c"`, `"1234A"`},
			[]string{`"abc1"`, `"B1"`}},
		{`{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)[a-z.]+$"}`, []string{`"a.b"`, `"a."`}, []string{`".a"`,
			`"a..b"`}},
		{`{"type":"string","pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}`, []string{`"1.5"`, `"-.5"`},
			[]string{`"-"`, `"."`, `""`}},
		{`{"type":"string","pattern":"\\bfoo\\b"}`, []string{`"foo"`, `"a foo."`}, []string{`"foobar"`, `"afoo"`}},
		{`{"type":"string","pattern":"^\\w+\\b-$"}`, []string{`"ab-"`}, []string{`"ab"`, `"-"`}},
		{`{"type":"string","pattern":"fo\\Bo"}`, []string{`"foo"`}, []string{`"fo o"`}},
		{`{"type":"string","pattern":"^[a-z-]+(?<!-)$"}`, []string{`"a-b"`}, []string{`"a-"`}},
		{`{"type":"string","pattern":"ab(?<=ab)c"}`, []string{`"abc"`, `"xabcx"`}, []string{`"ac"`, `"ab"`}},
		{`{"type":"string","pattern":"ab(?<!a)(?<!cb)c"}`, []string{`"abc"`}, []string{`"ac"`, `"ab"`}},
		{`{"type":"string","pattern":"(x|yab)(?<=ab)c"}`, []string{`"yabc"`, `"xyabcx"`}, []string{`"xc"`, `"abc"`}},
		{`{"type":"string","pattern":"^(?:^a|b)c"}`, []string{`"ac"`, `"bcx"`}, []string{`"c"`, `"xac"`}},
		{`{"type":"string","pattern":"a(?:^b|c)"}`, []string{`"ac"`, `"xacx"`}, []string{`"ab"`, `"b"`}},
		{`{"type":"string","pattern":"^a(?:$|b)"}`, []string{`"a"`, `"ab"`, `"abz"`}, []string{`"az"`, `"b"`}},
		{`{"type":"string","pattern":"^x(?=yz)(?:y|uy)(?<=y)(?<!x)z$"}`, []string{`"xyz"`}, []string{`"xuyz"`, `"xz"`}},
		{`{"type":"string","pattern":"^.*(?<=ab)$"}`, []string{`"ab"`, `"xab"`}, []string{`"ba"`}},
		{`{"type":"string","pattern":"^$|^a$"}`, []string{`""`, `"a"`}, []string{`"b"`, `"aa"`}},
		{`{"type":"string","pattern":"^(?i:straße|x)y$"}`, []string{`"STRAßEy"`, `"Xy"`}, []string{`"xY"`}},
		{`{"type":"string","pattern":"^\\p{Lu}\\p{Script=Greek}\\P{L}$"}`, []string{`"Äα1"`}, []string{`"äα1"`,
			`"Äa1"`, `"Äαb"`}},
		{`{"type":"string","pattern":"^[\\w-.]{2}\\cJ$"}`, []string{`"a-\n"`}, []string{`"a-"`}},
		{`{"type":"string","pattern":"^(?<year>\\d{4})$"}`, []string{`"2024"`}, []string{`"24"`}},
		{`{"type":"string","pattern":"^[^]\\u{1F600}\\ud83d\\ude00[]?$"}`, []string{`"\n😀😀"`}, []string{`"😀😀"`}},
		{`{"type":"string","pattern":"^a{,2}$"}`, []string{`"a{,2}"`}, []string{`"aa"`}},
		// Half of a surrogate pair is no character, and a border of a range all the same.
		{`{"type":"string","pattern":"^[\\ud800-\\udbff_]+$"}`, []string{`"_"`}, []string{`"-"`, `"_-"`}},
		{`{"type":"string","pattern":"^[^\\ud800-\\udfff]$"}`, []string{`"-"`, `"😀"`, `"a"`}, []string{`""`}},
		{`{"type":"string","pattern":"^[\\u0100-\\uDBFF]$"}`, []string{`"ā"`, `"\ud7ff"`},
			[]string{`"-"`, `"\ue000"`, `"a"`}},
		{`{"type":"string","pattern":"^(\\ud83c|(?i:\\udc00)|x)$"}`, []string{`"x"`}, []string{`"-"`, `""`}},

		// Numbers.
		{`{"type":"integer"}`, []string{`123456789012345678901234567890`}, []string{`1.5`}},
		{`{"type":"integer","minimum":0}`, []string{`12345678901234567890`, `0`}, []string{`-1`}},
		{`{"type":"integer","multipleOf":5}`, []string{`0`, `-10`, `1234567890123456789012345`}, []string{`3`, `12`}},
		{`{"type":"integer","multipleOf":7,"minimum":10,"maximum":30}`, []string{`14`, `21`, `28`}, []string{`7`,
			`35`, `15`}},
		{`{"type":"number","multipleOf":0.05}`, []string{`0.05`, `-1.1`, `3`, `2.50`, `2.500`}, []string{`0.01`,
			`1.125`}},
		{`{"type":"integer","multipleOf":99991}`, []string{`0`, `-199982`, `9999100000`}, []string{`99990`, `1`}},
		{`{"type":"number","multipleOf":99999999.999999997}`, []string{`-99999999.999999997`}, []string{`1`}},
		{`{"type":"integer","multipleOf":1000003,"minimum":-5000000,"exclusiveMaximum":0}`,
			[]string{`-1000003`, `-4000012`}, []string{`-5000015`, `0`, `1000003`}},
		{`{"type":"integer","multipleOf":1000000007,"minimum":1}`, []string{`2000000014`}, []string{`0`, `1`}},
		{`{"type":"integer","multipleOf":0.25,"minimum":3,"maximum":39}`, []string{`3`, `39`}, []string{`2`, `40`}},
		{`{"type":"number","multipleOf":2.5}`, []string{`7.5`, `5`, `5.0`}, []string{`2`, `7.25`}},
		{`{"allOf":[{"type":"integer","multipleOf":1000003,"minimum":1},{"multipleOf":999983}]}`,
			[]string{`999985999949`, `1999971999898`}, []string{`0`, `1000003`, `999985999950`}},
		{`{"allOf":[{"type":"number","multipleOf":1000.003,"minimum":1},{"multipleOf":99998.3}]}`,
			[]string{`99998599994.9`, `199997199989.800`}, []string{`1000.003`, `99998599994`}},
		{`{"allOf":[{"type":"integer","multipleOf":4},{"multipleOf":6}]}`, []string{`0`, `24`}, []string{`4`, `6`,
			`8`}},
		{`{"type":"integer","minimum":0,"exclusiveMinimum":true,"maximum":2,"exclusiveMaximum":false}`,
			[]string{`1`, `2`}, []string{`0`, `3`}},
		{`{"type":"integer","format":"int32"}`, []string{`2147483647`, `-2147483648`}, []string{`2147483648`,
			`-2147483649`}},
		{`{"type":"number","exclusiveMaximum":1,"minimum":0}`, []string{`0.999`, `0`}, []string{`1`, `1.0`,
			`0.99999999999999999`}},
		{`{"type":"number","not":{"const":1}}`, []string{`1.5`, `10`, `-1`}, []string{`1`, `1.0`, `1.00`}},
		{`{"type":"number","not":{"type":"integer"}}`, []string{`1.5`, `0.10`}, []string{`1`, `1.0`, `-0`}},
		{`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, []string{`1.5`}, []string{`1`, `1.0`}},
		{`{"oneOf":[{"type":"integer","multipleOf":2},{"type":"integer","multipleOf":3}]}`, []string{`2`, `3`, `4`,
			`9`}, []string{`0`, `6`, `1`}},

		// Members.
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, []string{`{}`, `{"a":1}`, `{"a":1,"b":"x"}`,
			`{"b":1}`}, []string{`{"a":"x"}`, `{"b":1,"a":"x"}`}},
		{`{"type":"object","patternProperties":{"^x":{"type":"integer"},"y$":{"minimum":5}},` +
			`"additionalProperties":false}`,
			[]string{`{"xa":1}`, `{"xy":5}`, `{"ay":"b"}`, `{}`}, []string{`{"xy":1}`, `{"a":1}`, `{"xa":"b"}`,
				`{"ay":1}`}},
		{`{"type":"object","properties":{"x1":{"type":"integer"}},` +
			`"patternProperties":{"^x":{"maximum":3}},"additionalProperties":{"type":"null"}}`,
			[]string{`{"x1":3}`, `{"x2":3}`, `{"x2":"a","b":null}`}, []string{`{"x1":4}`, `{"x2":4}`, `{"b":1}`}},
		{`{"type":"object","propertyNames":{"pattern":"^[a-z]+$","maxLength":3}}`, []string{`{"abc":1}`, `{}`},
			[]string{`{"abcd":1}`, `{"A":1}`}},
		{`{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"}}`,
			[]string{`{"b":1,"a":2}`}, []string{`{"c":1}`, `{"a":"x"}`}},
		{`{"type":"object","minProperties":1,"maxProperties":2}`, []string{`{"a":1}`, `{"a":1,"b":2}`},
			[]string{`{}`, `{"a":1,"b":2,"c":3}`}},
		{`{"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2,` +
			`"additionalProperties":false}`,
			[]string{`{"a":1,"b":2}`, `{"a":1,"c":3}`, `{"b":1,"c":3}`}, []string{`{}`, `{"a":1}`,
				`{"a":1,"b":2,"c":3}`}},
		{`{"type":"object","properties":{"a":{}},"minProperties":2}`, []string{`{"a":1,"b":2}`}, []string{`{"a":1}`,
			`{"b":1,"b":2}`}},
		{`{"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}}`, []string{`{}`, `{"b":1}`,
			`{"a":1,"b":1}`}, []string{`{"a":1}`}},
		{`{"dependentRequired":{"a":["a","b"]},"properties":{"a":{},"b":{},"c":{}},"additionalProperties":false,` +
			`"minProperties":3}`, []string{`{"a":1,"b":2,"c":3}`}, []string{`{"a":1,"b":2}`, `{"b":2,"c":3}`}},
		{`{"dependencies":{"a":["b","b"]},"required":["a"],"properties":{"a":{},"b":{}},"maxProperties":2}`,
			[]string{`{"a":1,"b":2}`}, []string{`{"a":1}`, `{"a":1,"b":2,"c":3}`}},
		{`{"type":"object","properties":{"a":{},"b":{}},"dependencies":{"a":["b"],` +
			`"b":{"properties":{"b":{"type":"integer"}}}}}`,
			[]string{`{"b":1}`, `{"a":"","b":1}`}, []string{`{"a":1}`, `{"b":""}`}},
		{`{"type":"object","properties":{"a":{},"b":{}},"dependentSchemas":{"a":{"required":["b"],` +
			`"properties":{"b":{"const":1}}}}}`,
			[]string{`{"b":2}`, `{"a":0,"b":1}`}, []string{`{"a":0}`, `{"a":0,"b":2}`}},
		{`{"type":"object","not":{"required":["a","b"]},"properties":{"a":{},"b":{}}}`, []string{`{"a":1}`,
			`{"b":1}`, `{}`}, []string{`{"a":1,"b":1}`}},
		{`{"type":"object","not":{"additionalProperties":{"type":"integer"}}}`, []string{`{"a":""}`,
			`{"a":1,"b":""}`, `{"a":1,"a":""}`}, []string{`{}`, `{"a":1}`, `{"a":"","a":1}`}},
		{`{"type":"object","not":{"patternProperties":{"^x":{"type":"integer"}}},"properties":{"x":{}}}`,
			[]string{`{"x":""}`, `{"x":1,"xa":null}`, `{"xa":"","b":1}`},
			[]string{`{}`, `{"x":1}`, `{"a":""}`, `{"xa":"","xa":1}`, `{"xa":"","b":1,"xa":1}`}},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"unevaluatedProperties":false,` +
			`"allOf":[{"properties":{"b":{}}}]}`,
			[]string{`{"a":1,"b":2}`, `{}`}, []string{`{"c":1}`, `{"a":""}`}},
		{`{"type":"object","unevaluatedProperties":{"type":"integer"},` +
			`"anyOf":[{"properties":{"a":{"const":"x"}},"required":["a"]},` +
			`{"properties":{"b":{"const":"y"}},"required":["b"]}]}`,
			[]string{`{"a":"x","c":1}`, `{"b":"y","a":1}`}, []string{`{"a":"x","b":"z"}`, `{"c":1}`}},
		{`{"type":"object","unevaluatedProperties":false,"not":{"not":{"properties":{"a":{}}}}}`, []string{`{}`},
			[]string{`{"a":1}`}},

		// Items.
		{`{"type":"array","items":[{"type":"integer"},{"type":"string"}],"additionalItems":{"type":"null"}}`,
			[]string{`[]`, `[1,"a",null]`}, []string{`["a"]`, `[1,"a",1]`}},
		{`{"type":"array","items":[{"type":"integer"}],"additionalItems":false}`, []string{`[]`, `[1]`},
			[]string{`[1,2]`}},
		{`{"type":"array","prefixItems":[{"type":"integer"}]}`, []string{`[1,"x"]`}, []string{`["x"]`}},
		{`{"type":"array","prefixItems":[],"items":{"type":"integer"}}`, []string{`[1,2]`, `[]`}, []string{`["x"]`}},
		{`{"type":"array","contains":{"const":1}}`, []string{`[1]`, `[0,"a",1,2]`}, []string{`[]`, `[0,2]`}},
		{`{"type":"array","items":{"type":"integer"},"contains":{"minimum":5},"minContains":2,` +
			`"maxContains":3,"maxItems":4}`,
			[]string{`[5,6]`, `[1,5,6,7]`}, []string{`[5]`, `[5,6,7,8]`, `[1,1,1,5,6]`, `[5,"a",6]`}},
		{`{"type":"array","contains":{"const":1},"maxContains":1,"minContains":0,"items":{"enum":[1,2]}}`,
			[]string{`[]`, `[2,1]`}, []string{`[1,1]`, `[3]`}},
		{`{"type":"array","allOf":[{"contains":{"const":1}},{"contains":{"const":2}}]}`, []string{`[2,1]`,
			`[1,0,2]`}, []string{`[1]`, `[2,2]`}},
		{`{"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":2}`, []string{`["a","c"]`,
			`["c","b","a"]`}, []string{`["a"]`, `["a","a"]`, `["a","b","a"]`}},
		{`{"type":"array","items":{"type":"string"},"uniqueItems":true,"maxItems":1}`, []string{`[]`, `["a"]`},
			[]string{`["a","b"]`}},
		{`{"type":"array","not":{"items":{"type":"integer"}}}`, []string{`["a"]`, `[1,"a"]`}, []string{`[]`, `[1]`}},
		{`{"type":"array","prefixItems":[{}],"unevaluatedItems":false,"allOf":[{"prefixItems":[{},` +
			`{"type":"null"}]}]}`, []string{`[1,null]`}, []string{`[1,2]`, `[1,null,3]`}},

		// Composition.
		{`{"$ref":"#/$defs/a","maxLength":2,"$defs":{"a":{"type":"string","minLength":1}}}`, []string{`"a"`},
			[]string{`""`, `"abc"`}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","maxLength":2,` +
			`"definitions":{"a":{"type":"string","minLength":1}}}`, []string{`"abc"`}, []string{`""`}},
		{`{"$ref":"#/definitions/a","maxLength":2,"$schema":"http://json-schema.org/draft-07/schema#",` +
			`"definitions":{"a":{"type":"string","minLength":1}}}`, []string{`"abc"`}, []string{`""`}},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"const":1},"b":{}},"type":"object",` +
			`"dependentRequired":{"a":["b"]}}`, []string{`{}`, `{"a":1,"b":2}`}, []string{`{"a":1}`, `{"a":2,"b":2}`}},
		{`{"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]}],"minimum":3}`, []string{`3`}, []string{`1`, `2`, `4`}},
		{`{"anyOf":[{"type":"string"},{"type":"integer"}],"maxLength":1,"minimum":3}`, []string{`"a"`, `3`},
			[]string{`"ab"`, `2`}},
		{`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{},"b":{}}}`,
			[]string{`{"a":1}`, `{"b":1}`}, []string{`{}`, `{"a":1,"b":1}`}},
		{`{"oneOf":[{"properties":{"k":{"const":"x"},"v":{"type":"integer"}},"required":["k"],` +
			`"type":"object"},{"properties":{"k":{"const":"y"},"v":{"type":"string"}},"required":["k"],` +
			`"type":"object"}]}`,
			[]string{`{"k":"x","v":1}`, `{"k":"y","v":""}`}, []string{`{"k":"x","v":""}`, `{"v":1}`}},
		{`{"oneOf":[{"not":{"type":["object","array","number","boolean","null"]}},` +
			`{"not":{"type":"string"},"unevaluatedProperties":false}]}`, []string{`"a"`, `1`, `{}`}, []string{`{"a":1}`}},
		{`{"oneOf":[{"const":1},{"const":1},{"const":2}]}`, []string{`2`}, []string{`1`}},
		{`{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{}},` +
			`"if":{"properties":{"a":{"const":"x"}}},"then":{"required":["b"]},` +
			`"else":{"properties":{"b":false}}}`,
			[]string{`{"a":"x","b":1}`, `{"a":"y"}`, `{"b":1}`}, []string{`{"a":"x"}`, `{"a":"y","b":1}`, `{}`}},
		{`{"not":{"type":["object","array","string"]}}`, []string{`1`, `true`, `null`}, []string{`{}`, `[]`, `""`}},
		{`{"not":{"anyOf":[{"type":"object"},{"minimum":5},{"type":"array"}]}}`, []string{`4`, `4.5`}, []string{`5`,
			`{}`, `[]`, `"a"`}},
		{`{"$ref":"#node","$defs":{"n":{"$anchor":"node","type":"object",` +
			`"properties":{"next":{"$ref":"#node"}},"additionalProperties":false}}}`,
			[]string{`{}`, `{"next":{"next":{}}}`}, []string{`{"next":1}`, `{"a":{}}`}},
		{`{"$id":"http://example.com/root","type":"object",` +
			`"properties":{"a":{"$ref":"part#/$defs/x"}},"$defs":{"p":{"$id":"part",` +
			`"$defs":{"x":{"type":"integer"}}}}}`,
			[]string{`{"a":1}`}, []string{`{"a":""}`}},
		{`{"$dynamicAnchor":"t","type":"object","properties":{"kids":{"type":"array",` +
			`"items":{"$dynamicRef":"#t"}}}}`, []string{`{"kids":[{"kids":[]}]}`}, []string{`{"kids":[1]}`}},
		{`{"type":"object","properties":{"a":false,"b":{"type":"integer"}}}`, []string{`{"b":1}`},
			[]string{`{"a":1}`}},
		{`{"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object",` +
			`"properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}},` +
			`"n":{"type":"integer"}},"required":["n"],"allOf":[{"properties":{"n":{"minimum":0}}}]}}}`,
			[]string{`{"kids":[{"n":1}],"n":0}`}, []string{`{"n":-1}`, `{"kids":[{}],"n":0}`}},
	} {
		x.check(t)
	}
}

// TestContraries: what the contrary of a keyword allows and what it does not.
func TestContraries(t *testing.T) {
	for _, x := range []values{
		{`{"type":"array","not":{"contains":{"const":1}}}`, []string{`[]`, `[0]`}, []string{`[1]`, `[0,1]`}},
		{`{"type":"array","items":{"enum":[1,2]},"not":{"contains":{"const":1},"minContains":2}}`,
			[]string{`[]`, `[1]`, `[2,1,2]`}, []string{`[1,1]`, `[1,2,1]`}},
		{`{"type":"array","items":{"enum":[1,2]},"not":{"contains":{"const":1},"maxContains":1}}`,
			[]string{`[]`, `[2]`, `[1,1]`, `[1,2,1]`}, []string{`[1]`, `[2,1]`}},
		{`{"type":"array","not":{"prefixItems":[{"type":"integer"},true,{"const":1}]}}`,
			[]string{`["a"]`, `[1,2,2]`, `["a",2,1]`}, []string{`[]`, `[1]`, `[1,"x"]`, `[1,"x",1]`}},
		{`{"type":"array","not":{"prefixItems":[true],"items":false}}`, []string{`[1,2]`}, []string{`[]`, `[1]`}},
		{`{"type":"object","properties":{"a":{},"b":{}},"not":{"dependentRequired":{"a":["b"]}}}`,
			[]string{`{"a":1}`}, []string{`{}`, `{"b":1}`, `{"a":1,"b":1}`}},
		{`{"type":"object","properties":{"a":{},"b":{}},` +
			`"not":{"dependentSchemas":{"a":{"properties":{"b":{"const":1}}}}}}`,
			[]string{`{"a":0,"b":2}`}, []string{`{}`, `{"a":0}`, `{"b":2}`, `{"a":0,"b":1}`}},
		{`{"not":{"if":{"type":"integer"},"then":{"minimum":3},"else":{"type":"string"}}}`,
			[]string{`1`, `1.5`, `null`, `[]`}, []string{`3`, `"a"`}},
		{`{"type":"integer","minimum":0,"maximum":9,"not":{"multipleOf":3}}`, []string{`1`, `8`},
			[]string{`0`, `3`, `9`}},
	} {
		x.check(t)
	}
}

// TestListedValuesAndOtherKeywords: of the values that a schema lists, those that its other keywords allow.
func TestListedValuesAndOtherKeywords(t *testing.T) {
	for _, x := range []values{
		{`{"enum":[1,2,3],"const":2}`, []string{`2`}, []string{`1`, `3`}},
		{`{"enum":[1,2,3],"exclusiveMinimum":1,"maximum":2}`, []string{`2`}, []string{`1`, `3`}},
		{`{"enum":[1,2,3],"minimum":2,"exclusiveMaximum":3}`, []string{`2`}, []string{`1`, `3`}},
		{`{"enum":[1,2,3,4.5,-6],"multipleOf":1.5}`, []string{`3`, `4.5`, `-6`}, []string{`1`, `2`}},
		{`{"enum":[1,2,3,4],"not":{"multipleOf":2}}`, []string{`1`, `3`}, []string{`2`, `4`}},
		{`{"enum":[[],[1],[1,1],[2,3,4]],"minItems":1,"maxItems":2}`, []string{`[1]`, `[1,1]`},
			[]string{`[]`, `[2,3,4]`}},
		{`{"enum":[[1],[1,1],[1,2],[2,1.0,1]],"uniqueItems":true}`, []string{`[1]`, `[1,2]`},
			[]string{`[1,1]`, `[2,1.0,1]`}},
		{`{"enum":[[1],["a"],[1,"a"],["a",1]],"prefixItems":[{"type":"integer"}],"items":{"type":"string"}}`,
			[]string{`[1]`, `[1,"a"]`}, []string{`["a"]`, `["a",1]`}},
		{`{"enum":[[1],[2],[1,1],[1,2,1]],"contains":{"const":1},"maxContains":1}`, []string{`[1]`},
			[]string{`[2]`, `[1,1]`, `[1,2,1]`}},
		{`{"enum":[[1],[1,1],[2,2]],"contains":{"const":1},"minContains":2}`, []string{`[1,1]`},
			[]string{`[1]`, `[2,2]`}},
		{`{"enum":[{},{"a":1},{"a":1,"b":2},{"b":1}],"required":["a"],"maxProperties":1}`, []string{`{"a":1}`},
			[]string{`{}`, `{"a":1,"b":2}`, `{"b":1}`}},
		{`{"enum":[{},{"a":1},{"a":1,"b":2}],"minProperties":1,"properties":{"b":false}}`, []string{`{"a":1}`},
			[]string{`{}`, `{"a":1,"b":2}`}},
		{`{"enum":[{"a":1},{"ab":1}],"propertyNames":{"maxLength":1}}`, []string{`{"a":1}`}, []string{`{"ab":1}`}},
		{`{"enum":[{"a":1},{"a":"x"},{}],"not":{"additionalProperties":{"type":"integer"}}}`,
			[]string{`{"a":"x"}`}, []string{`{}`, `{"a":1}`}},
		{`{"type":"array","items":{"const":1},"allOf":[{"maxItems":3},{"maxItems":1}]}`, []string{`[]`, `[1]`},
			[]string{`[1,1]`}},
	} {
		x.check(t)
	}
}

// TestAnyObject: the grammar of JSON objects takes every one of them and no other value.
func TestAnyObject(t *testing.T) {
	g, err := ParseJSON(nil, SchemaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`{}`: true, `{"a":[1,{"b":null}]}`: true, `[]`: false, `[{}]`: false,
		`1`: false, `{"a"}`: false, `{"a":1`: false} {
		if got := accepts(t, g, text); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestFormatsFollowTheirRFCs: texts that are in each format and texts that are not.
func TestFormatsFollowTheirRFCs(t *testing.T) {
	for name, x := range map[string][2][]string{
		"date": {{"2024-02-29", "2000-02-29", "0999-01-01"}, {"2023-02-29", "1900-02-29", "2024-04-31",
			"2024-13-01", "2024-1-1"}},
		"time": {{"10:00:00Z", "10:00:00.5+01:00", "23:59:60Z", "08:30:06z"}, {"10:00:00", "24:00:00Z",
			"10:00Z", "22:59:60Z", "10:00:00+24:00"}},
		"date-time": {{"2024-02-29T10:00:00Z", "2024-02-28t10:00:00.123456789012+05:30", "2016-12-31T23:59:60Z"},
			{"2024-02-29T10:00:00", "2024-02-29 10:00:00Z"}},
		"duration": {{"P2W", "P1DT12H", "P0D", "P10000D", "PT1000H", "P1Y2M3D", "PT1M"}, {"P", "PT", "P1YT",
			"P1D2H", "P1W1D", "PT1H1S"}},
		"email": {{"warren@berkshirehathaway.com", "o'brien@example.com", "\"a b\\\"\"@example.org",
			"x@[127.0.0.1]", "x@[IPv6:::1]"},
			{"a@", "a..b@example.org", ".a@example.org", "a.@b", "a b@example.org",
				"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@b.de", "a@-b.de"}},
		"idn-email": {{"실례@실례.테스트", "a@b.de"}, {"a", "@b"}},
		"hostname": {{"a-b.example", "1.2.de", "a"}, {"-a", "a-", "a..b", "a_b", "xn--a", "a.xn--b",
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
		"ipv4": {{"0.0.0.0", "255.1.10.199"}, {"256.1.1.1", "1.2.3", "01.2.3.4"}},
		"ipv6": {{"::", "1::", "2001:db8::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8",
			"1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8"}, {"1:2:3", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", ":1"}},
		"uri": {{"https://u:p@example.com:80/a%20b?c=d#e", "file:///etc/passwd",
			"data:text/plain,hi", "s3://b_c/k", "http://[::1]:8080/", "urn:a:b"}, {"example", "/a", "http://a b",
			"http://[1]/", "a:%2", "1a:b"}},
		"uri-reference": {{"", "a/b", "/a?b#c", "//h/p", "http://a"}, {"a b", "1:b", "%zz"}},
		"iri": {{"http://ƒøø.ßår/?∂=#π", "http://a/\U0001f600\U000e1000"}, {"/a", "http://a b", "http://a/\U0001fffe",
			"http://a/\U000efffe", "http://a/\U000e0001", "http://a/\ufdd0", "http://[v1.é]/"}},
		"iri-reference": {{"é/\U0002fffd"}, {"\U0002ffff", "/\U000dfffe"}},
		"uri-template": {{"http://a/{x}{?y*,z:3}", "a{+b.c}", "é\ue000\U0010fffd"}, {"{", "a{}", "{x:0}", "\ufdd0", "\uffff",
			"\U0010fffe"}},
		"uuid": {{"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567",
			"123e4567e89b12d3a456426614174000"}},
		"json-pointer":          {{"", "/a~0~1/", "/0"}, {"a", "/~2", "/~"}},
		"relative-json-pointer": {{"0", "12/a", "1#"}, {"/a", "01", "-1"}},
		"byte":                  {{"", "aGk=", "aGVs"}, {"a", "aGk", "a==="}},
	} {
		v := values{schema: `{"type":"string","format":` + quote(name) + `}`}
		for _, text := range x[0] {
			v.yes = append(v.yes, quote(text))
		}
		for _, text := range x[1] {
			v.no = append(v.no, quote(text))
		}
		v.check(t)
	}
}

// TestAmbiguousReferences: a reference that may mean several schemas, by the way to it or by the draft, is refused.
func TestAmbiguousReferences(t *testing.T) {
	for source, want := range map[string]string{
		`{"$id":"http://a/r","$ref":"b#/$defs/x","$defs":{"l":{"$dynamicAnchor":"n","type":"null"},"b":{"$id":"b",
			"$defs":{"x":{"$dynamicRef":"#n"},"y":{"$dynamicAnchor":"n","type":"string"}}}}}`: `may mean several`,
		`{"$id":"http://a/r","$dynamicRef":"b#n","$defs":{"l":{"$dynamicAnchor":"n","type":"null"},"b":{"$id":"b",
			"$dynamicAnchor":"n","type":"string"}}}`: `may mean several`,
		`{"$id":"http://a/","allOf":[{"$id":"b/","$ref":"x"}],"definitions":{"x":{"$id":"x"}}}`: `$schema says which`,
	} {
		if _, err := ParseSchema(nil, []byte(source), SchemaOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// TestIgnored: what has no effect is listed with the place where it was met first; an assertion that a grammar cannot
// hold is refused, or with Relaxed listed too.
func TestIgnored(t *testing.T) {
	const source = `{"title":"t","type":"object","x-a":1,"properties":{"a/b":{"type":"string",` +
		`"format":"color","contentEncoding":"hex","title":"u"},
		"l":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`
	if _, err := ParseSchema(nil, []byte(source), SchemaOptions{}); err == nil {
		t.Error("uniqueItems of strings is left out")
	}
	g, err := ParseSchema(nil, []byte(source), SchemaOptions{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(g.Ignored())
	const want = `["#/properties/a~1b: contentEncoding","#/properties/a~1b: format \"color\"",` +
		`"#/properties/l: uniqueItems","#: title","#: x-a"]`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if !accepts(t, g, `{"a/b":"x","l":["a","a"]}`) {
		t.Error("what is left out is in the grammar")
	}
}

// TestRelaxedPatternProperties: a pattern that is left out asks nothing of members, and forbids none.
func TestRelaxedPatternProperties(t *testing.T) {
	g, err := ParseSchema(nil, []byte(`{"type":"object","properties":{"a":{"type":"string"}},"patternProperties":`+
		`{"(x)\\1":{"type":"integer"},"^(y)\\1$":{"type":"integer"}},"additionalProperties":false}`),
		SchemaOptions{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`{"a":"s"}`: true, `{"xx":1}`: true, `{"a":"s","yy":1}`: true,
		`{"a":1}`: false} {
		if got := accepts(t, g, text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if got := g.Ignored(); len(got) != 2 || got[0] != `#/patternProperties: (x)\1` {
		t.Errorf("%q", got)
	}
}

// TestRelaxedManyPatterns: of an object with more patterns than a grammar can hold any other member is allowed.
func TestRelaxedManyPatterns(t *testing.T) {
	var patterns []string
	for c := range maxPatterns + 1 {
		patterns = append(patterns, fmt.Sprintf(`"^%c":{"type":"null"}`, 'a'+c))
	}
	source := `{"type":"object","properties":{"z":{"type":"string"}},"propertyNames":{"maxLength":2},"patternProperties":{` +
		strings.Join(patterns, ",") + `},"additionalProperties":false}`
	if _, err := ParseSchema(nil, []byte(source), SchemaOptions{}); err == nil {
		t.Error("not refused")
	}
	g, err := ParseSchema(nil, []byte(source), SchemaOptions{Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{`{}`: true, `{"z":"x","b":null}`: true, `{"b":1}`: true, `{"z":1}`: false,
		`{"bbb":null}`: false} {
		if got := accepts(t, g, text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestAssertionsOfDraft3: what demands something in draft 3 alone is refused where a schema says that it is of draft 3,
// and is a word without a meaning in others.
func TestAssertionsOfDraft3(t *testing.T) {
	for keyword, value := range map[string]string{"disallow": `"string"`, "extends": `{}`, "divisibleBy": "2"} {
		rest := `"properties":{"a":{"` + keyword + `":` + value + `}}}`
		_, err := ParseSchema(nil, []byte(`{"$schema":"http://json-schema.org/draft-03/schema#",`+rest), SchemaOptions{})
		if err == nil || !strings.Contains(err.Error(), "#/properties/a/"+keyword+": of draft 3") {
			t.Errorf("%s: %v", keyword, err)
		}
		schemaOf(t, "{"+rest)
	}
}
