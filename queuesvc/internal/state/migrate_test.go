package state

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// format1 unpacks the queues of a process of format 1 that was killed: JetStream kept one record of a slot, and records had no checksums.
func format1(t *testing.T) string {
	t.Helper()
	f, err := os.Open("testdata/format1.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What a process of format 1 left is taken over: the messages with their state, and nothing that was cleared or deleted.
func TestQueuesOfFormat1AreTakenOver(t *testing.T) {
	t.Parallel()
	dir := format1(t)
	later := epoch.Add(time.Minute)
	bodies := func(s *Store, name string) string {
		t.Helper()
		list, err := find(t, s, name).PeekAll(ctx, 100, later)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range list {
			all = append(all, string(m.Body))
		}
		return strings.Join(all, " ")
	}
	for start := range 3 { // the second and third time it is as this program makes it
		n := startNATS(t, natsserver.Config{Dir: dir})
		s := open(t, n)
		for name, want := range map[string]string{
			"plain": "plain-1 plain-2 plain-0", "worked": "worked-48 worked-49", "cleared": "cleared-0 cleared-1", "empty": "",
		} {
			if got := bodies(s, name); got != want {
				t.Errorf("start %d: queue %s has %q, want %q", start, name, got, want)
			}
		}
		_, err := s.Queue(ctx, "acct", "deleted")
		wantErr(t, "a queue that was deleted", err, ErrQueueNotFound)
		if string(s.Properties("acct")) != "p" {
			t.Errorf("the properties are %q", s.Properties("acct"))
		}
		if _, list := problems(t, n); list != nil {
			t.Errorf("start %d: the check finds %v", start, list)
		}
		for _, name := range []string{catalogStream, find(t, s, "worked").stream} {
			stream, err := s.js.Stream(ctx, name)
			if err != nil || stream.CachedInfo().Config.MaxMsgsPerSubject != -1 {
				t.Errorf("stream %s: %v, %v; want no limit on the records of a subject", name, stream.CachedInfo().Config, err)
			}
		}
		if start < 2 {
			next := t.TempDir()
			if err := os.CopyFS(next, os.DirFS(dir)); err != nil { // killed
				t.Fatal(err)
			}
			s.Close()
			n.Close()
			dir = next
			continue
		}
		m := getOne(t, find(t, s, "cleared"), later)
		if m == nil || string(m.Body) != "cleared-0" {
			t.Fatalf("got %v", m)
		}
		if err := find(t, s, "cleared").Delete(ctx, m.ID, m.Receipt, later); err != nil {
			t.Error(err)
		}
	}
}
