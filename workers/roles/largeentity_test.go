package roles_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

type report struct {
	Title   string
	Text    string
	Scan    []byte
	Pages   int32
	Views   int64
	Score   float64
	Final   bool
	Filed   time.Time
	Authors []string `table:",json"`
	Nick    string   `table:"Alias"`
	Secret  string   `table:"-"`
}

var reportKey = largeentity.Key{PartitionKey: "2026 Ü'quote", RowKey: "r 1"}

// big has a text and a scan beyond the limit of a property.
func big(version int) report { return sized(version, 70<<10) }

// sized is big with a scan of so many bytes.
func sized(version, bytes int) report {
	r := rand.New(rand.NewPCG(uint64(version), 1))
	scan := make([]byte, bytes)
	for i := range scan {
		scan[i] = byte(r.Uint32())
	}
	return report{
		Title: fmt.Sprintf("version %d", version), Text: strings.Repeat("漢字 𝄞 ", 9000) + fmt.Sprint(version), Scan: scan,
		Pages: 412, Views: math.MaxInt64, Score: 5, Final: true, Filed: time.Date(2026, 3, 1, 2, 3, 4, 500, time.UTC),
		Authors: []string{"Ada", "Grace"}, Nick: "x",
	}
}

type largeSetup struct {
	*testaccount.Account
	table, container string
	store            *largeentity.Store[report]
}

func newLargeSetup(t *testing.T) *largeSetup {
	t.Helper()
	a := testaccount.Open(t)
	// Connections of the test's own, closed at its end: a server that stops waits for those that have not been used yet.
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	if a.Storage, err = workers.OpenStorage(a.ConnectionString,
		workers.WithTransport(&http.Client{Transport: transport})); err != nil {
		t.Fatal(err)
	}
	s := &largeSetup{Account: a, table: a.Table("Reports"), container: a.Container("parts")}
	s.store = open[report](t, s, largeentity.WithAge(0))
	return s
}

func open[T any](t *testing.T, s *largeSetup, options ...largeentity.Option) *largeentity.Store[T] {
	t.Helper()
	store, err := largeentity.New[T](s.Storage, s.table, s.container, options...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (s *largeSetup) blobs(t *testing.T) (names []string) {
	t.Helper()
	for pager := s.Blobs.NewListBlobsFlatPager(s.container, nil); pager.More(); {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.Segment.BlobItems {
			names = append(names, *b.Name)
		}
	}
	return names
}

func (s *largeSetup) rows(t *testing.T) (n int) {
	t.Helper()
	for pager := s.Tables.NewClient(s.table).NewListEntitiesPager(nil); pager.More(); {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Entities)
	}
	return n
}

func (s *largeSetup) want(t *testing.T, want report) {
	t.Helper()
	got, err := s.store.Get(context.Background(), reportKey)
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(want, got.Value) {
		return // at once: a difference of large values takes long to find
	}
	if diff := cmp.Diff(want, got.Value); diff != "" {
		t.Errorf("%s: want(-) got(+):\n%.2000s", want.Title, diff)
	}
}

func (s *largeSetup) sweep(t *testing.T) largeentity.Swept {
	t.Helper()
	done, err := s.store.Sweeper().Sweep(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestWriteReadDelete(t *testing.T) {
	s := newLargeSetup(t)
	first := sized(1, 1200<<10) // beyond the limit of an entity
	etag, err := s.store.Insert(t.Context(), reportKey, first)
	if err != nil {
		t.Fatal(err)
	}
	s.want(t, first)
	if n := len(s.blobs(t)); n != 2 {
		t.Errorf("%d blobs, want the text and the scan", n)
	}
	if _, err := s.store.Insert(t.Context(), reportKey, first); !errors.Is(err, largeentity.ErrExists) {
		t.Errorf("second Insert: %v", err)
	}
	second := big(2)
	second.Scan = []byte("small now")
	next, err := s.store.Replace(t.Context(), reportKey, second, etag)
	if err != nil {
		t.Fatal(err)
	}
	s.want(t, second)
	if n := len(s.blobs(t)); n != 1 {
		t.Errorf("%d blobs after Replace, want 1: the old ones are to be removed", n)
	}
	if _, err := s.store.Replace(t.Context(), reportKey, first, etag); !errors.Is(err, largeentity.ErrChanged) {
		t.Errorf("Replace with an old ETag: %v", err)
	}
	if err := s.store.DeleteIf(t.Context(), reportKey, etag); !errors.Is(err, largeentity.ErrChanged) {
		t.Errorf("DeleteIf with an old ETag: %v", err)
	}
	if err := s.store.DeleteIf(t.Context(), reportKey, next); err != nil {
		t.Fatal(err)
	}
	if err := s.store.DeleteIf(t.Context(), reportKey, next); !errors.Is(err, largeentity.ErrNotFound) {
		t.Errorf("second DeleteIf: %v", err)
	}
	if err := s.store.Delete(t.Context(), reportKey); err != nil {
		t.Errorf("Delete of what is not there: %v", err)
	}
	if _, err := s.store.Replace(t.Context(), reportKey, first, next); !errors.Is(err, largeentity.ErrNotFound) {
		t.Errorf("Replace of what is not there: %v", err)
	}
	if _, err := s.store.Get(t.Context(), reportKey); !errors.Is(err, largeentity.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	if rows, blobs := s.rows(t), s.blobs(t); rows != 0 || len(blobs) != 0 {
		t.Errorf("left: %d rows, blobs %v", rows, blobs)
	}
}

// The service allows empty keys.
func TestEmptyKeys(t *testing.T) {
	s := newLargeSetup(t)
	empty := largeentity.Key{}
	etag, err := s.store.Insert(t.Context(), empty, sized(1, 1200<<10))
	if err != nil {
		t.Fatal(err)
	}
	if etag, err = s.store.Replace(t.Context(), empty, big(2), etag); err != nil {
		t.Fatal(err)
	}
	if got, err := s.store.Get(t.Context(), empty); err != nil || got.ETag != etag {
		t.Errorf("ETag %q, %v, want %q", got.ETag, err, etag)
	}
	if err := s.store.DeleteIf(t.Context(), empty, etag); err != nil {
		t.Error(err)
	}
	if rows, blobs := s.rows(t), s.blobs(t); rows != 0 || len(blobs) != 0 {
		t.Errorf("left: %d rows, blobs %v", rows, blobs)
	}
}

func TestZeroValuesAndOtherTypes(t *testing.T) {
	s := newLargeSetup(t)
	if _, err := s.store.Put(t.Context(), reportKey, report{}); err != nil {
		t.Fatal(err)
	}
	s.want(t, report{})
	type odd struct {
		U    uint8
		F    float32
		Inf  float64
		M    map[string]int `table:",json"`
		P    *int
		When *time.Time
	}
	five := 5
	want := odd{U: 255, F: 1.5, Inf: math.Inf(-1), M: map[string]int{"a": 1}, P: &five}
	store := open[odd](t, s)
	if _, err := store.Put(t.Context(), reportKey, want); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(t.Context(), reportKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Value); diff != "" {
		t.Error(diff)
	}
}

// Forty texts that each fit a property do not fit an entity together.
func TestManyMiddleSized(t *testing.T) {
	s := newLargeSetup(t)
	type wide struct{ A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U string }
	var want wide
	for i, p := range []*string{&want.A, &want.B, &want.C, &want.D, &want.E, &want.F, &want.G, &want.H, &want.I, &want.J,
		&want.K,
		&want.L, &want.M, &want.N, &want.O, &want.P, &want.Q, &want.R, &want.S, &want.T, &want.U} {
		*p = strings.Repeat(string(rune('a'+i)), 32000)
	}
	store := open[wide](t, s)
	if _, err := store.Put(t.Context(), reportKey, want); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(t.Context(), reportKey)
	if err != nil || got.Value != want {
		t.Errorf("%v, equal %v", err, got != nil && got.Value == want)
	}
	if n := len(s.blobs(t)); n == 0 || n > 8 {
		t.Errorf("%d blobs, want only what does not fit", n)
	}
}

// At every point an attempt fails; what readers see then is the old state or the new one, a second attempt succeeds,
// and a sweep leaves nothing behind.
func TestLargeEntityFailsAtEveryPoint(t *testing.T) {
	s := newLargeSetup(t)
	reached := map[string]bool{}
	for _, operation := range []string{"insert", "replace", "delete"} {
		for _, point := range largeentity.Points() {
			t.Run(operation+" "+point, func(t *testing.T) {
				ctx := t.Context()
				old, next := big(1), big(2)
				if err := s.store.Delete(ctx, reportKey); err != nil {
					t.Fatal(err)
				}
				if operation != "insert" {
					if _, err := s.store.Put(ctx, reportKey, old); err != nil {
						t.Fatal(err)
					}
				}
				do := func() error {
					if operation == "delete" {
						return s.store.Delete(ctx, reportKey)
					}
					_, err := s.store.Put(ctx, reportKey, next)
					return err
				}
				plan := fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 1, Do: fault.Fail(fault.ErrInjected)})
				off := fault.Activate(plan)
				if err := do(); err != nil && !errors.Is(err, fault.ErrInjected) {
					t.Errorf("first attempt: %v", err)
				}
				got, err := s.store.Get(ctx, reportKey)
				switch {
				case errors.Is(err, largeentity.ErrNotFound) && operation != "replace":
				case err != nil:
					t.Fatalf("after the failure: %v", err)
				case !reflect.DeepEqual(got.Value, old) && !reflect.DeepEqual(got.Value, next):
					t.Errorf("after the failure: %q", got.Value.Title)
				}
				// The sweep comes first here, and is itself made to fail.
				if _, err := s.store.Sweeper().Sweep(ctx); err != nil && !errors.Is(err, fault.ErrInjected) {
					t.Errorf("first sweep: %v", err)
				}
				off()
				reached[point] = reached[point] || plan.Hits(fault.Name(point)) > 0
				if err := do(); err != nil {
					t.Fatalf("second attempt: %v", err)
				}
				wantBlobs, wantRows := 2, 1
				if operation == "delete" {
					wantBlobs, wantRows = 0, 0
				}
				// The failure canceled the upload of the other blob. The server may still execute it, also after a sweep:
				// that blob is left to the next one.
				check.Eventually(t, func() bool {
					s.sweep(t)
					return s.rows(t) == wantRows && len(s.blobs(t)) == wantBlobs
				}, "rows and blobs after sweeps: want %d and %d", wantRows, wantBlobs)
				if operation != "delete" {
					s.want(t, next)
				}
			})
		}
	}
	// The sweeper's own points are passed only where there is something to sweep.
	for _, point := range largeentity.Points()[:10] {
		if !reached[point] {
			t.Errorf("%s was never passed", point)
		}
	}
}

// What a crash leaves, at every point of the sweeper.
func TestSweeperFailsAtEveryPoint(t *testing.T) {
	s := newLargeSetup(t)
	for _, point := range largeentity.Points()[10:] {
		for _, operation := range []string{"insert", "replace"} {
			if err := s.store.Delete(t.Context(), reportKey); err != nil {
				t.Fatal(err)
			}
			if operation == "replace" {
				if _, err := s.store.Put(t.Context(), reportKey, big(1)); err != nil {
					t.Fatal(err)
				}
			}
			off := fault.Activate(fault.NewPlan(
				fault.Rule{Point: "large-entity/before-entity", Do: fault.Fail(fault.ErrInjected)}))
			if _, err := s.store.Put(t.Context(), reportKey, big(2)); !errors.Is(err, fault.ErrInjected) {
				t.Fatal(err)
			}
			off()
			off = fault.Activate(fault.NewPlan(fault.Rule{Point: fault.Name(point), On: 1, Do: fault.Fail(fault.ErrInjected)}))
			if _, err := s.store.Sweeper().Sweep(t.Context()); !errors.Is(err, fault.ErrInjected) {
				t.Errorf("%s: %v", point, err)
			}
			off()
			s.sweep(t)
			want := map[string]int{"insert": 0, "replace": 2}[operation]
			if n := len(s.blobs(t)); n != want || s.rows(t) != want/2 {
				t.Errorf("%s, %s: %d blobs, %d rows left", point, operation, n, s.rows(t))
			}
			if operation == "replace" {
				s.want(t, big(1))
			}
		}
	}
}

func TestPointsOfLargeEntitiesAreDeclared(t *testing.T) {
	for _, p := range largeentity.Points() {
		if !slices.Contains(fault.Points(), fault.Name(p)) {
			t.Errorf("%s is listed but not declared", p)
		}
	}
	for _, p := range fault.Points() {
		if strings.HasPrefix(string(p), "large-entity/") && !slices.Contains(largeentity.Points(), string(p)) {
			t.Errorf("%s is declared but not listed", p)
		}
	}
}

// A writer sleeps, between its blobs and its entity, for longer than any age; meanwhile the sweeper takes its blobs. It
// must notice, and start again.
func TestSweepDuringWrite(t *testing.T) {
	for _, before := range []string{"absent", "there"} {
		t.Run(before, func(t *testing.T) {
			s := newLargeSetup(t)
			if before == "there" {
				if _, err := s.store.Insert(t.Context(), reportKey, big(1)); err != nil {
					t.Fatal(err)
				}
			}
			var swept largeentity.Swept
			off := fault.Activate(fault.NewPlan(
				fault.Rule{Point: "large-entity/before-entity", On: 1, Do: func(fault.Name) error {
					swept = s.sweep(t)
					return nil
				}}))
			_, err := s.store.Put(t.Context(), reportKey, big(2))
			off()
			if err != nil {
				t.Fatal(err)
			}
			if swept.Removed != 2 {
				t.Errorf("the sweep in between: %+v, want two blobs removed", swept)
			}
			s.want(t, big(2))
			if n := len(s.blobs(t)); n != 2 {
				t.Errorf("%d blobs", n)
			}
		})
	}
}

// With an age, the sweeper leaves a writer alone.
func TestAgeSparesWriters(t *testing.T) {
	s := newLargeSetup(t)
	s.store = open[report](t, s, largeentity.WithAge(time.Minute))
	off := fault.Activate(fault.NewPlan(fault.Rule{Point: "large-entity/before-entity", On: 1, Do: func(fault.Name) error {
		if done := s.sweep(t); done.Removed != 0 || done.Reservations != 0 || done.Young != 3 {
			t.Errorf("%+v, want nothing but three young ones: two blobs and the reservation", done)
		}
		return nil
	}}))
	defer off()
	if _, err := s.store.Insert(t.Context(), reportKey, big(1)); err != nil {
		t.Fatal(err)
	}
	s.want(t, big(1))
}

// A reader that holds old pointers while the entity is replaced gets the new entity.
func TestReplaceDuringRead(t *testing.T) {
	s := newLargeSetup(t)
	if _, err := s.store.Insert(t.Context(), reportKey, big(1)); err != nil {
		t.Fatal(err)
	}
	s.want(t, big(1))
	transport := &between{after: "/Reports", do: func() {
		if _, err := s.store.Put(context.Background(), reportKey, big(2)); err != nil {
			t.Error(err)
		}
	}}
	t.Cleanup(transport.next.CloseIdleConnections)
	slow, err := workers.OpenStorage(s.ConnectionString, workers.WithTransport(transport))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := largeentity.New[report](slow, s.table, s.container)
	if err != nil {
		t.Fatal(err)
	}
	got, err := reader.Get(t.Context(), reportKey)
	if err != nil || got.Value.Title != "version 2" {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestDamageIsFound(t *testing.T) {
	s := newLargeSetup(t)
	if _, err := s.store.Insert(t.Context(), reportKey, big(1)); err != nil {
		t.Fatal(err)
	}
	other, err := s.store.Insert(t.Context(), largeentity.Key{PartitionKey: "p", RowKey: "other"}, big(2))
	if err != nil || other == "" {
		t.Fatal(err)
	}
	for _, name := range s.blobs(t) {
		got, err := s.Blobs.DownloadStream(t.Context(), s.container, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(got.Body); err != nil {
			t.Fatal(err)
		}
		b.Bytes()[b.Len()/2] ^= 1
		if _, err := s.Blobs.UploadBuffer(t.Context(), s.container, name, b.Bytes(),
			&azblob.UploadBufferOptions{Metadata: got.Metadata}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.store.Get(t.Context(), reportKey); !errors.Is(err, largeentity.ErrDamaged) {
		t.Errorf("changed content: %v", err)
	}
	for _, name := range s.blobs(t) {
		if _, err := s.Blobs.DeleteBlob(t.Context(), s.container, name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.store.Get(t.Context(), reportKey); !errors.Is(err, largeentity.ErrDamaged) {
		t.Errorf("missing blob: %v", err)
	}
}

// Writers, deleters, readers and sweepers without an age, all at once: readers see whole versions only, and nothing is
// left over.
func TestEverybodyAtOnce(t *testing.T) {
	s := newLargeSetup(t)
	type small struct{ A, B string }
	store := open[small](t, s, largeentity.WithInlineLimit(0), largeentity.WithAge(0))
	keys := []largeentity.Key{{PartitionKey: "p", RowKey: "1"}, {PartitionKey: "p", RowKey: "2"}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var reads, writes, sweeps atomic.Int64
	for i := range 3 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				text := fmt.Sprintf("%d-%d", i, n)
				_, err := store.Put(t.Context(), keys[n%2], small{text, text})
				switch {
				case err == nil:
					writes.Add(1)
				case !errors.Is(err, largeentity.ErrChanged):
					t.Errorf("put: %v", err)
				}
				if n%7 == 0 {
					if err := store.Delete(t.Context(), keys[n%2]); err != nil && !errors.Is(err, largeentity.ErrChanged) {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
	}
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			got, err := store.Get(t.Context(), keys[n%2])
			switch {
			case err == nil && got.Value.A != got.Value.B:
				t.Errorf("a mixture: %+v", got.Value)
			case err == nil:
				reads.Add(1)
			case !errors.Is(err, largeentity.ErrNotFound) && !errors.Is(err, largeentity.ErrChanged):
				t.Errorf("get: %v", err)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := store.Sweeper().Sweep(t.Context()); err != nil {
					t.Errorf("sweep: %v", err)
				}
				sweeps.Add(1)
			}
		})
	}
	check.Eventually(t, func() bool { return reads.Load() >= 100 && writes.Load() >= 100 && sweeps.Load() >= 20 },
		"there are not enough reads, writes and sweeps")
	cancel()
	wg.Wait()
	s.sweep(t)
	there := 0
	for _, k := range keys {
		if _, err := store.Get(t.Context(), k); err == nil {
			there++
		} else if !errors.Is(err, largeentity.ErrNotFound) {
			t.Errorf("in the end: %v", err)
		}
	}
	if blobs, rows := len(s.blobs(t)), s.rows(t); blobs != 2*there || rows != there {
		t.Errorf("%d entities, %d rows, %d blobs", there, rows, blobs)
	}
}

// Two tables share a container; blobs of other programs are kept.
func TestSweeperMindsItsOwn(t *testing.T) {
	s := newLargeSetup(t)
	if _, err := s.store.Insert(t.Context(), reportKey, big(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Blobs.UploadBuffer(t.Context(), s.container, strings.ToLower(s.table)+"/somebody-elses", []byte("x"),
		nil); err != nil {
		t.Fatal(err)
	}
	other, err := largeentity.NewSweeper(s.Storage, s.Table("Other"), s.container, largeentity.WithAge(0))
	if err != nil {
		t.Fatal(err)
	}
	if done, err := other.Sweep(t.Context()); err != nil || done != (largeentity.Swept{}) {
		t.Errorf("%+v, %v", done, err)
	}
	if done := s.sweep(t); done != (largeentity.Swept{Blobs: 3, Foreign: 1}) {
		t.Errorf("%+v", done)
	}
	s.want(t, big(1))
}

func TestMissingTableOrContainer(t *testing.T) {
	s := newLargeSetup(t)
	for name, at := range map[string][2]string{"table": {"Nowhere", s.container}, "container": {s.table, "nowhere"}} {
		store, err := largeentity.New[report](s.Storage, at[0], at[1], largeentity.WithAge(0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), reportKey, big(1)); err == nil {
			t.Errorf("no %s: Put succeeded", name)
		}
		if _, err := store.Sweeper().Sweep(t.Context()); err == nil {
			t.Errorf("no %s: Sweep succeeded", name)
		}
	}
}

func TestMistakes(t *testing.T) {
	s := newLargeSetup(t)
	check := func(err error, says string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error saying %q", err, says)
		}
	}
	_, err := largeentity.New[int](s.Storage, s.table, s.container)
	check(err, "not a struct")
	_, err = largeentity.New[struct{ RowKey int }](s.Storage, s.table, s.container)
	check(err, "RowKey")
	_, err = largeentity.New[struct{ LargeEntity string }](s.Storage, s.table, s.container)
	check(err, "LargeEntity")
	_, err = largeentity.New[struct {
		A string `table:",encrypt"`
	}](s.Storage, s.table, s.container)
	check(err, "no key")
	_, err = largeentity.New[struct{ F func() }](s.Storage, s.table, s.container)
	check(err, "cannot be stored")
	_, err = largeentity.New[struct {
		A string `table:"a b"`
	}](s.Storage, s.table, s.container)
	check(err, "not a property name")
	_, err = largeentity.New[report](s.Storage, "", s.container)
	check(err, "missing")
	_, err = largeentity.New[report](s.Storage, s.table, s.container, largeentity.WithInlineLimit(1<<20))
	check(err, "inline limit")
	_, err = largeentity.New[report](&workers.Storage{Tables: s.Tables}, s.table, s.container)
	check(err, "blob endpoint")
	_, err = s.store.Put(t.Context(), reportKey, report{Text: "\xff"})
	check(err, "UTF-8")
	_, err = s.store.Put(t.Context(), largeentity.Key{PartitionKey: "a/b", RowKey: "x"}, report{Title: "x"})
	check(err, "")
}
