module github.com/specgo/spec/asm/_gen

go 1.26.0

require golang.org/x/arch v0.32.0
