package archive_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// powerVar makes a process do writeForPower.
const powerVar = "LAZULI_ARCHIVE_POWER_TEST"

// noContent is content of blobs that is empty.
type noContent struct{}

func (noContent) Stats() []extent.Stat                              { return nil }
func (noContent) Records(uint64, int64, int) (int64, []byte, error) { return 0, nil, nil }
func (noContent) Retain(func(uint64, int64) bool)                   {}
func (noContent) Backup(context.Context, func(func(extent.Ref) bool) error, func(extent.Window) []extent.Range,
	func(extent.Content) error) error {
	return nil
}

// writeForPower keeps groups and sends them, and prints the folders that must have them.
func writeForPower() error {
	a := archive.New(archive.Options{Place: backup.Folder("place"), Every: time.Hour,
		Log: slog.New(slog.DiscardHandler)})
	if err := a.Open("spool", 1); err != nil {
		return err
	}
	var logs []store.Archive
	for i := range backup.Databases {
		logs = append(logs, a.Shard(0).Log(i))
		logs[i].Opened(0)
	}
	a.Shard(0).Content(noContent{})
	if err := a.Attach("keys"); err != nil {
		return err
	}
	for i := range uint64(3) {
		logs[0].Group(store.Group{Prev: i, Number: i + 1, At: logs[0].Stamp(), Payload: bytes.Repeat([]byte{'p'}, 5000)})
		logs[0].Sync()
		fmt.Println("finished spool")
		if a.Send(context.Background()); a.Shard(0).Next().Segment != i+1 {
			return fmt.Errorf("%d segments were sent", a.Shard(0).Next().Segment)
		}
		fmt.Println("finished place")
	}
	return a.Close()
}

// A group that the archive has taken over from a log, and a segment that was sent, outlive a power failure.
func TestPowerFailureOfAnArchive(t *testing.T) {
	t.Parallel()
	if err := crashimage.Available(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(check.Must(filepath.Abs(os.Args[0]))(t))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), powerVar+"=1")
	r := check.Must(crashimage.Record(dir, filepath.Join(t.TempDir(), "trace"), cmd))(t)
	seen := 0
	check.OK(t, r.Replay(func(_ int, e crashimage.Event, d *crashimage.Disk) error {
		folder, ok := strings.CutPrefix(strings.TrimSpace(string(e.Data)), "finished ")
		if e.Kind != crashimage.Print || !ok {
			return nil
		}
		seen++
		want := d.Files(folder, crashimage.Killed, 1)
		for _, v := range []crashimage.Variant{crashimage.Synced, crashimage.Names} {
			got := d.Files(folder, v, 1)
			for name, p := range want {
				// What was sent goes from the spool without a sync: there it may be once more.
				if q, ok := got[name]; !ok || !bytes.Equal(p, q) {
					t.Errorf("%d, %v: %s is there: %v, with %d of %d bytes", seen, v, name, ok, len(q), len(p))
				}
			}
		}
		return nil
	}))
	if seen != 6 {
		t.Errorf("%d steps were seen", seen)
	}
}
