//go:build !purego && !linux

package asm

import "errors"

func requestTiles() error { return errors.New("tiles are used on Linux only") }
