module github.com/specgo/spec/spectest/_example

go 1.26.0

require github.com/specgo/spec v0.0.0

require (
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/specgo/spec => ../../
