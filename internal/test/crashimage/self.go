package crashimage

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordedVariable has the folder in a process that [OfTest] records.
const recordedVariable = "LAZULI_TEST_RECORDED"

// prepared is what [Prepared] prints.
const prepared = "crashimage: prepared"

// OfTest records what body does below an empty folder. It runs the test once more in a process of its own, of which
// only body counts: there OfTest does not return. The test is skipped where nothing can be recorded.
func OfTest(t *testing.T, body func(dir string)) *Recording {
	t.Helper()
	if dir := os.Getenv(recordedVariable); dir != "" {
		body(dir)
		t.SkipNow()
	}
	if err := Available(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	// The names of a subtest and of those that it is in are patterns of their own.
	cmd := exec.Command(os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd.Env = append(os.Environ(), recordedVariable+"="+dir)
	r, err := Record(dir, filepath.Join(t.TempDir(), "trace"), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Prepared makes durable what the body of [OfTest] has written so far. Only what follows is looked at.
func Prepared(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(prepared)
}

// Durable fails the test if a power failure at the end takes something: if files below the paths, all without a path,
// are not what they are without it. except are base names of files that may differ.
func (r *Recording) Durable(t *testing.T, except []string, below ...string) {
	t.Helper()
	if len(below) == 0 {
		below = []string{""}
	}
	var last *Disk
	if err := r.Replay(func(_ int, _ Event, d *Disk) error { last = d; return nil }); err != nil {
		t.Fatal(err)
	}
	if last == nil || len(last.image(Killed, below, except)) == 0 {
		t.Fatalf("nothing was written below %q", below)
	}
	for _, lost := range last.Lost(except, below...) {
		t.Error(lost)
	}
}

// Lost describes what a power failure takes, or brings back, at this moment.
func (d *Disk) Lost(except []string, below ...string) (lost []string) {
	want := d.image(Killed, below, except)
	for _, v := range []Variant{Synced, Names, Reappeared} {
		got := d.image(v, below, except)
		for name, p := range want {
			if q, ok := got[name]; !ok || !bytes.Equal(p, q) {
				lost = append(lost, fmt.Sprintf("after a power failure (%v) on the disk: %v, %s, with %d of %d bytes", v, ok,
					name, len(q), len(p)))
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				lost = append(lost, fmt.Sprintf("after a power failure (%v) %s is there again", v, name))
			}
		}
	}
	slices.Sort(lost)
	return lost
}

// image returns the files of an image below paths.
func (d *Disk) image(v Variant, below, except []string) map[string][]byte {
	files := map[string][]byte{}
	for _, path := range below {
		for name, p := range d.Files(path, v, 1) {
			if !slices.Contains(except, filepath.Base(name)) {
				files[name] = p
			}
		}
	}
	return files
}

// Order fails the test unless these operations occur in this order, others in between. Each is a [Kind] and a pattern
// of [filepath.Match] for the path; a rename has that of the old name.
func (r *Recording) Order(t *testing.T, wanted ...string) {
	t.Helper()
	rest := r.Events
	for i, e := range rest {
		if e.Kind == Print && bytes.Contains(e.Data, []byte(prepared)) {
			rest = r.Events[i+1:]
		}
	}
	all := rest
	for _, want := range wanted {
		kind, pattern, _ := strings.Cut(want, " ")
		at := slices.IndexFunc(rest, func(e Event) bool {
			matched, err := filepath.Match(pattern, e.Path)
			if err != nil {
				t.Fatal(err)
			}
			return matched && e.Kind.String() == kind
		})
		if at < 0 {
			var text strings.Builder
			for _, e := range all {
				if e.Kind != Print {
					fmt.Fprintf(&text, "\n%v %s", e.Kind, e.Path)
				}
			}
			t.Fatalf("%q is not in its place of %q; all operations:%s", want, wanted, &text)
		}
		rest = rest[at+1:]
	}
}
