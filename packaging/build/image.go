package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// descriptor names a blob of an image (https://github.com/opencontainers/image-spec/blob/main/descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// path is the name of the blob's file in an image layout.
func (d descriptor) path() string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

// layout collects the blobs of an image in the form of an OCI image layout.
type layout struct{ entries []entry }

func (l *layout) blob(mediaType string, content []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(content)), Size: len(content)}
	l.entries = append(l.entries, entry{name: d.path(), content: content, mode: 0o644})
	return d
}

func (l *layout) json(mediaType string, v any) (descriptor, error) {
	text, err := json.Marshal(v)
	return l.blob(mediaType, text), err
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// nobody owns the folders of the image that the program writes to, and runs it.
const nobody = 65532

// authorities returns the certificate authorities that Mozilla trusts without further conditions, where programs on
// Linux look for them: those of the building machine would differ.
func authorities() entry {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil { // which a file of certificates cannot express
			continue
		}
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
	}
	return entry{name: "etc/ssl/certs/ca-certificates.crt", content: b.Bytes(), mode: 0o644}
}

// image makes an image for each Linux, as the stage lazuli of the Dockerfile describes it, and an index of them, in one
// file. Besides the programs the image has certificate authorities, and folders for data and for temporary files.
func (r *release) image(_ context.Context, chosen []platform) error {
	labels := map[string]string{
		"org.opencontainers.image.title":       "lazuli",
		"org.opencontainers.image.description": "Azure-compatible tables, queues, blobs and workers in one program",
		"org.opencontainers.image.version":     r.version, "org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created": r.date.Format(time.RFC3339), "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source": "https://github.com/lazuli-storage/lazuli",
	}
	l := &layout{entries: []entry{{name: "oci-layout", content: []byte(`{"imageLayoutVersion":"1.0.0"}`), mode: 0o644}}}
	var manifests []descriptor
	var older []map[string]any // as Docker loads images without its containerd store; a name stands for one platform there
	for _, p := range chosen {
		if p.os != "linux" {
			continue
		}
		program, err1 := os.ReadFile(r.binary(p, server))
		searching, err2 := os.ReadFile(r.binary(p, search))
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		files := []entry{{name: "data/", mode: fs.ModeDir | 0o755, owner: nobody},
			{name: "tmp/", mode: fs.ModeDir | fs.ModeSticky | 0o777, owner: nobody}, // the mode of a tmpfs there, too
			authorities(), {name: server, content: program, mode: 0o755},
			{name: search, content: searching, mode: 0o755}}
		// Modules of Testcontainers start Azurite's programs by their names.
		for _, name := range []string{"lazuli", "azurite", "azurite-blob", "azurite-queue", "azurite-table"} {
			files = append(files, entry{name: "usr/local/bin/" + name, link: "/lazuli", mode: 0o777})
		}
		layer, err := tarOf(r.date, files)
		if err != nil {
			return err
		}
		packed, err := gzipped(layer)
		if err != nil {
			return err
		}
		where := map[string]string{"os": p.os, "architecture": p.arch}
		second := int(time.Second)
		config, err := l.json(configType,
			map[string]any{"os": p.os, "architecture": p.arch, "created": r.date.Format(time.RFC3339),
				"config": map[string]any{
					"User": fmt.Sprintf("%d:%[1]d", nobody), "Entrypoint": []string{"/lazuli"}, "Labels": labels,
					"Env": []string{"LAZULI_HOST=0.0.0.0", "LAZULI_ADMIN_HOST=0.0.0.0", "LAZULI_LOCATION=/data"},
					"ExposedPorts": map[string]any{"10000/tcp": struct{}{}, "10001/tcp": struct{}{}, "10002/tcp": struct{}{},
						"10003/tcp": struct{}{}},
					"Volumes": map[string]any{"/data": struct{}{}},
					"Healthcheck": map[string]any{"Test": []string{"CMD", "/lazuli", "health"}, "Interval": 5 * second,
						"Timeout":     5 * second,
						"StartPeriod": 30 * second},
				},
				"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
				"history": []any{map[string]any{"created": r.date.Format(time.RFC3339), "created_by": "packaging/release"}}})
		if err != nil {
			return err
		}
		content := l.blob(layerType, packed)
		manifest, err := l.json(manifestType,
			map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "annotations": labels,
				"layers": []descriptor{content}})
		if err != nil {
			return err
		}
		older = append(older, map[string]any{"Config": config.path(), "Layers": []string{content.path()},
			"RepoTags": []string{"lazuli:" + r.version + "-" + p.arch}})
		manifest.Platform = where
		manifests = append(manifests, manifest)
	}
	if len(manifests) == 0 {
		return nil
	}
	index, err := l.json(indexType,
		map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests, "annotations": labels})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name": "docker.io/library/lazuli:" + r.version}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{index}})
	if err != nil {
		return err
	}
	list, err := json.Marshal(older)
	if err != nil {
		return err
	}
	b, err := tarOf(r.date, append(l.entries, entry{name: "index.json", content: top, mode: 0o644},
		entry{name: "manifest.json", content: list, mode: 0o644}))
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("lazuli_%s_image.tar", r.version), b, 0o644)
}
