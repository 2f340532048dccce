package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// TestCrashImages runs transactions and, at each write, sync, creation and removal of the log, and within each commit
// of bbolt, makes the images that a power failure at that moment may leave: nothing of what was not synced, all of it,
// half of it, or sectors of it by chance. Each image must open with what was acknowledged, or with that and the
// transaction under way.
func TestCrashImages(t *testing.T) {
	t.Parallel()
	dir := check.MemoryDir(t)
	fsys := &faultdisk.FS{}
	recorder, err := fsys.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "db")
	rng := rand.New(rand.NewPCG(2, 4))
	images, moments, enough, transactions := 0, 0, check.Size(100, 200), check.Size(12, 25)
	acknowledged, next := model{}, model{}
	var mu sync.Mutex // checkpoints run in the background
	check := func(what string, file []byte) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		moments++
		for _, loss := range faultdisk.LossesAt(moments) {
			images++
			to := filepath.Join(dir, "images", fmt.Sprint(images))
			if err := recorder.Image(to, loss, rng); err != nil {
				t.Fatal(err)
			}
			if file != nil {
				if err := os.WriteFile(filepath.Join(to, "db"), file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := contentOf(t, to, Options{})
			if !maps.Equal(got, acknowledged) && !maps.Equal(got, next) {
				t.Errorf("%s, loss %d: %d keys, want %d or %d", what, loss, len(got), len(acknowledged), len(next))
			}
			if err := os.RemoveAll(to); err != nil {
				t.Fatal(err)
			}
		}
	}
	main := func() []byte {
		p, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return p[:min(len(p), 1<<20)]
	}
	before := main()
	fsys.SetHook(func(op faultdisk.Op) error {
		if filepath.Base(op.Name) != "db" {
			check(fmt.Sprint("before ", op.Kind, " of ", filepath.Base(op.Name)), main())
		}
		return nil
	})
	db, err := Open(path, Options{Buckets: []Bucket{"a", "b"}, FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	db.memtableSize = 4_000
	db.chunkKeys = 4
	db.log.step = 4 << 10
	// bbolt syncs its pages before it writes the meta page that leads to them: what was not synced are either pages that
	// no meta page leads to, or the meta page.
	commit := func() error {
		after := main()
		mu.Lock()
		images := commitImages(before, after, rng)
		mu.Unlock()
		for _, image := range images {
			check("in a commit of bbolt", image)
		}
		before = after
		return nil
	}
	db.fault = commit // before each commit: images of the one before it
	for i := range transactions {
		mu.Lock()
		next = maps.Clone(acknowledged)
		changes := map[string]string{}
		for range 1 + rng.IntN(4) {
			k := fmt.Sprint(rng.IntN(20))
			changes[k] = string(bytes.Repeat([]byte{byte('a' + i%26)}, rng.IntN(900)))
			next[k] = changes[k]
		}
		mu.Unlock()
		err := db.Update(func(tx *Tx) error {
			for k, v := range changes {
				tx.Put("a", []byte(k), []byte(v))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		acknowledged = next
		mu.Unlock()
		if err := db.awaitCheckpoint(); err != nil {
			t.Fatal(err)
		}
		if err := commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	fsys.SetHook(nil)
	check("after Close", main())
	t.Logf("%d images", images)
	if images < enough {
		t.Errorf("%d images: the test shows nothing", images)
	}
}

// commitImages are states of a file between two commits: the old meta pages with some of the new pages, and the other
// way round.
func commitImages(before, after []byte, rng *rand.Rand) [][]byte {
	const page = 4096
	if len(before) < 2*page || len(after) < len(before) || bytes.Equal(before, after) {
		return nil
	}
	var images [][]byte
	for range 2 {
		image := bytes.Clone(after)
		copy(image, before[:2*page])
		for at := 2 * page; at < len(before); at += page {
			if rng.IntN(2) == 0 {
				copy(image[at:min(at+page, len(image))], before[at:])
			}
		}
		images = append(images, image)
	}
	return images
}
