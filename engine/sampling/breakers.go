package sampling

import "strings"

// longestBreaker is how many bytes of a breaker count: repetitions are searched token by token.
const longestBreaker = 40

// Breakers are the sequences of tokens for [DRY.Breakers] in which each of texts can stand: a token that contains it,
// or one that ends with its beginning, followed by the rest of it as encode writes it. piece is a token's text.
func Breakers(vocab int, piece func(id int32) string, encode func(text string) []int32, texts []string) [][]int32 {
	var list [][]int32
	rest := map[string][]int32{}
	for _, text := range texts {
		text = text[:min(len(text), longestBreaker)]
		for id := range int32(vocab) {
			switch s := piece(id); {
			case text == "" || s == "":
			case strings.Contains(s, text):
				list = append(list, []int32{id})
			default:
				for n := 1; n < min(len(text), len(s)+1); n++ { // bytes of the text that the token ends with
					if !strings.HasSuffix(s, text[:n]) {
						continue
					}
					after, ok := rest[text[n:]]
					if !ok {
						after = encode(text[n:])
						rest[text[n:]] = after
					}
					if len(after) > 0 {
						list = append(list, append([]int32{id}, after...))
					}
				}
			}
		}
	}
	return list
}
