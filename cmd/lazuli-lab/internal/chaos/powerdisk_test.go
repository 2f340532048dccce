//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A disk that has lost power has what was synced, and lacks the rest.
func TestPowerDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := newPowerDisk(filepath.Join(dir, "disk"), filepath.Join(dir, "image"))
	if err != nil {
		t.Skip("a file system cannot be mounted here: ", err)
	}
	defer func() { check.OK(t, d.close()) }()
	// The system may write at any time what was not synced, on a machine that is busy for long.
	for try := range 5 {
		synced, other := filepath.Join(d.path, fmt.Sprint("synced", try)), filepath.Join(d.path, fmt.Sprint("other", try))
		f := check.Must(os.Create(synced))(t)
		check.Must(f.WriteString("synced"))(t)
		check.OK(t, f.Sync())
		check.OK(t, f.Close())
		check.OK(t, os.WriteFile(other, []byte("not synced"), 0o600))
		check.OK(t, d.stop())
		if err := os.WriteFile(other, nil, 0o600); err == nil {
			t.Error("the disk takes writes although it has no power")
		}
		check.OK(t, d.start())
		if got := string(check.Must(os.ReadFile(synced))(t)); got != "synced" {
			t.Errorf("a file that was synced has %q", got)
		}
		got, err := os.ReadFile(other)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(got) == 0 {
			return
		}
	}
	t.Error("nothing that was not synced is lost")
}
