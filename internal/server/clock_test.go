package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// A start on a folder that was written by a clock that was ahead logs a warning: its files have that time, or, if they
// were copied since, its list of files.
func TestStartAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	c := quiet(t.TempDir())
	s, err := Start(c)
	check.OK(t, err)
	check.OK(t, s.Stop(t.Context()))
	const warning = "by a clock that was ahead of this one"
	for i, ahead := range []time.Duration{0, 24 * time.Hour, 0, 24 * time.Hour, 0} {
		at := time.Now().Add(ahead)
		if i < 3 {
			check.OK(t, os.Chtimes(filepath.Join(c.Location, "tables.db"), at, at))
		} else {
			const manifest, kind = "MANIFEST", "lazuli data folder, format"
			var list map[string]any
			check.OK(t, sumfile.Read(filepath.Join(c.Location, manifest), kind, datadir.Format, &list))
			list["written"] = at
			check.OK(t, sumfile.Write(disk.OS, filepath.Join(c.Location, manifest), kind, datadir.Format, list))
		}
		log := &testlog.Buffer{}
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		s, err := Start(c)
		check.OK(t, err)
		check.OK(t, s.Stop(t.Context()))
		if told := strings.Contains(log.String(), warning); told != (ahead > 0) {
			t.Errorf("written %v ahead: %s", ahead, log)
		}
	}
}
