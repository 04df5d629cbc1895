module github.com/specgo/spec/lab

go 1.26.0

require github.com/specgo/spec v0.0.0

replace github.com/specgo/spec => ../
