package grammar

// format is a value of "format" that says which strings are valid. Others are annotations.
type format struct {
	pattern string // a regular expression; "": none holds it
	about   string // the specification
}

// formats are those of the drafts 4 to 2020-12, and the ones of OpenAPI that say something about strings.
var formats = map[string]format{
	"date":      {"^" + fullDate + "$", "RFC 3339, section 5.6"},
	"time":      {"^" + fullTime + "$", "RFC 3339, section 5.6"},
	"date-time": {"^" + fullDate + "[Tt]" + fullTime + "$", "RFC 3339, section 5.6"},
	"duration":  {"^" + duration + "$", "RFC 3339, appendix A"},
	"email":     {"^" + local + "@(" + host + "|" + literalAddress + ")$", "RFC 5321, section 4.1.2"},
	"idn-email": {"^" + idnLocal + "@(" + idnHost + "|" + literalAddress + ")$", "RFC 6531"},
	"hostname":  {"^" + host + "$", "RFC 1123, section 2.1"},
	"ipv4":      {"^" + ipv4 + "$", "RFC 2673, section 3.2"},
	"ipv6":      {"^" + ipv6 + "$", "RFC 4291, section 2.2"},
	"uuid":      {"^" + uuid + "$", "RFC 4122"},

	"uri":           {"^" + scheme + ":" + hierarchy(uriCharacters) + "$", "RFC 3986"},
	"uri-reference": {"^(" + scheme + ":" + hierarchy(uriCharacters) + "|" + relative(uriCharacters) + ")$", "RFC 3986"},
	"iri":           {"^" + scheme + ":" + hierarchy(iriCharacters) + "$", "RFC 3987"},
	"iri-reference": {"^(" + scheme + ":" + hierarchy(iriCharacters) + "|" + relative(iriCharacters) + ")$", "RFC 3987"},
	"uri-template": {"^([!#$&(-;=?-\\[\\]_a-z~" + wideCharacters + privateCharacters + "]|%[0-9A-Fa-f]{2}|" +
		"\\{[+#./;?&=,!@|]?" + variable + "(," + variable + ")*\\})*$", "RFC 6570"},

	"json-pointer":          {"^" + pointer + "$", "RFC 6901"},
	"relative-json-pointer": {"^(0|[1-9][0-9]*)(#|" + pointer + ")$", "draft-bhutton-relative-json-pointer"},

	"byte":   {"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "RFC 4648, section 4"},
	"base64": {"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", "RFC 4648, section 4"},

	"idn-hostname": {"", "RFC 5890: depends on tables of Unicode and of Punycode"},
	"regex":        {"", "ECMA-262: its parentheses nest"},
}

// integerFormats are OpenAPI's, of numbers: the smallest and the greatest.
var integerFormats = map[string][2]string{
	"int8": {"-128", "127"}, "int16": {"-32768", "32767"}, "int32": {"-2147483648", "2147483647"},
	"int64": {"-9223372036854775808", "9223372036854775807"},
	"uint8": {"0", "255"}, "uint16": {"0", "65535"}, "uint32": {"0", "4294967295"},
	"uint64": {"0", "18446744073709551615"},
}

// Parts of formats.
const (
	fullDate = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|` +
		`(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)`
	// A leap second is the last one of a day in UTC: 23:59:60 less the offset.
	fullTime = `(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)|` +
		`23:59:60(\.\d+)?([Zz]|[+-]00:00))`

	duration = `P(\d+W|(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)(T` + clock + `)?|T` + clock + `)`
	clock    = `(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)`

	label          = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`
	host           = `(?=.{1,253}$)(?!..--|.*\...--)` + label + `(\.` + label + `)*`
	idnLabel       = `[A-Za-z0-9\u00a1-\uffef]([A-Za-z0-9\u00a1-\uffef-]{0,61}[A-Za-z0-9\u00a1-\uffef])?`
	idnHost        = `(?!..--|.*\...--)` + idnLabel + `(\.` + idnLabel + `)*`
	atom           = `[A-Za-z0-9!#$%&'*+/=?^_` + "`" + `{|}~-]+`
	quotedLocal    = `"([ !#-\[\]-~]|\\[ -~])*"`
	local          = `(?=[^@]{1,64}@|")(` + atom + `(\.` + atom + `)*|` + quotedLocal + `)`
	idnAtom        = `[A-Za-z0-9!#$%&'*+/=?^_` + "`" + `{|}~\u0080-\uffef-]+`
	idnLocal       = `(` + idnAtom + `(\.` + idnAtom + `)*|` + quotedLocal + `)`
	literalAddress = `\[(` + ipv4 + `|IPv6:` + ipv6 + `)\]`

	octet = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4  = octet + `(\.` + octet + `){3}`
	h16   = `[0-9A-Fa-f]{1,4}`
	ls32  = `(` + h16 + `:` + h16 + `|` + ipv4 + `)`
	ipv6  = `((` + h16 + `:){6}` + ls32 + `|::(` + h16 + `:){5}` + ls32 + `|(` + h16 + `)?::(` + h16 + `:){4}` + ls32 +
		`|((` + h16 + `:)?` + h16 + `)?::(` + h16 + `:){3}` + ls32 + `|((` + h16 + `:){0,2}` + h16 + `)?::(` + h16 + `:){2}` + ls32 +
		`|((` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 + `|((` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
		`|((` + h16 + `:){0,5}` + h16 + `)?::` + h16 + `|((` + h16 + `:){0,6}` + h16 + `)?::)`

	uuid = `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}`

	scheme        = `[A-Za-z][A-Za-z0-9+.-]*`
	uriCharacters = `A-Za-z0-9._~!$&'()*+,;=\-`
	iriCharacters = uriCharacters + wideCharacters
	// ucschar of RFC 3987: no surrogates, none for private use, no code points that are no characters.
	wideCharacters = `\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\u{10000}-\u{1fffd}\u{20000}-\u{2fffd}\u{30000}-\u{3fffd}` +
		`\u{40000}-\u{4fffd}\u{50000}-\u{5fffd}\u{60000}-\u{6fffd}\u{70000}-\u{7fffd}\u{80000}-\u{8fffd}` +
		`\u{90000}-\u{9fffd}\u{a0000}-\u{afffd}\u{b0000}-\u{bfffd}\u{c0000}-\u{cfffd}\u{d0000}-\u{dfffd}` +
		`\u{e1000}-\u{efffd}`
	privateCharacters = `\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}` // iprivate
	escapedByte       = `%[0-9A-Fa-f]{2}`

	pointer  = `(/([^/~]|~[01])*)*`
	variable = `([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(:[1-9]\d{0,3}|\*)?`
)

// hierarchy is what follows the scheme of a URI, or of an IRI, whose unreserved characters and delimiters are given.
func hierarchy(characters string) string {
	return "(" + authority(characters) + "|" + path(characters, ":@", ":@") + ")" + tail(characters)
}

// relative is a reference without a scheme: the first part of its path has no colon.
func relative(characters string) string {
	return "(" + authority(characters) + "|" + path(characters, ":@", "@") + ")" + tail(characters)
}

// path is a path without an authority before it: its first part has other characters than the others.
func path(characters, others, first string) string {
	part := func(more string) string { return "([" + more + characters + "]|" + escapedByte + ")" }
	rest := "(/" + part(others) + "*)*"
	return "(/(" + part(others) + "+" + rest + ")?|" + part(first) + "+" + rest + ")?"
}

func authority(characters string) string {
	p := func(more string) string { return "([" + more + characters + "]|" + escapedByte + ")*" }
	return `//(` + p(":") + `@)?(\[(` + ipv6 + `|[Vv][0-9A-Fa-f]+\.[` + uriCharacters + `:]+)\]|` + p("") + `)(:\d*)?(/` +
		p(":@") + `)*`
}

// tail is the query and the fragment. Brackets, which RFC 3986 would have escaped, are left out.
func tail(characters string) string {
	p := "([:@/?" + characters + "]|" + escapedByte + ")*"
	return `(\?` + p + `)?(#` + p + `)?`
}
