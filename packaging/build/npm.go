package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// npm makes the packages lazuli and lazuli-search, and a package with the program for each platform, on which they
// depend optionally: npm installs the one for its machine.
func (r *release) npm(_ context.Context, chosen []platform) error {
	source := filepath.Join(r.root, "packaging/npm")
	text, err := os.ReadFile(filepath.Join(source, "package.json"))
	if err != nil {
		return err
	}
	var main map[string]any
	if err := json.Unmarshal(text, &main); err != nil {
		return err
	}
	// Optional dependencies: npm installs the one whose os and cpu fit, and skips the others without an error.
	optional, searching := map[string]string{}, map[string]string{}
	for _, p := range chosen {
		name := fmt.Sprintf("@lazuli-storage/%s-%s", p.npmOS, p.npmArch)
		if err := r.npmPlatform(p, server, name, main["repository"]); err != nil {
			return err
		}
		optional[name] = r.version
		name = fmt.Sprintf("@lazuli-storage/search-%s-%s", p.npmOS, p.npmArch)
		if err := r.npmPlatform(p, search, name, main["repository"]); err != nil {
			return err
		}
		searching[name] = r.version
	}
	if err := r.npmPackage(search, map[string]any{"name": search, "version": r.version,
		"description": "The full-text index of lazuli's role search-index, beside the package lazuli",
		"license":     "Apache-2.0", "repository": main["repository"], "optionalDependencies": searching}); err != nil {
		return err
	}
	main["version"], main["optionalDependencies"] = r.version, optional
	main["peerDependencies"] = map[string]string{search: r.version}
	main["peerDependenciesMeta"] = map[string]any{search: map[string]any{"optional": true}}
	var files []entry
	for _, name := range []string{"bin.js", "index.js", "index.d.ts"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if name == "bin.js" {
			mode = 0o755
		}
		files = append(files, entry{name: name, content: content, mode: mode})
	}
	return r.npmPackage("lazuli", main, files...)
}

// npmPlatform makes the package of a program for a platform.
func (r *release) npmPlatform(p platform, program, name string, repository any) error {
	content, err := os.ReadFile(r.binary(p, program))
	if err != nil {
		return err
	}
	return r.npmPackage(name, map[string]any{"name": name, "version": r.version,
		"description": fmt.Sprintf("The program of the package %s for %v", program, p), "license": "Apache-2.0",
		"repository": repository, "os": []string{p.npmOS}, "cpu": []string{p.npmArch}},
		entry{name: p.program(program), content: content, mode: 0o755})
}

// npmPackage writes a package as `npm pack` does, and names the file as it does.
func (r *release) npmPackage(name string, description map[string]any, files ...entry) error {
	text, err := json.MarshalIndent(description, "", "  ")
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	readme := fmt.Sprintf("# %s\n\n%s. See https://github.com/lazuli-storage/lazuli.\n", name, description["description"])
	entries := []entry{{name: "package.json", content: append(text, '\n'), mode: 0o644},
		{name: "LICENSE", content: licence, mode: 0o644}, {name: "README.md", content: []byte(readme), mode: 0o644}}
	entries = append(entries, files...)
	for i := range entries {
		entries[i].name = "package/" + entries[i].name
	}
	b, err := tarGz(r.date, entries)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("%s-%s.tgz", strings.ReplaceAll(strings.TrimPrefix(name, "@"), "/", "-"), r.version), b,
		0o644)
}
