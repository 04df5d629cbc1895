package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/asm"
	"github.com/specgo/spec/engine"
)

// kernelsRow is --kernels. Whether the machine has them is known when they are selected. The model is open on each at
// once, so they share the memory.
func kernelsRow(p *[]string, m *modelFlags) flag {
	return valueFlag("--kernels", "NAME,...",
		"kernel sets of this machine, measured in turn: scalar, avx2, avx512 and so on",
		func(v string) error {
			for name := range strings.SplitSeq(v, ",") {
				if name == "" || slices.Contains(*p, name) {
					return fmt.Errorf("%s: an empty name, or one twice", shown(v))
				}
				*p = append(*p, name)
			}
			m.share = len(*p)
			return nil
		}).or("the best one").takes(asm.Names()...)
}

// runtimesOf are the workers of each kernel set.
func runtimesOf(kernels []string, threads int, numa string) (all map[string]*engine.Runtime, err error) {
	all = map[string]*engine.Runtime{}
	for _, k := range kernels {
		rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: max(threads, 0), SIMD: k, NUMA: numa})
		if err != nil {
			for _, rt := range all {
				rt.Close()
			}
			return nil, fmt.Errorf("--kernels %s: %w", shown(k), err)
		}
		all[k] = rt
	}
	return all, nil
}
