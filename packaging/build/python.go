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

// python makes a wheel for each platform: the module lazuli, and the program among the scripts, which pip and uv put on
// the path. https://packaging.python.org/en/latest/specifications/binary-distribution-format/
func (r *release) python(_ context.Context, chosen []platform) error {
	for _, p := range chosen {
		var entries []entry
		for _, name := range []string{"__init__.py", "pytest_plugin.py"} {
			content, err := os.ReadFile(filepath.Join(r.root, "packaging/python/lazuli", name))
			if err != nil {
				return err
			}
			entries = append(entries, entry{name: "lazuli/" + name, content: content, mode: 0o644})
		}
		program, err := os.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
		if err != nil {
			return err
		}
		base := "lazuli-" + r.version
		info := base + ".dist-info/"
		metadata := fmt.Sprintf("Metadata-Version: 2.4\nName: lazuli\nVersion: %s\nSummary: Azure-compatible tables, "+
			"queues and blobs in one program, for development and tests\n"+
			"License-Expression: Apache-2.0\nLicense-File: LICENSE\nProject-URL: Source, "+
			"https://github.com/lazuli-storage/lazuli\nRequires-Python: >=3.10\n", r.version)
		wheel := "Wheel-Version: 1.0\nGenerator: lazuli\nRoot-Is-Purelib: false\n"
		for _, tag := range p.wheel {
			wheel += "Tag: py3-none-" + tag + "\n"
		}
		entries = append(entries, entry{name: base + ".data/scripts/" + p.program(), content: program, mode: 0o755},
			entry{name: info + "licenses/LICENSE", content: licence, mode: 0o644},
			entry{name: info + "METADATA", content: []byte(metadata), mode: 0o644},
			entry{name: info + "WHEEL", content: []byte(wheel), mode: 0o644},
			entry{name: info + "entry_points.txt", content: []byte("[pytest11]\nlazuli = lazuli.pytest_plugin\n"), mode: 0o644})
		record := ""
		for _, e := range entries {
			hash := sha256.Sum256(e.content)
			record += fmt.Sprintf("%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(hash[:]), len(e.content))
		}
		entries = append(entries, entry{name: info + "RECORD", content: []byte(record + info + "RECORD,,\n"), mode: 0o644})
		b, err := zipOf(r.date, entries)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.path("%s-py3-none-%s.whl", base, strings.Join(p.wheel, ".")), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
