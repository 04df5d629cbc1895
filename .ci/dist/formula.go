package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// formula writes what Homebrew needs to install the archives. A release without one of its systems has no formula.
func (r *release) formula() error {
	var systems strings.Builder
	for _, system := range [][2]string{{"macos", "darwin"}, {"linux", "linux"}} {
		fmt.Fprintf(&systems, "\n  on_%s do\n", system[0])
		for _, processor := range [][2]string{{"arm", "arm64"}, {"intel", "amd64"}} {
			name := r.archiveName(target{system[1], processor[1]}) + ".tar.gz"
			of, ok := r.sumOf(name)
			if !ok {
				return nil
			}
			fmt.Fprintf(&systems, "    on_%s do\n      url \"%s/releases/download/v%s/%s\"\n      sha256 \"%x\"\n    end\n",
				processor[0], home, r.version, name, of)
		}
		systems.WriteString("  end\n")
	}
	return r.write("spec.rb", fmt.Appendf(nil, `class Spec < Formula
  desc "Language models on the CPU, with speculative decoding"
  homepage "%s"
  version "%s"
  license "MIT"
%s
  def install
    bin.install "spec"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/spec.bash" => "spec"
    zsh_completion.install "completions/_spec"
    fish_completion.install "completions/spec.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/spec version")
  end
end
`, home, r.version, systems.String()))
}

const home = "https://github.com/specgo/spec"

func (r *release) sumOf(name string) ([sha256.Size]byte, bool) {
	for _, s := range r.sums {
		if s.name == name {
			return s.of, true
		}
	}
	return [sha256.Size]byte{}, false
}
