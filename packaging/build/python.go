package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// python makes wheels for each platform: the module lazuli with its program among the scripts, which pip and uv put on
// the path, and the program lazuli-search, which pip puts into the same folder.
// https://packaging.python.org/en/latest/specifications/binary-distribution-format/
func (r *release) python(_ context.Context, chosen []platform) error {
	for _, p := range chosen {
		var module []entry
		for _, name := range []string{"__init__.py", "pytest_plugin.py"} {
			content, err := os.ReadFile(filepath.Join(r.root, "packaging/python/lazuli", name))
			if err != nil {
				return err
			}
			module = append(module, entry{name: "lazuli/" + name, content: content, mode: 0o644})
		}
		points := entry{name: "entry_points.txt", content: []byte("[pytest11]\nlazuli = lazuli.pytest_plugin\n"),
			mode: 0o644}
		extra := fmt.Sprintf("Provides-Extra: search\nRequires-Dist: %s==%s; extra == 'search'\n", search, r.version)
		if err := r.wheel(p, server, "Azure-compatible tables, queues and blobs in one program, for development and tests",
			extra, module, points); err != nil {
			return err
		}
		if err := r.wheel(p, search, "The full-text index of lazuli's role search-index", "", nil); err != nil {
			return err
		}
	}
	return nil
}

// wheel writes the wheel of a program for a platform. files are besides it, info in the folder of the metadata.
func (r *release) wheel(p platform, name, summary, extra string, files []entry, info ...entry) error {
	program, err := os.ReadFile(r.binary(p, name))
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	base := strings.ReplaceAll(name, "-", "_") + "-" + r.version
	folder := base + ".dist-info/"
	metadata := fmt.Sprintf("Metadata-Version: 2.4\nName: %s\nVersion: %s\nSummary: %s\n"+
		"License-Expression: Apache-2.0\nLicense-File: LICENSE\nProject-URL: Source, "+
		"https://github.com/lazuli-storage/lazuli\nRequires-Python: >=3.10\n%s", name, r.version, summary, extra)
	wheel := "Wheel-Version: 1.0\nGenerator: lazuli\nRoot-Is-Purelib: false\n"
	for _, tag := range p.wheel {
		wheel += "Tag: py3-none-" + tag + "\n"
	}
	entries := append(files,
		entry{name: base + ".data/scripts/" + p.program(name), content: program, mode: 0o755},
		entry{name: folder + "licenses/LICENSE", content: licence, mode: 0o644},
		entry{name: folder + "METADATA", content: []byte(metadata), mode: 0o644},
		entry{name: folder + "WHEEL", content: []byte(wheel), mode: 0o644})
	for _, e := range info {
		e.name = folder + e.name
		entries = append(entries, e)
	}
	record := ""
	for _, e := range entries {
		hash := sha256.Sum256(e.content)
		record += fmt.Sprintf("%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(hash[:]), len(e.content))
	}
	entries = append(entries, entry{name: folder + "RECORD", content: []byte(record + folder + "RECORD,,\n"), mode: 0o644})
	b, err := zipOf(r.date, entries)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("%s-py3-none-%s.whl", base, strings.Join(p.wheel, ".")), b, 0o644)
}
