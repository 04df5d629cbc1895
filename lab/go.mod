module github.com/specgo/spec/lab

go 1.26.0

require (
	github.com/dlclark/regexp2 v1.11.5
	github.com/klauspost/cpuid/v2 v2.4.2
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/specgo/spec v0.0.0
)

require (
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)

replace github.com/specgo/spec => ../
