module github.com/specgo/spec/lab

go 1.26.0

require (
	github.com/klauspost/cpuid/v2 v2.4.2
	github.com/specgo/spec v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/specgo/spec => ../
