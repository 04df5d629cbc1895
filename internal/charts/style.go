package charts

import (
	"regexp"
	"strings"
)

var (
	colorVariable = regexp.MustCompile(`--(\w+): (#[0-9a-f]{6});`)
	colorUse      = regexp.MustCompile(`([a-z-]+): var\(--(\w+)\);`)
)

// explicit writes the light color before every use of a variable: "fill: #1d2530; fill: var(--ink);". Renderers
// without variables (librsvg, which would paint black) drop the second and keep the first; browsers take the second,
// which follows the reader's light or dark setting. The light colors are those of the style's first ":root".
func explicit(style string) string {
	light, _, _ := strings.Cut(style, "@media")
	colors := map[string]string{}
	for _, m := range colorVariable.FindAllStringSubmatch(light, -1) {
		colors[m[1]] = m[2]
	}
	return colorUse.ReplaceAllStringFunc(style, func(use string) string {
		m := colorUse.FindStringSubmatch(use)
		return m[1] + ": " + colors[m[2]] + "; " + use
	})
}
