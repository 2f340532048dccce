package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// served is what the queues of a folder serve: a line for each queue, with its messages' states and bodies. cut says that a whole record was
// cut off at the end of a stream.
func served(dir string) (lines map[string]string, found int, cut bool, err error) {
	n, err := natsserver.Start(natsserver.Config{Dir: dir, Relaxed: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, 0, false, err
	}
	defer n.Close()
	for _, d := range n.Damaged() {
		if !d.Torn || d.Kept != "" {
			found++
			cut = cut || d.Torn
		}
	}
	if _, err := Check(ctx, n, func(error) { found++ }); err != nil {
		found++
	}
	s, err := Open(ctx, n, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, found, cut, err
	}
	defer s.Close()
	lines = make(map[string]string)
	for _, name := range []string{"first", "second", "emptied"} {
		lines[name] = servedBy(s, name)
	}
	lines["properties"] = string(s.Properties("acct"))
	return lines, found, cut, nil
}

func servedBy(s *Store, name string) string {
	q, err := s.Queue(ctx, "acct", name)
	if err != nil {
		return "error: " + err.Error()
	}
	list, err := q.PeekAll(ctx, math.MaxInt32, epoch.Add(time.Second))
	if err != nil {
		return "error: " + err.Error()
	}
	var text []string
	for _, m := range list {
		text = append(text, fmt.Sprintf("%v %d %d %.20s", m.ID, m.NextVisible, m.DequeueCount, m.Body))
	}
	if n := q.SetAside(); n > 0 {
		text = append(text, fmt.Sprintf("error: %d set aside", n))
	}
	return strings.Join(text, "\n")
}

// TestCorruption flips bits in every kind of file of the queues, after an orderly stop and after a kill. What is served must be what was
// written, or an error, and whatever is not served as it was written, a check must find. Only where the very last record of a stream is damaged
// its message may have the state before, since a torn write cannot be told from that. LAZULI_CORRUPTIONS is the number of flips for each kind
// of file.
func TestCorruption(t *testing.T) {
	t.Parallel()
	flips := 6
	if n, err := strconv.Atoi(os.Getenv("LAZULI_CORRUPTIONS")); err == nil {
		flips = n
	}
	for _, clean := range []bool{true, false} {
		dir := corruptible(t, clean)
		want, found, _, err := served(copied(t, dir))
		if err != nil || found > 0 {
			t.Fatal(found, err)
		}
		for kind, pattern := range map[string]string{"catalog": "lazuli_catalog/msgs/*.blk", "queue": "queue_*/msgs/*.blk",
			"configuration": "*/meta.inf", "its checksum": "*/meta.sum", "index": "*/msgs/index.db"} {
			paths, err := filepath.Glob(filepath.Join(dir, "jetstream", "$G", "streams", pattern))
			if err != nil {
				t.Fatal(err)
			}
			if len(paths) == 0 {
				continue // after a kill there may be no index
			}
			outcomes := make(map[string]int)
			random := rand.New(rand.NewPCG(7, uint64(len(kind))))
			for range flips {
				path := paths[random.IntN(len(paths))]
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				at, bit := random.IntN(len(data)), random.IntN(8)
				data[at] ^= 1 << bit
				damaged := copied(t, dir)
				rel, err := filepath.Rel(dir, path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(damaged, rel), data, 0o600); err != nil {
					t.Fatal(err)
				}
				outcome := corruptionOutcome(want, damaged)
				outcomes[outcome]++
				if strings.HasPrefix(outcome, "wrong") || strings.HasPrefix(outcome, "missed") {
					t.Errorf("clean %v, %s, byte %d of %d, bit %d: %s", clean, rel, at, len(data), bit, outcome)
				}
				os.RemoveAll(damaged)
			}
			t.Logf("clean %v, %s: %v", clean, kind, outcomes)
		}
	}
}

// corruptionOutcome says what becomes of a damaged folder.
func corruptionOutcome(want map[string]string, dir string) string {
	got, found, cut, err := served(dir)
	if err != nil {
		return "refused"
	}
	outcome := "as written"
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == want[name] {
			continue
		}
		outcome = "partly refused"
		if strings.HasPrefix(got[name], "error") {
			continue
		}
		written := strings.Split(want[name], "\n")
		for _, line := range strings.Split(got[name], "\n") { // fewer messages are served, and none is another than was written
			if !slices.Contains(written, line) && !strings.HasPrefix(line, "error") && line != "" {
				if cut && found > 0 { // a whole last record, with nothing behind it to show that it had been synced
					outcome = "older state, as the last record was cut off, and found"
					continue
				}
				return fmt.Sprintf("wrong: %s serves %q", name, line)
			}
		}
	}
	switch {
	case outcome != "as written" && found == 0:
		return "missed by the check"
	case outcome == "as written" && found > 0:
		return "as written, and found"
	}
	return outcome
}

// copied returns a copy of a folder. JetStream removes the files of a replaced stream in the background, in a folder whose name begins with a dot,
// also after the server has stopped: a copy that meets a file that has just been removed is made again.
func copied(t *testing.T, dir string) string {
	t.Helper()
	for {
		to := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(to, os.DirFS(dir))
		if err == nil {
			return to
		}
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), string(filepath.Separator)+".") {
			t.Fatal(err)
		}
	}
}

// corruptible is a folder with queues in all states.
func corruptible(t *testing.T, clean bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "queues")
	n := startNATS(t, natsserver.Config{Dir: dir})
	s := open(t, n)
	for _, name := range []string{"first", "second", "emptied"} {
		q := create(t, s, name)
		for i := range 30 {
			putOne(t, q, fmt.Sprintf("%s-%02d-%s", name, i, strings.Repeat("x", 200)), epoch.Add(time.Duration(i)))
		}
		for range 10 {
			m := getOne(t, q, epoch.Add(time.Second))
			if err := q.Delete(ctx, m.ID, m.Receipt, epoch.Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			getOne(t, q, epoch.Add(time.Second))
		}
		if name == "emptied" {
			if err := q.Clear(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.SetProperties(ctx, "acct", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.SetMetadata(ctx, "acct", "first", []Meta{{"a", "b"}}); err != nil {
		t.Fatal(err)
	}
	if clean {
		s.Close()
		n.Close()
		return dir
	}
	return copied(t, dir)
}
