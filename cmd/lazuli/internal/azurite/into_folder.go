package azurite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// stageName is the folder, within the data folder, that an import fills. Its entries move to the data folder when it is
// whole.
const stageName = "lazuli-import"

// formatName is the entry by which a folder becomes a data folder of Lazuli. It moves last.
const formatName = datadir.ManifestFile

// Check returns an error that wraps [datadir.ErrFormat] if a server must not start on a data folder: it has no data of
// Lazuli, and either source, the folder in which Azurite would have its data, has some, or an import into the data
// folder has not ended.
func Check(location, source string) error {
	if exists(filepath.Join(location, formatName)) {
		return nil
	}
	if Is(source) {
		return fmt.Errorf("%w: %s has data of Azurite. Stop Azurite, and copy its data to Lazuli's format, beside "+
			"Azurite's files, with\n"+
			"  lazuli import --azurite %s --location %s\nor choose another folder with --location to begin with an empty account",
			datadir.ErrFormat, source, quoted(source), quoted(location))
	}
	if stage := filepath.Join(location, stageName); exists(stage) {
		return fmt.Errorf("%w: an import into %s has not ended; run lazuli import --azurite again, or remove %s",
			datadir.ErrFormat, location, stage)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// quoted returns a path as a shell takes it.
func quoted(path string) string {
	if strings.ContainsAny(path, " '\"$&()*;<>?[]`|~") {
		return "'" + strings.ReplaceAll(path, "'", `'\\''`) + "'"
	}
	return path
}

// FolderOptions are the options of an import into a data folder.
type FolderOptions struct {
	Log      *slog.Logger
	Now      func() time.Time    // as in Options
	Progress func(done, all int) // as in Options
}

// ErrNotEmpty is the error of IntoFolder for a folder that has data of Lazuli.
var ErrNotEmpty = errors.New("the folder has data of Lazuli already")

// IntoFolder imports all accounts of f into a data folder, which must have no data of Lazuli. It may be the folder of
// Azurite itself, whose files stay. Until everything is imported the data folder has nothing but a folder
// lazuli-import, which a further call replaces.
func (f *Folder) IntoFolder(ctx context.Context, location string, o FolderOptions) (result Result, err error) {
	if exists(filepath.Join(location, formatName)) {
		return result, fmt.Errorf("%s: %w", location, ErrNotEmpty)
	}
	stage := filepath.Join(location, stageName)
	if err := os.RemoveAll(stage); err != nil {
		return result, err
	}
	if err := disk.MkdirAll(stage, 0o700); err != nil {
		return result, err
	}
	if result, err = f.intoStage(ctx, stage, o); err != nil {
		return result, err
	}
	return result, publish(stage, location)
}

// intoStage runs a server on the stage, with a clock that the import sets.
func (f *Folder) intoStage(ctx context.Context, stage string, o FolderOptions) (result Result, err error) {
	var list []auth.Account
	for _, name := range f.Accounts() {
		_, key, err := auth.GenerateKey() // clients in the process need none
		if err != nil {
			return result, err
		}
		list = append(list, auth.Account{Name: name, Keys: []auth.Key{key}})
	}
	accounts, err := auth.NewAccounts(list...)
	if err != nil {
		return result, err
	}
	var clock atomic.Pointer[time.Time]
	now := func() time.Time {
		if t := clock.Load(); t != nil {
			return *t
		}
		return time.Now()
	}
	s, err := server.StartContext(ctx,
		server.Config{Location: stage, Relaxed: true, Services: []wire.Service{}, Accounts: accounts, Now: now,
			ClientsNow: time.Now, Log: o.Log})
	if err != nil {
		return result, err
	}
	defer func() {
		clock.Store(nil)
		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}()
	targets := map[string]Account{}
	for _, a := range list {
		if targets[a.Name], err = InProcess(s, a.Name); err != nil {
			return result, err
		}
	}
	return f.Import(ctx, Options{Targets: targets, SetTime: func(t time.Time) { clock.Store(&t) }, Now: o.Now,
		Progress: o.Progress})
}

// InProcess returns clients of an account of a server in this process.
func InProcess(s *server.Server, account string) (a Account, err error) {
	c, err := workerproc.StorageOver(s.InProcess(), account, policy.RetryOptions{MaxRetries: -1}, s.InProcessURL)
	if err != nil {
		return a, err
	}
	return Account{Tables: c.Tables, Queues: c.Queues, Blobs: c.Blobs}, nil
}

// publish moves the stage's entries to the data folder, the one that makes it a data folder last.
func publish(stage, location string) error {
	entries, err := os.ReadDir(stage)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "LOCK" })
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int {
		switch formatName {
		case a.Name():
			return 1
		case b.Name():
			return -1
		}
		return 0
	})
	for _, e := range entries {
		if exists(filepath.Join(location, e.Name())) {
			return fmt.Errorf("%s has %s already, perhaps of an import that was interrupted while it ended; move it away, "+
				"and import again", location, e.Name())
		}
	}
	if err := syncFiles(stage); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == formatName {
			if err := errors.Join(disk.SyncDir(location), disk.SyncDir(stage)); err != nil {
				return err
			}
		}
		if err := os.Rename(filepath.Join(stage, e.Name()), filepath.Join(location, e.Name())); err != nil {
			return err
		}
	}
	if err := disk.SyncDir(location); err != nil {
		return err
	}
	// Names of a stage that came back after a power failure would be those of files that the data folder has.
	return errors.Join(os.RemoveAll(stage), disk.SyncDir(location))
}

// syncFiles makes the files of a folder durable, since a relaxed server need not.
func syncFiles(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return disk.SyncDir(path)
		case !d.Type().IsRegular():
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
