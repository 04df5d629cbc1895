package serve

import (
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// pageFiles are the page: served as they are, without a build step.
//
//go:embed page
var pageFiles embed.FS

// pagePolicy is the page's Content-Security-Policy: scripts and styles are its own files, requests go to this server,
// and nothing makes markup or script of text.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' " +
	"data:; font-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageTypes are content types that do not depend on the machine's tables.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}

// pageFile is the file of a path, "" if it is not the page's.
func pageFile(p string) string {
	name := strings.TrimPrefix(p, "/")
	if name == "" {
		name = "index.html"
	}
	if !fs.ValidPath(name) || strings.Contains(name, "/") {
		return ""
	}
	if info, err := fs.Stat(pageFiles, "page/"+name); err != nil || info.IsDir() {
		return ""
	}
	return name
}

// isPage reports whether a path is one of the page's files, which need no key: they hold no secret.
func (s *Server) isPage(p string) bool { return p == "/" || s.o.Page && pageFile(p) != "" }

// pageRoutes serve the page at /, or a line of text where there is no page, or with Options.Ollama. HEAD / is how
// Ollama's clients ask whether a server runs.
func (s *Server) pageRoutes(mux *http.ServeMux) {
	line := "spec is running\n"
	if s.o.Ollama {
		line = "Ollama is running" // which its clients look for
	}
	if !s.o.Page || s.o.Ollama {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Write([]byte(line))
		})
	}
	if !s.o.Page {
		return
	}
	entries, err := pageFiles.ReadDir("page")
	if err != nil {
		return
	}
	serve := func(w http.ResponseWriter, r *http.Request) {
		name := pageFile(r.URL.Path)
		data, err := pageFiles.ReadFile("page/" + name)
		if name == "" || err != nil {
			s.fail(w, recordOf(r.Context()), openAIError,
				&Error{Status: http.StatusNotFound, Type: typeNotFound, Message: "no such file"})
			return
		}
		h := w.Header()
		kind := pageTypes[path.Ext(name)]
		if kind == "" {
			kind = mime.TypeByExtension(path.Ext(name))
		}
		h.Set("Content-Type", kind)
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		w.Write(data)
	}
	if !s.o.Ollama {
		mux.HandleFunc("GET /{$}", serve)
	}
	for _, e := range entries {
		if !e.IsDir() {
			mux.HandleFunc("GET /"+e.Name(), serve)
		}
	}
}
