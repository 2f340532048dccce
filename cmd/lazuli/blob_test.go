package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/storageverb"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

func TestBlobVerbs(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	dir := t.TempDir()
	source, target := filepath.Join(dir, "cat.json"), filepath.Join(dir, "copy.json")
	if err := os.WriteFile(source, []byte(`{"name":"cat"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	runBlobVerbs(t, []blobVerb{
		{"ls", "", "", ""},
		{"put|" + source + "|photos/2026/", "", "", "ContainerNotFound"},
		{"put|" + source + "|photos/2026/|--create", "", "", ""},
		{"put|-|photos/dog.txt", "a dog", "", ""},
		{"put|-|photos/dog.txt|--no-overwrite", "another", "", "the blob exists"},
		{"put|-|photos/new.txt|--no-overwrite", "new", "", ""},
		{"get|photos/new.txt|-", "", "new", ""},
		{"ls", "", "  photos\n", ""},
		{"ls|photos", "", "  2026/\n", ""},
		{"ls|photos", "", "Hot   dog.txt\n", ""},
		{"ls|photos/2026/", "", "14  ", ""},
		{"ls|-r|photos", "", "Hot   2026/cat.json\n", ""},
		{"stat|photos/2026/cat.json", "", "content type  application/json\n", ""},
		{"cp|photos/2026/cat.json|photos/copies/", "", "", ""},
		{"get|photos/copies/cat.json|-", "", `{"name":"cat"}`, ""},
		{"cp|photos/absent|photos/copies/", "", "", "BlobNotFound"},
		{"get|photos/2026/cat.json|" + target, "", "", ""},
		{"get|photos/dog.txt|" + target, "", "", "--force overwrites it"},
		{"get|photos/absent|" + target + "|--force", "", "", "BlobNotFound"},
		{"get|photos/dog.txt|-", "", "a dog", ""},
		{"rm|photos/dog.txt", "", "", ""},
		{"rm|photos/dog.txt", "", "", "BlobNotFound"},
		{"rm|photos", "", "", "Delete the container photos with all its blobs? Give --yes"},
		{"rm|-r|-y|photos/2", "", "photos/2: 1 blob deleted\n", ""},
		{"ls|-r|photos", "", "new.txt\n", ""},
	})
	folder, back := filepath.Join(dir, "folder"), filepath.Join(dir, "back")
	for name, text := range map[string]string{"a.txt": "a", "b c.txt": "bc", filepath.Join("below", "d.txt"): "d"} {
		file := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	runBlobVerbs(t, []blobVerb{
		{"put|-r|" + folder + "|many", "", "", "ContainerNotFound"},
		{"put|-r|" + folder + "|many/x/|--create", "", "many/x/: 3 blobs written\n", ""},
		{"put|-r|" + folder + "|many|--no-overwrite", "", "many: 3 blobs written\n", ""},
		{"put|-r|" + folder + "|many|--no-overwrite", "", "", "the blob exists"},
		{"put|-r|" + source + "|many", "", "", "is no folder"},
		{"put|-r|" + filepath.Join(dir, "absent") + "|many", "", "", "absent"},
		{"ls|-r|many/x", "", "Hot   x/below/d.txt\n", ""},
		{"get|many/b c.txt|-", "", "bc", ""},
		{"get|-r|many/x/|" + back, "", "many/x/: 3 files written\n", ""},
		{"get|-r|many/x/|" + back, "", "", "--force overwrites it"},
		{"get|-r|many|" + back + "|--force", "", "many: 6 files written\n", ""},
		{"get|-r|many|-", "", "", "give a folder"},
		{"put|-|many/up//txt", "up", "", ""},
		{"get|-r|many|" + filepath.Join(dir, "new"), "", "", "cannot be the name of a file"},
	})
	for _, name := range []string{"a.txt", "b c.txt", "below/d.txt", "x/below/d.txt"} {
		want, err1 := os.ReadFile(filepath.Join(folder, strings.TrimPrefix(name, "x/")))
		got, err2 := os.ReadFile(filepath.Join(back, name))
		if err := errors.Join(err1, err2); err != nil || string(got) != string(want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != `{"name":"cat"}` {
		t.Errorf("the downloaded file has %q, %v", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".lazuli-*")); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}

// blobVerb is a call of `lazuli blob`: its arguments with | between them, and what it must print, or its error.
type blobVerb struct{ args, stdin, want, wrong string }

func runBlobVerbs(t *testing.T, list []blobVerb) {
	t.Helper()
	for _, tc := range list {
		out, err := runVerb(t, storageverb.NewBlob(), tc.stdin, strings.Split(tc.args, "|")...)
		switch {
		case tc.wrong == "" && err != nil:
			t.Errorf("lazuli blob %s: %v", tc.args, err)
		case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong)):
			t.Errorf("lazuli blob %s: error %v, want one with %q", tc.args, err, tc.wrong)
		case !strings.Contains(out, tc.want):
			t.Errorf("lazuli blob %s prints %q, want it to contain %q", tc.args, out, tc.want)
		}
	}
}
