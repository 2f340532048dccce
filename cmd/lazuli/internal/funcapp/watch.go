package funcapp

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server"
)

// StorageFolder is the folder of an app in which --storage keeps its data.
const StorageFolder = ".lazuli"

// StartStorage serves storage on Azurite's ports, for an app that says UseDevelopmentStorage=true.
func StartStorage(ctx context.Context, dir string, log *slog.Logger) (*server.Server, error) {
	stack, err := server.StartContext(ctx, server.Config{Location: filepath.Join(dir, StorageFolder),
		Blob: "127.0.0.1:10000", Queue: "127.0.0.1:10001", Table: "127.0.0.1:10002", Log: log})
	if err != nil {
		return nil, fmt.Errorf("func start: --storage: %w (if a storage server runs already, leave out --storage)", err)
	}
	log.Info("storage is served on ports 10000 to 10002", "folder", filepath.Join(dir, StorageFolder))
	return stack, nil
}

// watchPoll is the interval at which the files of an app are looked at.
const watchPoll = 500 * time.Millisecond

// unwatched are the folders of an app whose files are not its own.
var unwatched = []string{"node_modules", ".git", ".venv", "venv", "env", "__pycache__", ".vscode", StorageFolder}

// builds are the folders of a .NET or Java project that a build writes.
var builds = []string{"bin", "obj", "target"}

// maxWatched bounds the files of an app that are looked at.
const maxWatched = 20_000

// filesState returns a hash of the names, sizes and times of an app's files.
func filesState(dir string) (uint64, error) {
	h, n, built := fnv.New64a(), 0, IsProject(dir) || isMaven(dir)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // Removed meanwhile.
		case err != nil:
			return err
		case d.IsDir() && path != dir && (slices.Contains(unwatched, d.Name()) || built && slices.Contains(builds, d.Name())):
			return fs.SkipDir
		case d.IsDir(), filepath.Ext(path) == ".log": // the output of this very command may go to one
			return nil
		}
		if n++; n > maxWatched {
			return fmt.Errorf("%s has more than %d files", dir, maxWatched)
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintf(h, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return h.Sum64(), err
}

// changed waits until the files of a folder have changed since a fingerprint, and have then stayed the same for a
// while. It returns the new fingerprint, or the error of ctx.
func changed(ctx context.Context, dir string, since uint64) (uint64, error) {
	ticker := time.NewTicker(watchPoll)
	defer ticker.Stop()
	last := since
	for {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-ticker.C:
		}
		now, err := filesState(dir)
		if err != nil {
			return 0, err
		}
		if now == last && now != since {
			return now, nil
		}
		last = now
	}
}

// Watch runs an app again and again, each time until its files change. An app that does not start waits for the next
// change. It returns when ctx is done.
func Watch(ctx context.Context, dir string, log *slog.Logger, run func(context.Context) error) error {
	state, err := filesState(dir)
	if err != nil {
		return fmt.Errorf("func start: --watch: %w", err)
	}
	for {
		running, stop := context.WithCancel(ctx)
		// Room for one value in both channels, so that neither goroutine hangs when this one has left.
		ended := make(chan error, 1)
		go func() { ended <- run(running) }()
		next := make(chan error, 1)
		// The watch begins together with the app: a change during a slow start must not be missed.
		go func() {
			var err error
			state, err = changed(ctx, dir, state)
			next <- err
		}()
		over := false
		select {
		case err = <-ended:
			over = true
			if err != nil && ctx.Err() == nil {
				log.Error(err.Error())
				log.Info("waiting for a change of the files")
			}
			// An app that ended by itself, as by a syntax error, is started again only after a change: else it would fail in
			// a loop.
			err = <-next
		case err = <-next:
		}
		if err == nil {
			log.Info("files have changed; starting the app again")
		}
		stop()
		// The old app must have ended before the new one takes its port.
		if !over {
			if runErr := <-ended; runErr != nil {
				log.Error(runErr.Error())
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("func start: --watch: %w", err)
		}
	}
}
