package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name    string
	content []byte
	mode    fs.FileMode // 0o755 or 0o644; with fs.ModeDir a folder
	owner   int         // user and group
	link    string      // what a symbolic link points to; in tar files only
}

// permissions are the bits of a mode in a tar header.
func permissions(mode fs.FileMode) int64 {
	bits := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// tarOf returns a tar file with the entries in their order.
func tarOf(date time.Time, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: permissions(e.mode), Size: int64(len(e.content)), ModTime: date,
			Typeflag: tar.TypeReg, Format: tar.FormatPAX, Uid: e.owner, Gid: e.owner}
		switch {
		case e.mode.IsDir():
			h.Typeflag = tar.TypeDir
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// gzipped compresses b. The header has neither name nor time.
func gzipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func tarGz(date time.Time, entries []entry) ([]byte, error) {
	b, err := tarOf(date, entries)
	if err != nil {
		return nil, err
	}
	return gzipped(b)
}

// zipOf returns a zip file with the entries in their order.
func zipOf(date time.Time, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		h.SetMode(e.mode)
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// archives makes a tar file, or for Windows a zip file, of each program with its licence.
func (r *release) archives(_ context.Context, chosen []platform) error {
	for _, p := range chosen {
		for _, name := range []string{server, search} {
			if err := r.archive(p, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) archive(p platform, name string) error {
	base := fmt.Sprintf("%s_%s_%s_%s", name, r.version, p.os, p.arch)
	var entries []entry
	for _, f := range []struct {
		name, path string
		mode       fs.FileMode
	}{{p.program(name), r.binary(p, name), 0o755}, {"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644},
		{"README.md", filepath.Join(r.root, "README.md"), 0o644}} {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: base + "/" + f.name, content: content, mode: f.mode})
	}
	pack, ending := tarGz, "tar.gz"
	if p.os == "windows" {
		pack, ending = zipOf, "zip"
	}
	b, err := pack(r.date, entries)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("%s.%s", base, ending), b, 0o644)
}

// chart makes the archive of the Helm chart, with the version of the release.
func (r *release) chart(context.Context, []platform) error {
	folder := filepath.Join(r.root, "packaging/helm/lazuli")
	var entries []entry
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(filepath.Dir(folder), path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if name == filepath.Join("lazuli", "Chart.yaml") {
			content = bytes.ReplaceAll(content, []byte("0.0.0"), []byte(r.version))
		}
		entries = append(entries, entry{name: filepath.ToSlash(name), content: content, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	b, err := tarGz(r.date, entries)
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("lazuli-chart-%s.tgz", r.version), b, 0o644)
}

// checksums writes the SHA-256 of every file, in the form of sha256sum.
func (r *release) checksums() error {
	var lines []string
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), filepath.ToSlash(name)))
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(r.path("SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
