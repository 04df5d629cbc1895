package grammar

import "math/rand/v2"

// For tests of the package as others use it.
var (
	RandomSchema = func(r *rand.Rand) string { return randomSchema(r, 3) }
	Valid        = valid
)
