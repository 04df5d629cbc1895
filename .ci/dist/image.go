package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// Media types of the OCI Image Format.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type object = map[string]any

// A layout is a folder of blobs, each named after its SHA-256.
type layout struct{ files []file }

// blob adds one and returns what refers to it.
func (l *layout) blob(kind string, data []byte) object {
	of := fmt.Sprintf("%x", sha256.Sum256(data))
	l.files = append(l.files, file{"blobs/sha256/" + of, 0o644, data})
	return object{"mediaType": kind, "digest": "sha256:" + of, "size": len(data)}
}

func (l *layout) json(kind string, v object) (object, error) {
	data, err := json.Marshal(v) // keys of maps are sorted
	if err != nil {
		return nil, err
	}
	return l.blob(kind, data), nil
}

// image writes the Linux programs as one image of several processors, as an archive of an OCI image layout. As
// docs/deploy/Dockerfile, it holds the program and the certificates, and nothing else.
func (r *release) image(built []*program, authorities []byte) error {
	var l layout
	var manifests []object
	for _, p := range built {
		if p.system != "linux" {
			continue
		}
		m, err := l.manifest(p, authorities, r.date)
		if err != nil {
			return err
		}
		platform := object{"os": p.system, "architecture": p.processor}
		if p.processor == "arm64" {
			platform["variant"] = "v8"
		}
		m["platform"] = platform
		manifests = append(manifests, m)
	}
	if manifests == nil {
		return nil
	}
	index, err := l.json(indexType, object{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests})
	if err != nil {
		return err
	}
	index["annotations"] = object{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(object{"schemaVersion": 2, "mediaType": indexType, "manifests": []object{index}})
	if err != nil {
		return err
	}
	data, err := tarball("", append(l.files, file{"index.json", 0o644, top},
		file{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}), r.date)
	if err != nil {
		return err
	}
	return r.write("spec_"+r.version+"_image.tar", data)
}

// manifest adds the image of one processor.
func (l *layout) manifest(p *program, authorities []byte, date time.Time) (object, error) {
	files := []file{{"spec", 0o755, p.data}}
	if authorities != nil {
		files = append(files, file{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities})
	}
	layer, err := tarball("", files, date)
	if err != nil {
		return nil, err
	}
	packed, err := compressed(layer)
	if err != nil {
		return nil, err
	}
	config, err := l.json(configType, object{
		"os": p.system, "architecture": p.processor, "created": date.UTC().Format(time.RFC3339),
		"config": object{"User": "65532:65532", "ExposedPorts": object{"8080/tcp": object{}},
			"Entrypoint": []string{"/spec"}, "Cmd": []string{"serve"},
			"Labels": object{"org.opencontainers.image.source": home, "org.opencontainers.image.licenses": "MIT",
				"org.opencontainers.image.version": p.info.Main.Version}},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return nil, err
	}
	return l.json(manifestType, object{"schemaVersion": 2, "mediaType": manifestType, "config": config,
		"layers": []object{l.blob(layerType, packed)}})
}
