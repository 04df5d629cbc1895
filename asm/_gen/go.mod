module github.com/specgo/spec/asm/_gen

go 1.26.0
