package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/tensor"
)

var versionCommand = command{
	name:  "version",
	does:  "this program's version, and the kernels it selects here",
	about: "Prints the version, the Go release, the system, and the kernels and threads selected on this machine.",
	new:   func() job { return &version{} },
}

type version struct{}

func (version) flags() []group { return nil }

func (version) run(_ context.Context, p *program) error {
	rt, err := new(modelFlags).runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	_, err = fmt.Fprintf(p.stdout, "spec %s, %s %s/%s, %s kernels, %d threads\n",
		results.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, rt.SIMD(), rt.Threads())
	if p.env("SPEC_SIMD") == "" {
		if refused := tensor.TileUnit(); err == nil && refused != nil {
			_, err = fmt.Fprintf(p.stdout, "no amx kernels: %v\n", refused)
		}
	}
	return err
}
