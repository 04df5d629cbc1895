package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every program that the Dockerfile builds is a command of the module that it is built in, and the image that copies it
// starts it.
func TestDockerfile(t *testing.T) {
	data, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	build := regexp.MustCompile(`(?m)^RUN CGO_ENABLED=0 go build (?:-C (\S+) )?-trimpath -ldflags=-s -o (/\S+) (\S+)$`)
	text := string(data)
	builds := build.FindAllStringSubmatch(text, -1)
	if len(builds) != 2 || strings.Count(text, "\nRUN ") != 2 {
		t.Fatalf("%d of %d commands are known, want 2", len(builds), strings.Count(text, "\nRUN "))
	}
	for _, b := range builds {
		module, program, path := b[1], b[2], b[3]
		list := exec.Command("go", "list", "-f", "{{.Name}}", path)
		list.Dir = filepath.Join("../..", module)
		if out, err := list.Output(); err != nil || strings.TrimSpace(string(out)) != "main" {
			t.Errorf("%s in %q: %q, %v", path, module, out, err)
		}
		copied := regexp.MustCompile(`COPY --from=\S+ ` + program + ` ` + program + `\n`)
		if !copied.MatchString(text) || !strings.Contains(text, `ENTRYPOINT ["`+program+`"]`) {
			t.Errorf("no image has %s and starts it", program)
		}
	}
}
