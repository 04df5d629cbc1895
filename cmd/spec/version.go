package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

var versionCommand = command{
	name:  "version",
	does:  "this program's version, and the kernels it chose here",
	about: "Prints the version, the Go release, the system, and the kernels and threads chosen on this machine.",
	setup: func() ([]flag, func(context.Context, *program) error) {
		var m modelFlags
		return nil, func(_ context.Context, p *program) error {
			version := "(devel)"
			if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
				version = info.Main.Version
			}
			rt, err := m.runtime(p)
			if err != nil {
				return err
			}
			defer rt.Close()
			_, err = fmt.Fprintf(p.stdout, "spec %s, %s %s/%s, %s kernels, %d threads\n",
				version, runtime.Version(), runtime.GOOS, runtime.GOARCH, rt.SIMD(), rt.Threads())
			return err
		}
	},
}
