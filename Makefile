# What .ci/run does, in the pieces one wants at hand.

.PHONY: build test short vet fma ci dist clean

build:
	CGO_ENABLED=0 go build -trimpath ./cmd/spec

test:
	go test ./... ./testdata

short:
	go test -short ./... ./testdata

vet:
	gofmt -l .
	go vet ./... ./testdata

# No fused multiply-add where the compiler may not put one.
fma:
	bash .ci/fused

ci:
	bash .ci/run

# A release: TAG=v1.2.3 refuses another checkout; CERTIFICATES=FILE goes into the image.
dist:
	rm -rf dist
	go run ./.ci/dist -o dist -tag "$(TAG)" -certificates "$(CERTIFICATES)"

clean:
	rm -rf spec dist
