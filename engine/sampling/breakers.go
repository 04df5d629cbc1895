package sampling

// longestBreaker is how many bytes of a breaker count: repetitions are searched token by token.
const longestBreaker = 40

// Breakers are the sequences of tokens for [DRY.Breakers] in which each of texts can stand: a token that contains it,
// or one that ends with its beginning, followed by the rest of it as encode writes it. piece is a token's text. It
// takes time linear in the texts of the vocabulary, and in texts for each place where one of them may begin.
func Breakers(vocab int, piece func(id int32) string, encode func(text string) []int32, texts []string) [][]int32 {
	var list [][]int32
	var begins [256][]string // by their first byte
	for _, text := range texts {
		if text = text[:min(len(text), longestBreaker)]; text != "" {
			begins[text[0]] = append(begins[text[0]], text)
		}
	}
	rest := map[string][]int32{}
	whole := map[string]int32{} // texts that a token contains, the last one that does
	for id := range int32(vocab) {
		s := piece(id)
		for i := range len(s) {
			for _, text := range begins[s[i]] {
				n := min(len(text), len(s)-i)
				if holder, ok := whole[text]; ok && holder == id || s[i:i+n] != text[:n] {
					continue
				}
				if n == len(text) {
					whole[text] = id
					list = append(list, []int32{id})
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
	return list
}
