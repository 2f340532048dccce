package blob

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// TestCrashImages writes blobs, blocks and appends whose content becomes durable with its transaction. At each
// write, sync, creation, rename and removal of the extents and of the log, it makes the images that a power failure may
// leave. Each must be without a finding and have what was acknowledged, before and after the service was opened.
func TestCrashImages(t *testing.T) {
	t.Parallel()
	dir, scratch := t.TempDir(), check.MemoryDir(t)
	fsys := &faultdisk.FS{}
	recorder, err := fsys.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	scopes, err := encryption.OpenScopes("", func(string) []string { return nil })
	if err != nil {
		t.Fatal(err)
	}
	open := func(dir string, fsys *faultdisk.FS) (*Store, error) {
		c := Config{Path: filepath.Join(dir, "blobs.db"), Extents: dir, Scopes: scopes}
		if fsys != nil {
			c.FS = fsys
		}
		return Open(c)
	}
	rng := rand.New(rand.NewPCG(7, 9))
	var mu sync.Mutex // guards what follows: extents are also finished in the background
	wanted, images, moments := map[string]string{}, 0, 0
	check := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		file, missing := os.ReadFile(filepath.Join(dir, "blobs.db"))
		moments++
		for _, loss := range faultdisk.LossesAt(moments) {
			images++
			what := fmt.Sprintf("%s, loss %d", what, loss)
			to := filepath.Join(scratch, fmt.Sprint(images))
			if err := recorder.Image(to, loss, rng); err != nil {
				t.Fatal(err)
			}
			if missing == nil {
				if err := os.WriteFile(filepath.Join(to, "blobs.db"), file[:min(len(file), 1<<20)], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := offline.Check(filepath.Join(to, "blobs.db"), to,
				offline.CheckOptions{Report: func(err error) { t.Errorf("%s: check: %v", what, err) }}); err != nil {
				t.Errorf("%s: check: %v", what, err)
			}
			s, err := open(to, nil)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			r := &rig{t: t, s: s, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
			if _, err := s.Maintenance.Audit(func(err error) { t.Errorf("%s: %v", what, err) }); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			for name, text := range wanted {
				if got, err := r.read(name, record.Address{}); err != nil || !strings.HasPrefix(got, text) {
					t.Errorf("%s: %s has %d bytes, %v; want %d", what, name, len(got), err, len(text))
				}
			}
			if err := errors.Join(s.Close(), os.RemoveAll(to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := open(dir, fsys)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, s: s, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	if _, err := s.Containers.Create(&ContainerWrite{Account: "a", Container: "box", Now: r.now},
		record.Container{}); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(func(op faultdisk.Op) error {
		check(fmt.Sprint("before ", op.Kind, " of ", filepath.Base(op.Name)))
		return nil
	})
	acknowledge := func(name, text string) {
		mu.Lock()
		defer mu.Unlock()
		wanted[name] = text
	}
	for i, n := range []int{1, 100, replica.MaxLogged, replica.MaxLogged + 1, 4096} {
		name, text := fmt.Sprint("blob", i), strings.Repeat(string(rune('a'+i)), n)
		r.put(name, text)
		acknowledge(name, text)
	}
	r.crashBlocks(acknowledge)
	r.crashAppends(acknowledge)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	check("after Close")
	t.Logf("%d images", images)
	if images < 100 {
		t.Errorf("%d images: the test shows nothing", images)
	}
}

func (r *rig) crashBlocks(acknowledge func(name, text string)) {
	r.t.Helper()
	for _, id := range []string{"one", "two"} {
		up := r.upload(id)
		if _, err := r.s.BlockBlobs.StageBlock(r.write("blocks"), id, up); err != nil {
			r.t.Fatal(err)
		}
		up.Close()
	}
	refs := []BlockRef{{ID: "one", Source: FromLatest}, {ID: "two", Source: FromLatest}}
	if _, err := r.s.BlockBlobs.PutBlockList(r.write("blocks"), &record.Blob{Kind: record.BlockBlob}, refs); err != nil {
		r.t.Fatal(err)
	}
	acknowledge("blocks", "onetwo")
}

func (r *rig) crashAppends(acknowledge func(name, text string)) {
	r.t.Helper()
	if _, err := r.s.Blobs.Put(r.write("log"), &record.Blob{Kind: record.AppendBlob}, nil); err != nil {
		r.t.Fatal(err)
	}
	text := ""
	for i := range 3 {
		line := fmt.Sprint("line ", i)
		up, err := content.Store(r.s.Extents(), strings.NewReader(line), int64(len(line)), content.Options{})
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.s.AppendBlobs.Append(r.write("log"), AppendConditions{}, up); err != nil {
			r.t.Fatal(err)
		}
		up.Close()
		text += line
		acknowledge("log", text)
	}
}
