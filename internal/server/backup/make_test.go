package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// childVar holds the work of a process that is to be killed.
const childVar = "LAZULI_BACKUP_TEST"

// child backs up the data folder From to Place, or restores the newest backup to To.
type child struct{ From, Place, To string }

func TestMain(m *testing.M) {
	if text := os.Getenv(childVar); text != "" {
		fmt.Fprintln(os.Stderr, runChild(text))
		os.Exit(1) // it should have been killed
	}
	check.FilesInMemory()
	os.Exit(m.Run())
}

func runChild(text string) error {
	var c child
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	plan, err := fault.ParsePlan(os.Getenv(fault.EnvVar))
	if err != nil {
		return err
	}
	fault.Activate(plan)
	place, ctx := backup.Folder(c.Place), context.Background()
	if c.To != "" {
		list, err := backup.Read(ctx, place, "")
		if err != nil {
			return err
		}
		return backup.Restore(ctx, place, list, c.To, backup.RestoreOptions{Verify: verify})
	}
	s, err := server.Start(server.Config{Location: c.From, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = backup.Make(ctx, place, source(s), backup.Options{Keep: 1})
	return err
}

// dieAt runs the child until it is killed at a point.
func (c child) dieAt(t *testing.T, point string) {
	t.Helper()
	text, err := json.Marshal(c)
	check.OK(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(text), fault.EnvVar+"="+point+"=kill")
	out, err := cmd.CombinedOutput()
	if state := cmd.ProcessState; err == nil || state == nil || state.ExitCode() != -1 {
		t.Fatalf("the process was not killed at %s: %v\n%s", point, err, out)
	}
}

func source(s *server.Server) func(context.Context, backup.Held) (backup.Source, error) {
	return func(ctx context.Context, _ backup.Held) (backup.Source, error) { return s.Moment(ctx) }
}

func verify(ctx context.Context, path string) error {
	report, err := fsck.Check(ctx, path, fsck.Options{})
	if err == nil && !report.Clean {
		err = fmt.Errorf("%v", report.Findings)
	}
	return err
}

// startServer starts a server on a folder with a blob of two windows.
func startServer(t *testing.T, folder string) *server.Server {
	t.Helper()
	s, err := server.Start(server.Config{Location: folder, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// A process that backs up or restores is killed at each of its points. The next one succeeds, what it wrote is whole,
// and nothing that no backup has remains.
func TestKills(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data)
	fill(t, s, 1)
	check.OK(t, s.Stop(t.Context()))
	place := filepath.Join(t.TempDir(), "place")
	for i, point := range []string{"backup/pieces", "backup/written", "backup/removed"} {
		child{From: data, Place: place}.dieAt(t, point)
		s := startServer(t, data)
		r, err := backup.Make(t.Context(), backup.Folder(place), source(s), backup.Options{Keep: 1})
		check.OK(t, err)
		check.OK(t, backup.Check(t.Context(), backup.Folder(place), r.Manifest, backup.RestoreOptions{Verify: verify}))
		if have, want := files(t, filepath.Join(place, "pieces")), len(sums(r.Manifest)); have != want {
			t.Errorf("%s: %d pieces, and the backup has %d", point, have, want)
		}
		if n := files(t, filepath.Join(place, "backups")); n != 1 {
			t.Errorf("%s: %d backups, want the newest", point, n)
		}
		fill(t, s, i+2)
		check.OK(t, s.Stop(t.Context()))
	}

	to := filepath.Join(t.TempDir(), "restored")
	child{Place: place, To: to}.dieAt(t, "backup/restored")
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not complete has its name: %v", err)
	}
	list, err := backup.Read(t.Context(), backup.Folder(place), "")
	check.OK(t, err)
	check.OK(t, backup.Restore(t.Context(), backup.Folder(place), list, to, backup.RestoreOptions{Verify: verify}))
	check.OK(t, verify(t.Context(), to))
}

// A piece that the disk changed or lost is never restored.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := startServer(t, filepath.Join(t.TempDir(), "data"))
	fill(t, s, 1)
	place := filepath.Join(t.TempDir(), "place")
	r, err := backup.Make(t.Context(), backup.Folder(place), source(s), backup.Options{})
	check.OK(t, err)
	damages := []func(string) error{os.Remove, func(path string) error {
		content, err := os.ReadFile(path)
		content[len(content)/2] ^= 1
		return errors.Join(err, os.WriteFile(path, content, 0o600))
	}}
	names := []string{filepath.Join("backups", r.Name)}
	for sum := range sums(r.Manifest) {
		names = append(names, filepath.Join("pieces", sum[:2], sum))
	}
	for _, name := range names {
		path := filepath.Join(place, name)
		intact, err := os.ReadFile(path)
		check.OK(t, err)
		for i, damage := range damages {
			check.OK(t, damage(path))
			list, err := backup.Read(t.Context(), backup.Folder(place), "")
			if err == nil {
				to := filepath.Join(t.TempDir(), "restored")
				err = backup.Restore(t.Context(), backup.Folder(place), list, to, backup.RestoreOptions{Verify: verify})
				if _, there := os.Stat(to); there == nil {
					t.Errorf("%s, damage %d: a folder was made", name, i)
				}
			}
			if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrNoBackup) {
				t.Errorf("%s, damage %d: %v", name, i, err)
			}
			check.OK(t, os.WriteFile(path, intact, 0o600))
		}
	}
}

// A piece that was removed from the place is written again by the next backup, if the server still has what it
// held. A backup that stays without one is named.
func TestMissingPieces(t *testing.T) {
	t.Parallel()
	s := startServer(t, filepath.Join(t.TempDir(), "data"))
	fill(t, s, 1)
	folder := filepath.Join(t.TempDir(), "place")
	place := backup.Folder(folder)
	first, err := backup.Make(t.Context(), place, source(s), backup.Options{})
	check.OK(t, err)
	fill(t, s, 2)
	for sum := range sums(first.Manifest) {
		check.OK(t, os.Remove(filepath.Join(folder, "pieces", sum[:2], sum)))
	}
	second, err := backup.Make(t.Context(), place, source(s), backup.Options{})
	check.OK(t, err)
	check.OK(t, backup.Check(t.Context(), place, second.Manifest, backup.RestoreOptions{Verify: verify}))
	if !slices.Equal(second.Incomplete, []string{first.Name}) {
		t.Errorf("incomplete are %v, want %s, whose tables have changed since", second.Incomplete, first.Name)
	}
	err = backup.Check(t.Context(), place, first.Manifest, backup.RestoreOptions{Verify: verify})
	if !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("the first backup: %v", err)
	}
}

// Content that the newest backup has is not read again, but after a snapshot was restored in the folder: its extents
// have other content then. Another writer is refused meanwhile.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := startServer(t, filepath.Join(t.TempDir(), "data"))
	check.OK(t, s.Save(t.Context(), "empty", false))
	fill(t, s, 1)
	place := backup.Folder(filepath.Join(t.TempDir(), "place"))
	read := func() (n int) {
		t.Helper()
		_, err := backup.Make(t.Context(), place, func(ctx context.Context, _ backup.Held) (backup.Source, error) {
			if _, err := backup.Make(ctx, place, nil, backup.Options{}); !errors.Is(err, backup.ErrLocked) {
				t.Errorf("a second writer: %v", err)
			}
			m, err := s.Moment(ctx)
			return counting{m, &n}, err
		}, backup.Options{})
		check.OK(t, err)
		return n
	}
	if n := read(); n < 2 {
		t.Errorf("the first backup reads %d windows", n)
	}
	if n := read(); n != 0 {
		t.Errorf("the second backup reads %d windows", n)
	}
	check.OK(t, s.Restore(t.Context(), "empty"))
	fill(t, s, 2)
	if n := read(); n < 2 {
		t.Errorf("the backup after the restore reads %d windows", n)
	}
	list, err := backup.Read(t.Context(), place, "")
	check.OK(t, err)
	check.OK(t, backup.Check(t.Context(), place, list, backup.RestoreOptions{Verify: verify}))
}

// counting counts the windows that are read.
type counting struct {
	backup.Source
	n *int
}

func (c counting) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	return c.Source.Contents(ctx, held, func(x extent.Content) error {
		if x.Records != nil {
			*c.n++
		}
		return emit(x)
	})
}

// A stream that ends early, or in which the source failed, is no backup.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	s := startServer(t, filepath.Join(t.TempDir(), "data"))
	fill(t, s, 1)
	m, err := s.Moment(t.Context())
	check.OK(t, err)
	var whole bytes.Buffer
	check.OK(t, backup.Send(t.Context(), &whole, m, backup.Held{}))
	check.OK(t, m.Close())
	place := backup.Folder(filepath.Join(t.TempDir(), "place"))
	try := func(p []byte) error {
		_, err := backup.Make(t.Context(), place, func(context.Context, backup.Held) (backup.Source, error) {
			return backup.Receive(nopCloser{bytes.NewReader(p)})
		}, backup.Options{})
		return err
	}
	for _, n := range []int{0, 10, whole.Len() / 3, whole.Len() / 2, whole.Len() - 1} {
		if err := try(whole.Bytes()[:n]); !errors.Is(err, backup.ErrBroken) {
			t.Errorf("%d of %d bytes: %v", n, whole.Len(), err)
		}
	}
	failed := strings.Replace(whole.String(), `{"kind":"complete"`, `{"kind":"error","error":"no room"`, 1)
	if err := try([]byte(failed)); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a source that failed: %v", err)
	}
	if names, err := backup.Names(t.Context(), place); err != nil || len(names) != 0 {
		t.Errorf("backups %v, %v", names, err)
	}
	check.OK(t, try(whole.Bytes()))
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// A schedule makes a backup at once, then after each interval, counted from the newest backup by any caller; after a
// failure sooner.
func TestSchedule(t *testing.T) {
	t.Parallel()
	s := startServer(t, filepath.Join(t.TempDir(), "data"))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits []time.Duration
	fail := false
	schedule := backup.Schedule{Place: backup.Folder(filepath.Join(t.TempDir(), "place")), Every: time.Hour,
		Open: func(ctx context.Context, held backup.Held) (backup.Source, error) {
			if fail {
				return nil, errors.New("on purpose")
			}
			return source(s)(ctx, held)
		},
		Options: backup.Options{Keep: 2, Now: func() time.Time { return now }}, Log: slog.New(slog.DiscardHandler)}
	schedule.Sleep = func(_ context.Context, d time.Duration) {
		waits = append(waits, d)
		now = now.Add(d)
		if fail = len(waits) == 2; len(waits) == 5 {
			cancel()
		}
	}
	schedule.Run(ctx)
	if got := fmt.Sprint(waits); got != "[1h0m0s 1h0m0s 5m0s 1h0m0s 1h0m0s]" {
		t.Errorf("waits %s", got)
	}
	names, err := backup.Names(t.Context(), schedule.Place)
	if err != nil || fmt.Sprint(names) != "[20260101T020500.000Z 20260101T030500.000Z]" {
		t.Errorf("backups %v, %v", names, err)
	}
}
