package engine

import "github.com/specgo/spec/engine/sampling"

// Sampling is [sampling.Options] under the name that it had before it moved, for one release.
type Sampling = sampling.Options
