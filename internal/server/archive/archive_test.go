package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// childVar holds the folders of a process that is to be killed: the data and the place.
const childVar = "LAZULI_ARCHIVE_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(powerVar) != "" {
		if err := writeForPower(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(historyVar); text != "" {
		fmt.Fprintln(os.Stderr, runHistory(text))
		os.Exit(1) // it should have been killed
	}
	if text := os.Getenv(promoteVar); text != "" {
		if err := runPromotion(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(childVar); text != "" {
		fmt.Fprintln(os.Stderr, runChild(text))
		os.Exit(1) // it should have been killed
	}
	check.FilesInMemory()
	os.Exit(m.Run())
}

// runChild writes and sends until it is killed.
func runChild(text string) error {
	var folders [2]string
	if err := json.Unmarshal([]byte(text), &folders); err != nil {
		return err
	}
	plan, err := fault.ParsePlan(os.Getenv(fault.EnvVar))
	if err != nil {
		return err
	}
	a := archive.New(archive.Options{Place: backup.Folder(folders[1]), Every: time.Hour})
	s, err := server.Start(server.Config{Location: folders[0], Archive: a, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	storage, err := workers.OpenStorage(s.ConnectionString())
	if err != nil {
		return err
	}
	fault.Activate(plan)
	for i := range 3 {
		if _, err := storage.Queues.NewQueueClient("queue").EnqueueMessage(context.Background(), fmt.Sprint("child", i),
			nil); err != nil {
			return err
		}
		a.Send(context.Background())
	}
	return s.Stop(context.Background())
}

// rig is a server with an archive that sends when a test calls Send.
type rig struct {
	*server.Server
	*archive.Archive
	storage *workers.Storage
	end     func()
}

// start starts a server on a data folder with an archive, and makes a queue.
func start(t *testing.T, data string, o archive.Options) *rig {
	t.Helper()
	r := startConfig(t, server.Config{Location: data}, o)
	if _, err := r.storage.Queues.CreateQueue(t.Context(), "queue", nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// startConfig starts a server with an archive, which makes bases.
func startConfig(t *testing.T, c server.Config, o archive.Options) *rig {
	t.Helper()
	o.Every, o.Log = time.Hour, slog.New(slog.DiscardHandler)
	r := &rig{Archive: archive.New(o)}
	var err error
	c.Archive, c.Log = r.Archive, o.Log
	r.Server, err = server.Start(c)
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		r.Archive.Run(ctx, r.ArchiveMoment)
	})
	r.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		check.OK(t, r.Server.Stop(context.Background()))
	})
	t.Cleanup(r.end)
	r.storage, err = workers.OpenStorage(r.ConnectionString())
	check.OK(t, err)
	return r
}

func (r *rig) stop(t *testing.T) {
	t.Helper()
	r.end()
}

// awaitBases waits for a number of bases.
func awaitBases(t *testing.T, p backup.Place, n int) {
	t.Helper()
	check.Eventually(t, func() bool {
		names, err := backup.Names(context.Background(), p)
		return err == nil && len(names) >= n
	}, "not %d bases", n)
}

// awaitReach sends until there is a moment that can be restored: each shard has a base, and was sent after the last.
func (r *rig) awaitReach(t *testing.T, p backup.Place) {
	t.Helper()
	check.Eventually(t, func() bool {
		r.Send(t.Context())
		list, err := archive.Reachable(context.Background(), p)
		return err == nil && len(list) > 0
	}, "no moment can be restored")
}

// put puts messages, and returns a moment after it at which nothing is under way.
func (r *rig) put(t *testing.T, texts ...string) time.Time {
	t.Helper()
	for _, text := range texts {
		_, err := r.storage.Queues.NewQueueClient("queue").EnqueueMessage(t.Context(), text, nil)
		check.OK(t, err)
	}
	return time.Now()
}

// messages returns the texts of the messages in a data folder.
func messages(t *testing.T, data string) (texts []string) {
	t.Helper()
	s, err := server.Start(server.Config{Location: data, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	storage, err := workers.OpenStorage(s.ConnectionString())
	check.OK(t, err)
	for {
		r, err := storage.Queues.NewQueueClient("queue").DequeueMessages(t.Context(), nil)
		check.OK(t, err)
		for _, m := range r.Messages {
			texts = append(texts, *m.MessageText)
		}
		if len(r.Messages) == 0 {
			return texts
		}
	}
}

// restore restores a moment into a new folder.
func restore(t *testing.T, p backup.Place, at time.Time) (folder string, err error) {
	t.Helper()
	m, err := archive.Open(t.Context(), p, at, t.TempDir(), nil)
	if err != nil {
		return "", err
	}
	folder = filepath.Join(t.TempDir(), "restored")
	err = backup.RestoreSource(t.Context(), m, folder, backup.RestoreOptions{
		Verify: func(ctx context.Context, path string) error {
			report, err := fsck.Check(ctx, path, fsck.Options{})
			if err == nil && !report.Clean {
				err = fmt.Errorf("not clean: %v", report.Findings)
			}
			return err
		}})
	return folder, errors.Join(err, m.Close())
}

func restored(t *testing.T, p backup.Place, at time.Time) []string {
	t.Helper()
	folder, err := restore(t, p, at)
	check.OK(t, err)
	return messages(t, folder)
}

func wantMessages(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: messages %q, want %q", what, got, want)
	}
}

func segments(t *testing.T, place string) (list []string) {
	t.Helper()
	check.OK(t, filepath.WalkDir(filepath.Join(place, "log"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "head" {
			list = append(list, path)
		}
		return err
	}))
	return list
}

// Moments within one segment and over several, over a stop, from an encrypted place.
func TestRestoresMoments(t *testing.T) {
	t.Parallel()
	folder, data := filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "data")
	p := check.Must(backup.Sealed(backup.Folder(folder), make([]byte, 32)))(t)
	r := start(t, data, archive.Options{Place: p})
	awaitBases(t, p, 1)
	began := r.put(t)
	one := r.put(t, "one")
	two := r.put(t, "two")
	r.Send(t.Context())
	three := r.put(t, "three")
	r.stop(t) // sends what there is
	r = start(t, data, archive.Options{Place: p})
	four := r.put(t, "four")
	r.Send(t.Context())
	for _, x := range []struct {
		at   time.Time
		want []string
	}{{began, nil}, {one, []string{"one"}}, {two, []string{"one", "two"}}, {three, []string{"one", "three", "two"}},
		{four, []string{"four", "one", "three", "two"}}} {
		wantMessages(t, fmt.Sprint(x.want), restored(t, p, x.at), x.want...)
	}
	if _, err := restore(t, p, began.Add(-time.Hour)); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("before the first base: %v", err)
	}
	if _, err := restore(t, p, time.Now().Add(time.Hour)); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("after the end: %v", err)
	}
	// What leaves the machine does not show what is in it, and needs its key.
	for _, path := range segments(t, folder) {
		if text := check.Must(os.ReadFile(path))(t); !strings.HasPrefix(string(text), "LZSEAL1\n") {
			t.Errorf("%s begins with %q", path, text[:8])
		}
	}
	if _, err := archive.Reachable(t.Context(), backup.Folder(folder)); !errors.Is(err, backup.ErrSealed) {
		t.Errorf("without the key: %v", err)
	}
	other := check.Must(backup.Sealed(backup.Folder(folder), []byte(strings.Repeat("k", 32))))(t)
	if _, err := archive.Reachable(t.Context(), other); !errors.Is(err, backup.ErrWrongKey) {
		t.Errorf("with another key: %v", err)
	}
}

// Segments that are damaged, missing or another one end what can be reached: a restore says so and makes nothing.
func TestDamagedSegments(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	p := backup.Folder(folder)
	r := start(t, filepath.Join(t.TempDir(), "data"), archive.Options{Place: p})
	awaitBases(t, p, 1)
	var moments []time.Time
	for i := range 4 {
		moments = append(moments, r.put(t, fmt.Sprint(i)))
		r.Send(t.Context())
	}
	list := segments(t, folder)
	if len(list) != 4 {
		t.Fatalf("%d segments, want 4", len(list))
	}
	whole := check.Must(os.ReadFile(list[2]))(t)
	flipped := slices.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	for name, text := range map[string][]byte{"flipped": flipped, "cut": whole[:len(whole)/2], "missing": nil,
		"another": check.Must(os.ReadFile(list[1]))(t)} {
		check.OK(t, os.RemoveAll(list[2]))
		if text != nil {
			check.OK(t, os.WriteFile(list[2], text, 0o600))
		}
		for i, at := range moments {
			_, err := archive.Open(t.Context(), p, at, t.TempDir(), nil)
			if i < 2 && err != nil || i >= 2 && (!errors.Is(err, archive.ErrDamaged) ||
				!strings.Contains(err.Error(), "it can be used up to")) {
				t.Errorf("%s, moment %d: %v", name, i, err)
			}
		}
		reach := check.Must(archive.Reachable(t.Context(), p))(t)
		if name == "missing" && (len(reach) != 1 || reach[0].Segments != 2 || reach[0].Missing == "" ||
			reach[0].Until.Before(moments[1]) || reach[0].Until.After(moments[2])) {
			t.Errorf("%s: %+v, moments %v", name, reach, moments)
		}
	}
	check.OK(t, os.WriteFile(list[2], whole, 0o600))
	wantMessages(t, "put back", restored(t, p, moments[3]), "0", "1", "2", "3")
}

// flaky is a place that fails on request.
type flaky struct {
	backup.Place
	down, loses atomic.Bool // it refuses everything; it does what is asked and its answers are lost
	sends       atomic.Bool // it refuses what is sent, and answers looks
	hold        atomic.Bool // it says that it has created what it keeps in last

	mu      sync.Mutex // guards name and last
	name    string
	content []byte
}

// held returns the last file that was not created in truth.
func (f *flaky) held() (name string, content []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.name, f.content
}

var errDown = errors.New("the place is down")

func (f *flaky) Create(ctx context.Context, name string, content []byte) error {
	if f.down.Load() || f.sends.Load() {
		return errDown
	}
	if f.hold.Load() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.name, f.content = name, content
		return nil
	}
	if err := f.Place.Create(ctx, name, content); err != nil || !f.loses.Load() {
		return err
	}
	return errDown
}

func (f *flaky) Put(ctx context.Context, name string, content []byte) error {
	if f.down.Load() || f.sends.Load() {
		return errDown
	}
	return f.Place.Put(ctx, name, content)
}

func (f *flaky) Get(ctx context.Context, name string) ([]byte, error) {
	if f.down.Load() {
		return nil, errDown
	}
	return f.Place.Get(ctx, name)
}

func (f *flaky) List(ctx context.Context, prefix string, fn func(string) error) error {
	if f.down.Load() {
		return errDown
	}
	return f.Place.List(ctx, prefix, fn)
}

// While the place is down writes go on, and what they change is sent afterwards; also if the place has a segment whose
// answer was lost, and if the server was started again in between.
func TestPlaceThatIsDown(t *testing.T) {
	t.Parallel()
	p, data := &flaky{Place: backup.Folder(filepath.Join(t.TempDir(), "place"))}, filepath.Join(t.TempDir(), "data")
	r := start(t, data, archive.Options{Place: p})
	awaitBases(t, p, 1)
	p.down.Store(true)
	one := r.put(t, "one")
	r.Send(t.Context())
	p.down.Store(false)
	p.loses.Store(true)
	two := r.put(t, "two")
	r.Send(t.Context())
	three := r.put(t, "three")
	r.stop(t)
	p.loses.Store(false)
	r = start(t, data, archive.Options{Place: p})
	r.Send(t.Context())
	reach := check.Must(archive.Reachable(t.Context(), p))(t)
	if len(reach) != 1 || reach[0].Missing != "" {
		t.Errorf("reachable: %+v", reach)
	}
	wantMessages(t, "one", restored(t, p, one), "one")
	wantMessages(t, "two", restored(t, p, two), "one", "two")
	wantMessages(t, "three", restored(t, p, three), "one", "three", "two")
}

// Beyond the bound of the spool the archive has a gap: writes go on, and another base begins what can be reached.
func TestGap(t *testing.T) {
	t.Parallel()
	p, data := &flaky{Place: backup.Folder(filepath.Join(t.TempDir(), "place"))}, filepath.Join(t.TempDir(), "data")
	r := start(t, data, archive.Options{Place: p, Spool: 4 << 10})
	awaitBases(t, p, 1)
	before := r.put(t, "before")
	r.Send(t.Context())
	p.down.Store(true)
	lost := r.put(t, strings.Repeat("x", 6000))
	p.down.Store(false)
	r.Send(t.Context())
	awaitBases(t, p, 2)
	after := r.put(t, "after")
	r.Send(t.Context())
	if _, err := restore(t, p, lost); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("in the gap: %v", err)
	}
	wantMessages(t, "before", restored(t, p, before), "before")
	wantMessages(t, "after", restored(t, p, after), "after", "before", strings.Repeat("x", 6000))
	reach := check.Must(archive.Reachable(t.Context(), p))(t)
	if len(reach) != 2 || reach[0].Until.After(lost) || reach[1].From.Before(lost) {
		t.Errorf("reachable: %+v, lost %v", reach, lost)
	}
	size := int64(0)
	check.OK(t, filepath.WalkDir(filepath.Join(data, "archive"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			size += check.Must(e.Info())(t).Size()
		}
		return err
	}))
	if size > 64<<10 {
		t.Errorf("the spool has %d bytes", size)
	}
}

// What is changed without the archive is not in it: the next start begins with another base.
func TestChangedWithoutTheArchive(t *testing.T) {
	t.Parallel()
	p, data := backup.Folder(filepath.Join(t.TempDir(), "place")), filepath.Join(t.TempDir(), "data")
	r := start(t, data, archive.Options{Place: p})
	awaitBases(t, p, 1)
	first := r.put(t, "first")
	r.stop(t)
	s, err := server.Start(server.Config{Location: data, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	storage := check.Must(workers.OpenStorage(s.ConnectionString()))(t)
	_, err = storage.Queues.NewQueueClient("queue").EnqueueMessage(t.Context(), "unseen", nil)
	check.OK(t, err)
	check.OK(t, s.Stop(context.Background()))
	unseen := time.Now()
	r = start(t, data, archive.Options{Place: p})
	awaitBases(t, p, 2)
	last := r.put(t, "last")
	r.Send(t.Context())
	if _, err := restore(t, p, unseen); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("while it was not running: %v", err)
	}
	wantMessages(t, "first", restored(t, p, first), "first")
	wantMessages(t, "last", restored(t, p, last), "first", "last", "unseen")
}

// Two servers on copies of a data folder do not mix their logs.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	p, data := backup.Folder(filepath.Join(t.TempDir(), "place")), filepath.Join(t.TempDir(), "data")
	r := start(t, data, archive.Options{Place: p})
	awaitBases(t, p, 1)
	r.put(t, "both")
	r.stop(t)
	other := filepath.Join(t.TempDir(), "copy")
	check.OK(t, os.CopyFS(other, os.DirFS(data)))
	r = start(t, data, archive.Options{Place: p})
	original := r.put(t, "original")
	r.stop(t)
	r = start(t, other, archive.Options{Place: p})
	r.put(t, "copy")
	r.Send(t.Context()) // finds the segment of the original
	r.Send(t.Context()) // begins another timeline
	awaitBases(t, p, 2)
	copied := r.put(t, "copied")
	r.Send(t.Context())
	wantMessages(t, "the original", restored(t, p, original), "both", "original")
	wantMessages(t, "the copy", restored(t, p, copied), "both", "copied", "copy")
}

// A process that is killed while it sends a segment continues the same sequence after its next start.
func TestKilledWhileSending(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"logarchive/pending", "logarchive/created", "logarchive/sent"} {
		for pass := 1; pass <= check.Size(1, 3); pass++ {
			t.Run(fmt.Sprint(point, pass), func(t *testing.T) {
				t.Parallel()
				tryKilled(t, 1, fmt.Sprintf("%s=kill@%d", point, pass), pass)
			})
		}
		t.Run(point+" of shards", func(t *testing.T) {
			t.Parallel()
			tryKilled(t, 3, point+"=kill@1", 1)
		})
	}
}

// tryKilled kills a process by a plan after it has put some messages.
func tryKilled(t *testing.T, shards int, plan string, put int) {
	folder, data := filepath.Join(t.TempDir(), "place"), filepath.Join(t.TempDir(), "data")
	p := backup.Folder(folder)
	r := startConfig(t, server.Config{Location: data, Shards: shards}, archive.Options{Place: p})
	check.Must(r.storage.Queues.CreateQueue(t.Context(), "queue", nil))(t)
	r.awaitReach(t, p)
	r.put(t, "parent")
	r.stop(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(check.Must(json.Marshal([]string{data, folder}))(t)),
		fault.EnvVar+"="+plan)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() == 1 {
		t.Fatalf("the process was not killed: %v, %s", err, out)
	}
	r = start(t, data, archive.Options{Place: p})
	last := r.put(t, "zlast")
	r.Send(t.Context())
	want := []string{"child0", "child1", "child2"}[:put]
	wantMessages(t, "the last moment", restored(t, p, last), append(want, "parent", "zlast")...)
	if reach := check.Must(archive.Reachable(t.Context(), p))(t); len(reach) != 1 || reach[0].Missing != "" {
		t.Errorf("reachable: %+v", reach)
	}
}

// Segments and bases that no moment of the time to keep needs are removed.
func TestKeep(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	p := backup.Folder(folder)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	data := filepath.Join(t.TempDir(), "data")
	o := archive.Options{Place: p, Base: time.Hour, Keep: 2 * time.Hour, Now: now}
	var moments []time.Time
	for i := range 6 {
		r := start(t, data, o) // a base is due at each start
		check.Eventually(t, func() bool {
			m, err := backup.Read(context.Background(), p, "")
			return err == nil && m.Time.After(now().Add(-time.Minute))
		}, "no base %d", i)
		r.put(t, fmt.Sprint(i))
		moments = append(moments, now())
		r.Send(t.Context())
		// A base can be read before the segments that it makes unnecessary are removed, which a stop would leave.
		check.Eventually(t, func() bool { return len(segments(t, folder)) <= 5 }, "segments stay after base %d", i)
		r.stop(t)
		ahead.Add(int64(61 * time.Minute))
	}
	reach := check.Must(archive.Reachable(t.Context(), p))(t)
	if len(reach) != 1 || reach[0].From.After(moments[5].Add(-2*time.Hour)) || reach[0].From.Before(moments[1]) {
		t.Errorf("reachable: %+v", reach)
	}
	wantMessages(t, "the oldest that is kept", restored(t, p, moments[3]), "0", "1", "2", "3")
}

// A base that is made while an upload is under way lacks the content that segments before the base have: nothing refers
// to it yet. What the archive has after the base is enough for moments after the upload.
func TestBaseDuringAnUpload(t *testing.T) {
	t.Parallel()
	p := backup.Folder(filepath.Join(t.TempDir(), "place"))
	log := slog.New(slog.DiscardHandler)
	a := archive.New(archive.Options{Place: p, Every: time.Hour, Log: log})
	s := check.Must(server.Start(server.Config{Location: filepath.Join(t.TempDir(), "data"), Archive: a, Log: log}))(t)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	storage := check.Must(workers.OpenStorage(s.ConnectionString()))(t)
	check.Must(storage.Blobs.CreateContainer(t.Context(), "container", nil))(t)
	body, w := io.Pipe()
	content := make([]byte, 12<<20)
	check.Must(rand.NewChaCha8([32]byte{}).Read(content))(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		s.InProcessURL(wire.Blob, auth.DevelopmentAccount)+"/container/blob", body)
	check.OK(t, err)
	request.ContentLength = int64(len(content))
	request.Header.Set("x-ms-blob-type", "BlockBlob")
	request.Header.Set("x-ms-version", "2023-11-03")
	uploaded := make(chan error, 1)
	go func() {
		answer, err := s.InProcess().RoundTrip(request)
		if err == nil {
			err = answer.Body.Close()
			if answer.StatusCode != http.StatusCreated {
				err = errors.New(answer.Status)
			}
		}
		uploaded <- err
	}()
	check.Must(w.Write(content[:10<<20]))(t)
	check.Eventually(t, func() bool { // some of it is in a segment
		a.Send(t.Context())
		sent := int64(0)
		for _, path := range segments(t, p.String()) {
			sent += check.Must(os.Stat(path))(t).Size()
		}
		return sent > 2<<20
	}, "content is sent before the upload ends")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		a.Run(ctx, s.ArchiveMoment)
	})
	defer func() { cancel(); running.Wait() }()
	awaitBases(t, p, 1)
	check.Must(w.Write(content[10<<20:]))(t)
	check.OK(t, w.Close())
	check.OK(t, <-uploaded)
	at := time.Now()
	a.Send(t.Context())
	folder := check.Must(restore(t, p, at))(t)
	restored := check.Must(server.Start(server.Config{Location: folder, Log: log}))(t)
	defer func() { check.OK(t, restored.Stop(context.Background())) }()
	storage = check.Must(workers.OpenStorage(restored.ConnectionString()))(t)
	r := check.Must(storage.Blobs.DownloadStream(t.Context(), "container", "blob", nil))(t)
	if got := check.Must(io.ReadAll(r.Body))(t); !bytes.Equal(got, content) {
		t.Errorf("the blob has %d other bytes", len(got))
	}
}
