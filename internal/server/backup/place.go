package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// Place holds backups: files with names that have slashes.
type Place interface {
	// Get returns a file, or ErrAbsent.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put creates or replaces a file, durably, as a whole.
	Put(ctx context.Context, name string, content []byte) error
	// Create is Put for a file that must not exist: if it does, the file stays and the error is ErrExists. Of several
	// callers at once, one creates the file.
	Create(ctx context.Context, name string, content []byte) error
	// List calls fn with the names that begin with prefix, which is "" or ends with a slash. The place need not exist.
	List(ctx context.Context, prefix string, fn func(name string) error) error
	// Remove removes a file, which need not exist.
	Remove(ctx context.Context, name string) error
	// Lock makes this process the only writer until unlock is called; ctx of what follows ends if the lock is lost. It
	// creates the place. Errors: ErrLocked.
	Lock(ctx context.Context) (locked context.Context, unlock func() error, err error)
	// Exists reports whether there is anything at the place, if only an empty folder or container.
	Exists(ctx context.Context) (bool, error)
	// String names the place without secrets.
	String() string
}

// ErrNoFolder means that the folder above a place does not exist.
var ErrNoFolder = errors.New("does not exist")

// Errors of the methods of a Place.
var (
	// ErrAbsent means that a place does not have a file. It is the same as for an object of the tier.
	ErrAbsent = tier.ErrAbsent
	// ErrExists means that a place has a file that was to be created.
	ErrExists = tier.ErrExists
)

// folder is a place on a disk.
type folder struct{ path string }

// Folder returns the place at a path, which need not exist.
func Folder(path string) Place { return folder{path} }

func (f folder) String() string { return f.path }

func (f folder) file(name string) string { return filepath.Join(f.path, filepath.FromSlash(name)) }

func (f folder) Get(_ context.Context, name string) ([]byte, error) {
	content, err := disk.ReadFile(f.path, filepath.FromSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w", f.file(name), ErrAbsent)
	}
	return content, err
}

func (f folder) Put(ctx context.Context, name string, content []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := disk.MkdirAll(filepath.Dir(f.file(name)), 0o700); err != nil {
		return err
	}
	return disk.WriteFile(f.path, filepath.FromSlash(name), content)
}

// Create writes the file under a name of its own and links it: a link, unlike a rename, does not replace what is there.
func (f folder) Create(ctx context.Context, name string, content []byte) error {
	part := name + "." + rand.Text() + disk.PartSuffix
	if err := f.Put(ctx, part, content); err != nil {
		return err
	}
	// The content is durable under its first name, so the second one never has a part of it.
	err := os.Link(f.file(part), f.file(name))
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s: %w", f.file(name), ErrExists)
	}
	return errors.Join(err, os.Remove(f.file(part)), disk.SyncDir(filepath.Dir(f.file(name))))
}

func (f folder) List(ctx context.Context, prefix string, fn func(string) error) error {
	err := filepath.WalkDir(f.file(prefix), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		rel, err := filepath.Rel(f.path, path)
		if err != nil {
			return err
		}
		if name := filepath.ToSlash(rel); name != lockName {
			return fn(name)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f folder) Remove(_ context.Context, name string) error {
	if err := os.Remove(f.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f folder) Exists(context.Context) (bool, error) {
	if _, err := os.Stat(f.path); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	return false, f.reachable()
}

// reachable returns an error if the folder above the place does not exist. It is most often the disk for backups that
// is not mounted: the place would be created on the disk of the system, and the backup would be gone with it.
func (f folder) reachable() error {
	parent := filepath.Dir(f.path)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %w: is its disk mounted? If it is the right place, create it first", parent, ErrNoFolder)
	}
	return nil
}

func (f folder) Lock(ctx context.Context) (context.Context, func() error, error) {
	if err := f.reachable(); err != nil {
		return nil, nil, err
	}
	if err := disk.MkdirAll(f.path, 0o700); err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(f.file(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	if err := filelock.Try(file); err != nil {
		if errors.Is(err, filelock.ErrBusy) {
			err = fmt.Errorf("%s: %w", f.path, ErrLocked)
		}
		return nil, nil, errors.Join(err, file.Close())
	}
	return ctx, func() error { return filelock.Close(file) }, nil
}

// Open returns the place that text names: the URL of a container, the address of a bucket, see [Bucket], or the path of
// a folder. account is the connection string of the container's account, "" if the URL has a SAS. Errors: ErrNoFolder
// for a folder that the first backup could not create.
func Open(text, account string) (Place, error) {
	if strings.HasPrefix(text, "s3://") {
		return Bucket(text)
	}
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
		return Container(text, account)
	}
	if text == "" {
		return nil, errors.New("a backup needs the path of a folder, the URL of a container or s3://BUCKET/PREFIX")
	}
	path, err := filepath.Abs(text)
	if err != nil {
		return nil, err
	}
	f := folder{path}
	return f, f.reachable()
}

// OpenSealed is Open for a place whose files are encrypted with the key in a file, see [ReadKey]; "" is Open.
func OpenSealed(text, account, keyFile string) (Place, error) {
	place, err := Open(text, account)
	if err != nil || keyFile == "" {
		return place, err
	}
	key, err := ReadKey(keyFile)
	if err != nil {
		return nil, err
	}
	return Sealed(place, key)
}
