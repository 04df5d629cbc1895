package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// adapterFlags are the adapters (LoRA) of a model.
type adapterFlags struct {
	adapters []library.AdapterFile
	unused   bool // they are loaded, and requests begin with a scale of 0
}

// rows are their flags.
func (a *adapterFlags) rows() []flag {
	scaled := valueFlag("--lora-scaled", "FILE:SCALE[,...]",
		"adapters with scales other than 1; also as two arguments, FILE SCALE; may be repeated", a.addScaled)
	scaled.second = func(v string) bool { _, err := scaleOf(v); return err == nil }
	return []flag{a.loraRow(), scaled}
}

// servedRows are their flags for a server, whose requests choose scales.
func (a *adapterFlags) servedRows() []flag {
	return append(a.rows(), switchFlag("--lora-init-without-apply", &a.unused, true,
		"load adapters with a scale of 0, until a request or /lora-adapters says otherwise").
		when(func() bool { return len(a.adapters) > 0 }))
}

func (a *adapterFlags) loraRow() flag {
	return valueFlag("--lora", "FILE[,FILE...]",
		"adapters (LoRA) for the model, GGUF files; may be repeated, they are added in order", func(v string) error {
			for name := range strings.SplitSeq(v, ",") {
				if err := a.add(name, 1); err != nil {
					return err
				}
			}
			return nil
		})
}

func (a *adapterFlags) add(name string, scale float32) error {
	if name == "" {
		return errors.New("no name of a file")
	}
	a.adapters = append(a.adapters, library.AdapterFile{Path: name, Scale: scale})
	return nil
}

// addScaled reads FILE:SCALE, several with commas.
func (a *adapterFlags) addScaled(v string) error {
	for part := range strings.SplitSeq(v, ",") {
		at := strings.LastIndex(part, ":")
		if at < 0 {
			return fmt.Errorf("%s: no scale: FILE:SCALE", shown(part))
		}
		scale, err := scaleOf(part[at+1:])
		if err != nil {
			return err
		}
		if err := a.add(part[:at], scale); err != nil {
			return err
		}
	}
	return nil
}

// scaleOf reads a scale.
func scaleOf(v string) (float32, error) {
	x, err := strconv.ParseFloat(v, 32)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%s is not a finite number", shown(v))
	}
	return float32(x), nil
}

// open loads the adapters for a model.
func (a *adapterFlags) open(ctx context.Context, m *engine.Model) (list []engine.ScaledAdapter, err error) {
	for _, f := range a.adapters {
		adapter, err := m.OpenAdapter(ctx, f.Path)
		if err != nil {
			return nil, err
		}
		if a.unused {
			f.Scale = 0
		}
		list = append(list, engine.ScaledAdapter{Adapter: adapter, Scale: f.Scale})
	}
	return list, nil
}

// bytes is the memory of the adapters. What is wrong with a file, loading it says.
func (a *adapterFlags) bytes() (n int64) {
	for _, x := range a.adapters {
		f, err := gguf.OpenFile(x.Path)
		if err != nil {
			continue
		}
		info, err := engine.DescribeAdapter(f)
		if err = cmp.Or(err, f.Close()); err == nil {
			n += info.Bytes
		}
	}
	return n
}

// aboutAdapter says what an adapter is, and how it is used, or what is wrong with it.
func aboutAdapter(f *gguf.File) string {
	const what = "it is not a language model: LoRA adapter"
	info, err := engine.DescribeAdapter(f)
	if err != nil {
		return fmt.Sprintf("%s that cannot be used: %s", what, strings.TrimPrefix(err.Error(), f.Name+": "))
	}
	ranks := make([]string, len(info.Ranks))
	for i, r := range info.Ranks {
		ranks[i] = strconv.Itoa(r)
	}
	return fmt.Sprintf("%s for %s models, of rank %s, for %d matrices, with alpha %g: %s of memory; --lora gives it to "+
		"its model", what, info.Architecture, strings.Join(ranks, ", "), info.Matrices, info.Alpha, size(info.Bytes))
}
