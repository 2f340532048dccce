package archive

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// Target stores archived entities.
type Target interface {
	// Put stores an entity and replaces an earlier one with the same key. When it returns nil, the entity must be as
	// durable as it was in Current. It may be called again after any outcome, and concurrently.
	Put(ctx context.Context, e Entity) error
}

type tableTarget struct{ table *tables.Table[tables.Entity] }

// Table archives to another table of an account, by Insert Or Replace Entity.
func Table(storage *workers.Storage, name string) (Target, error) {
	if storage.Tables == nil {
		return nil, errors.New("archive: the connection string has no table endpoint")
	}
	table, err := tables.New[tables.Entity](storage.Tables, name)
	return tableTarget{table}, err
}

func (t tableTarget) tableName() string { return t.table.Name() }

func (t tableTarget) Put(ctx context.Context, e Entity) error {
	var entity tables.Entity
	if err := entity.UnmarshalJSON(e.JSON); err != nil {
		return err
	}
	return t.table.InsertOrReplace(ctx, &entity)
}

type largeTarget struct {
	name  string
	store *largeentity.Store[tables.Entity]
}

// LargeTable archives to another table of an account, and entities beyond the limits of the Table service to blobs of a
// container, as package largeentity stores them. The container may be that of the source.
func LargeTable(storage *workers.Storage, name, container string) (Target, error) {
	store, err := largeentity.New[tables.Entity](storage, name, container)
	return largeTarget{name, store}, err
}

func (t largeTarget) tableName() string { return t.name }

func (t largeTarget) Put(ctx context.Context, e Entity) error {
	var entity tables.Entity
	if err := entity.UnmarshalJSON(e.JSON); err != nil {
		return err
	}
	_, err := t.store.Put(ctx, largeentity.Key(e.Key), entity)
	return err
}

type blobTarget struct {
	blobs     *azblob.Client
	container string
}

// Container archives to block blobs of a container, one for each entity, called =PARTITION/=ROW.json with both keys
// percent-encoded. A key longer than 500 bytes after encoding is truncated, and ends with its SHA-256.
func Container(storage *workers.Storage, name string) (Target, error) {
	if storage.Blobs == nil {
		return nil, errors.New("archive: the connection string has no blob endpoint")
	}
	return blobTarget{storage.Blobs, name}, nil
}

func (t blobTarget) Put(ctx context.Context, e Entity) error {
	_, err := t.blobs.UploadBuffer(ctx, t.container, entityPath(e.Key, maxBlobPart), e.JSON, &azblob.UploadBufferOptions{
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("application/json")},
	})
	return err
}

type folderTarget struct{ path string }

// Folder archives to files below a folder, one for each entity, named like the blobs of Container, except that keys are
// truncated at 255 bytes, the maximum length of a file name. A link in it that leads out of the folder is an error.
func Folder(path string) Target { return folderTarget{path} }

// Put writes a temporary file in the same folder, syncs and renames it, so that a crash leaves the old file or the new
// one.
func (t folderTarget) Put(_ context.Context, e Entity) (err error) {
	// Its name has to be as durable as what it gets.
	if err := disk.MkdirAll(t.path, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(t.path)
	if err != nil {
		return err
	}
	defer root.Close()
	path := filepath.FromSlash(entityPath(e.Key, maxFileName))
	folder := filepath.Dir(path)
	if err := root.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	part := filepath.Join(folder, ".new-"+rand.Text())
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(root.Remove(part)))
		}
	}()
	_, err = f.Write(e.JSON)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := root.Rename(part, path); err != nil {
		return err
	}
	// The directory entry must be on disk too, and those of new parent folders.
	return errors.Join(syncFolder(root, folder), syncFolder(root, "."))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func syncFolder(root *os.Root, path string) error {
	d, err := root.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lengths in bytes of the two parts of a path: a file system's longest file name, and half of a blob's longest name.
const (
	maxFileName = 255
	maxBlobPart = 500
)

// entityPath maps every key to a unique path below the root: an encoded key has no slash, and the leading "="
// makes "", "." and ".." ordinary names. Each part has at most longest bytes.
func entityPath(k Key, longest int) string {
	const extension = ".json"
	return pathPart(k.PartitionKey, longest) + "/" + pathPart(k.RowKey, longest-len(extension)) + extension
}

// pathPart encodes a key. A key that is too long ends with "%~", which no encoded key contains, and its hash.
func pathPart(key string, longest int) string {
	part := "=" + url.QueryEscape(key)
	if len(part) <= longest {
		return part
	}
	sum := sha256.Sum256([]byte(key))
	end := "%~" + hex.EncodeToString(sum[:])
	return part[:longest-len(end)] + end
}
