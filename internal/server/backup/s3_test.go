package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/buckets"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A folder, a container and a bucket are the same place.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (backup.Place, error){
		"folder": func(t *testing.T) (backup.Place, error) {
			return backup.Open(filepath.Join(t.TempDir(), "place"), "")
		},
		"container": func(t *testing.T) (backup.Place, error) {
			s := startServer(t, filepath.Join(t.TempDir(), "elsewhere"))
			return backup.Open(s.URL(wire.Blob, auth.DevelopmentAccount)+"/place", s.ConnectionString())
		},
		"bucket": func(t *testing.T) (backup.Place, error) {
			return backup.Open(buckets.Start(t).Place("some/prefix"), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tryPlace(t, check.Must(open(t))(t))
		})
	}
}

// tryPlace uses an empty place.
func tryPlace(t *testing.T, p backup.Place) {
	t.Helper()
	ctx := t.Context()
	if exists, err := p.Exists(ctx); exists || err != nil {
		t.Errorf("before the first use: %v, %v", exists, err)
	}
	_, unlock, err := p.Lock(ctx)
	check.OK(t, err)
	if _, _, err := p.Lock(ctx); !errors.Is(err, backup.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	check.OK(t, unlock())
	_, unlock, err = p.Lock(ctx)
	check.OK(t, err)
	check.OK(t, unlock())
	if _, err := p.Get(ctx, "a/none"); !errors.Is(err, backup.ErrAbsent) {
		t.Errorf("a file that does not exist: %v", err)
	}
	var want []string
	for i := range 8 {
		name := fmt.Sprintf("a/%d+ä", i)
		check.OK(t, p.Put(ctx, name, []byte(name)))
		want = append(want, name)
	}
	check.OK(t, p.Put(ctx, want[0], nil))
	check.OK(t, p.Put(ctx, "b/x", []byte("x")))
	if got := check.Must(p.Get(ctx, want[0]))(t); len(got) != 0 {
		t.Errorf("a file that was replaced has %q", got)
	}
	var names []string
	check.OK(t, p.List(ctx, "a/", func(name string) error { names = append(names, name); return nil }))
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("listed %q, want %q", names, want)
	}
	var created atomic.Int64
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			switch err := p.Create(ctx, "once", fmt.Append(nil, i)); {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, backup.ErrExists):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if created.Load() != 1 {
		t.Errorf("%d callers created one file", created.Load())
	}
	check.OK(t, p.Remove(ctx, "b/x"))
	check.OK(t, p.Remove(ctx, "b/x"))
	names = nil
	check.OK(t, p.List(ctx, "", func(name string) error { names = append(names, name); return nil }))
	if slices.Sort(names); !slices.Equal(names, append(want, "once")) {
		t.Errorf("listed %q", names)
	}
	if exists, err := p.Exists(ctx); !exists || err != nil {
		t.Errorf("after the first use: %v, %v", exists, err)
	}
}

// Only a bucket that the store does not have is refused: a store that is down may come back.
func TestCheckBucket(t *testing.T) {
	t.Parallel()
	s := buckets.Start(t)
	none := strings.Replace(s.Place("tier"), "//bucket/", "//bucket-2/", 1)
	for place, want := range map[string]error{s.Place("tier"): nil, none: backup.ErrNoBucket, t.TempDir(): nil} {
		if err := backup.CheckBucket(t.Context(), place); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", place, err, want)
		}
	}
	s.Down.Store(true)
	check.OK(t, backup.CheckBucket(t.Context(), none))
}

// Objects of a bucket are those of a folder, and what does not answer is no loss of them.
func TestObjectsOfABucket(t *testing.T) {
	t.Parallel()
	s := buckets.Start(t)
	o := check.Must(backup.OpenObjects(s.Place("tier"), ""))(t)
	tryObjects(t, o)
	s.Down.Store(true)
	p := make([]byte, 1)
	for name, err := range map[string]error{"range": o.Range(t.Context(), "other/c", 0, p),
		"create": o.Create(t.Context(), "other/d", strings.NewReader("d"), 1),
		"list":   o.List(t.Context(), "other/", func(string, int64) error { return nil })} {
		if err == nil || errors.Is(err, tier.ErrAbsent) || errors.Is(err, tier.ErrExists) {
			t.Errorf("%s of a store that is down: %v", name, err)
		}
	}
	s.Down.Store(false)
	other := check.Must(backup.OpenObjects(strings.Replace(s.Place("tier"), "//bucket/", "//bucket-2/", 1), ""))(t)
	if err := other.Range(t.Context(), "other/c", 0, p); err == nil || errors.Is(err, tier.ErrAbsent) {
		t.Errorf("an object of a bucket that is gone: %v", err)
	}
	if place, err := backup.Open(other.String(), ""); err != nil {
		t.Error(err)
	} else if _, err := place.Get(t.Context(), "owner/1"); err == nil || errors.Is(err, backup.ErrAbsent) {
		t.Errorf("a file of a bucket that is gone: %v", err)
	}
}

// A store that ignores a condition is found out before anything depends on it.
func TestBucketWithoutConditions(t *testing.T) {
	t.Parallel()
	s := buckets.Start(t)
	s.Ignore = "If-None-Match"
	p := check.Must(backup.Open(s.Place(""), ""))(t)
	for range 2 {
		if err := p.Create(t.Context(), "owner/1", []byte("me")); !errors.Is(err, backup.ErrNoConditions) {
			t.Errorf("create: %v", err)
		}
	}
	o := check.Must(backup.OpenObjects(s.Place(""), ""))(t)
	if err := o.Create(t.Context(), "a", strings.NewReader("a"), 1); !errors.Is(err, backup.ErrNoConditions) {
		t.Errorf("create of an object: %v", err)
	}
	if names := s.Names(); !slices.Equal(names, []string{"probe"}) {
		t.Errorf("the bucket has %q", names)
	}
	s = buckets.Start(t)
	s.Ignore = "If-Match"
	p = check.Must(backup.Open(s.Place(""), ""))(t)
	check.OK(t, p.Create(t.Context(), "owner/1", []byte("me")))
	if _, _, err := p.Lock(t.Context()); !errors.Is(err, backup.ErrNoConditions) {
		t.Errorf("lock: %v", err)
	}
}

// The lock of a process that died is taken once the store's own clock says that it was not renewed for a minute, and
// the former holder does not release that of its successor.
func TestLockOfABucketThatWasLeft(t *testing.T) {
	t.Parallel()
	s := buckets.Start(t)
	p := check.Must(backup.Open(s.Place("x"), ""))(t)
	_, former, err := p.Lock(t.Context())
	check.OK(t, err)
	s.Late.Store(int64(2 * time.Minute))
	_, unlock, err := p.Lock(t.Context())
	check.OK(t, err)
	s.Late.Store(0)
	check.OK(t, former())
	if _, _, err := p.Lock(t.Context()); !errors.Is(err, backup.ErrLocked) {
		t.Errorf("the lock of the successor was released: %v", err)
	}
	check.OK(t, unlock())
}

// A store that answers a range with all of an object, or with another one, is not read.
func TestBucketWithoutRanges(t *testing.T) {
	t.Parallel()
	buckets.Start(t) // for the keys
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100))
	}))
	t.Cleanup(s.Close)
	o := check.Must(backup.OpenObjects("s3://bucket?endpoint="+url.QueryEscape(s.URL), ""))(t)
	if err := o.Range(t.Context(), "a", 10, make([]byte, 5)); err == nil || !strings.Contains(err.Error(), "range") {
		t.Errorf("%v", err)
	}
}

// An address that is not that of a bucket is refused before anything is sent, and what is wrong is said.
func TestBucketAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"s3://backups": "", "s3://backups/a/b/": "", "s3://backups?region=eu-west-1": "",
		"s3://backups/a?endpoint=http://127.0.0.1:9000": "",
		"s3://": "s3://BUCKET/PREFIX", "s3://%zz/x": "s3://BUCKET/PREFIX", "s3://backups/a#b": "s3://BUCKET/PREFIX",
		"s3://key:secret@backups/a":                       "must not have keys",
		"s3://backups?regio=x":                            `not "regio"`,
		"s3://backups?endpoint=127.0.0.1:9000":            "endpoint of a bucket",
		"s3://backups?endpoint=ftp://127.0.0.1":           "endpoint of a bucket",
		"s3://backups?endpoint=http://127.0.0.1:9000/sub": "without a path",
		"s3://B?region=eu-west-1":                         "Bucket name",
	} {
		place, err := backup.Open(address, "")
		switch {
		case want == "" && (err != nil || place.String() != address):
			t.Errorf("%s: %v, %v", address, place, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}
