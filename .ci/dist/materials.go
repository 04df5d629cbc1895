package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CycloneDX 1.6 (ECMA-424), as far as a release needs it.
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
		Depends    []depends   `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		PURL       string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash     struct{ Alg, Content string }
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	depends struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn,omitempty"`
	}
)

func (h hash) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"alg": h.Alg, "content": h.Content})
}

// materials writes what the programs are made of: the modules that the go command wrote into them, the standard
// library, and the programs themselves.
func (r *release) materials(built []*program) error {
	data, err := materials(built, r.date)
	if err != nil {
		return err
	}
	return r.write("spec_"+r.version+"_sbom.cdx.json", data)
}

func materials(built []*program, date time.Time) ([]byte, error) {
	info := built[0].info
	main := module("application", info.Main.Path, info.Main.Version)
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{Timestamp: date.UTC().Format(time.RFC3339), Component: main}}
	add := func(c component) {
		if !slices.ContainsFunc(b.Components, func(o component) bool { return o.Ref == c.Ref }) {
			b.Components = append(b.Components, c)
		}
	}
	for _, p := range built {
		for _, m := range p.info.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s: %s is replaced", p.target, m.Path)
			}
			c := module("library", m.Path, m.Version)
			c.Properties = []property{{"go:sum", m.Sum}}
			add(c)
		}
		add(module("library", "std", strings.TrimPrefix(p.info.GoVersion, "go")))
	}
	all := depends{Ref: main.Ref}
	for _, c := range b.Components {
		all.On = append(all.On, c.Ref)
	}
	b.Depends = append(b.Depends, all)
	for _, p := range built {
		add(component{Type: "file", Ref: "file:" + p.String(), Name: "spec " + p.String(), Version: info.Main.Version,
			Hashes:     []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(p.data))}},
			Properties: []property{{"vcs:revision", p.setting("vcs.revision")}}})
	}
	return json.MarshalIndent(b, "", "  ")
}

func module(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
