package backup

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// OpenObjects returns the object store that text names: as [Open], a folder, a container or a
// bucket, without backups in it.
func OpenObjects(text, account string) (tier.Objects, error) {
	place, err := Open(text, account)
	if err != nil {
		return nil, err
	}
	switch p := place.(type) {
	case blobs:
		return blobObjects{p}, nil
	case *bucket:
		return bucketObjects{p}, nil
	}
	return folderObjects{place.(folder)}, nil
}

// OpenSealedObjects is OpenObjects with the key in a file, see [ReadKey]; "" is no key.
func OpenSealedObjects(text, account, keyFile string) (o tier.Objects, key []byte, err error) {
	if o, err = OpenObjects(text, account); err == nil && keyFile != "" {
		key, err = ReadKey(keyFile)
	}
	return o, key, err
}

// folderObjects are objects in files.
type folderObjects struct{ folder }

// Create writes the file under a name of its own and links it: a link, unlike a rename, does not replace what is there.
func (f folderObjects) Create(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	path := f.file(name)
	if _, err := os.Stat(path); err == nil {
		return tier.ErrExists
	}
	if err := errors.Join(ctx.Err(), f.reachable()); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	part := path + "." + rand.Text() + disk.PartSuffix
	out, err := disk.OS.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for at := int64(0); at < size && err == nil; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-at)]
		var n int
		if n, err = content.ReadAt(buf, at); n == len(buf) { // io.EOF may come with the last bytes
			_, err = out.WriteAt(buf, at)
		}
	}
	// The content is durable under its first name, so the second one never has a part of it.
	if err = errors.Join(err, out.Sync(), out.Close(), ctx.Err()); err == nil {
		if err = os.Link(part, path); errors.Is(err, fs.ErrExist) {
			err = tier.ErrExists
		}
	}
	return errors.Join(err, os.Remove(part), disk.SyncDir(dir))
}

// Range implements [tier.Objects].
func (f folderObjects) Range(ctx context.Context, name string, off int64, p []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := os.Open(f.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		// A disk that is not mounted has no files, and is no loss of them.
		if _, gone := os.Stat(filepath.Dir(f.file(name))); gone != nil {
			return gone
		}
		return fmt.Errorf("%s: %w", f.file(name), tier.ErrAbsent)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if n, err := in.ReadAt(p, off); n < len(p) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}

// List implements [tier.Objects].
func (f folderObjects) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	if err := f.reachable(); err != nil {
		return err
	}
	return f.folder.List(ctx, prefix, func(name string) error {
		if strings.HasSuffix(name, disk.PartSuffix) {
			return nil // of a process that was killed, or that writes it now
		}
		info, err := os.Stat(f.file(name))
		if err != nil {
			return err
		}
		return fn(name, info.Size())
	})
}

// blobObjects are objects in the blobs of a container.
type blobObjects struct{ blobs }

const (
	// blockSize is the size in bytes of the blocks of an object, and blockWriters how many are sent at the same time.
	blockSize    = 4 << 20
	blockWriters = 4
)

// Create sends the content as blocks, each with its MD5, and commits them unless the blob exists: until then there is
// no blob. The account drops blocks that were not committed after a week.
func (b blobObjects) Create(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	client := b.client.NewBlockBlobClient(name)
	if _, err := client.GetProperties(ctx, nil); err == nil {
		return tier.ErrExists
	} else if !bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound, bloberror.ResourceNotFound) {
		return err
	}
	err := b.create(ctx, client, content, size)
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if _, err = b.client.Create(ctx, nil); err == nil || bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			err = b.create(ctx, client, content, size)
		}
	}
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		err = tier.ErrExists
	}
	return err
}

func (b blobObjects) create(ctx context.Context, client *blockblob.Client, content io.ReaderAt, size int64) error {
	blocks := make([]string, (size+blockSize-1)/blockSize)
	writes, writing := errgroup.WithContext(ctx)
	writes.SetLimit(blockWriters)
	for i := range blocks {
		blocks[i] = base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(i)))
		writes.Go(func() error {
			off := int64(i) * blockSize
			p := make([]byte, min(blockSize, size-off))
			if n, err := content.ReadAt(p, off); n < len(p) {
				return err
			}
			sum := md5.Sum(p)
			_, err := client.StageBlock(writing, blocks[i], streaming.NopCloser(bytes.NewReader(p)),
				&blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
			return err
		})
	}
	if err := writes.Wait(); err != nil {
		return err
	}
	any := azcore.ETagAny
	_, err := client.CommitBlockList(ctx, blocks, &blockblob.CommitBlockListOptions{
		AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}}})
	return err
}

// Range implements [tier.Objects].
func (b blobObjects) Range(ctx context.Context, name string, off int64, p []byte) error {
	r, err := b.client.NewBlobClient(name).DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: off, Count: int64(len(p))}})
	switch {
	// A container that is gone, and an account that has no such container, are no proof that the content is lost.
	case bloberror.HasCode(err, bloberror.BlobNotFound):
		return fmt.Errorf("%s/%s: %w", b.url, name, tier.ErrAbsent)
	case bloberror.HasCode(err, bloberror.InvalidRange):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	defer r.Body.Close()
	answered := int64(len(p))
	if r.ContentLength != nil {
		answered = *r.ContentLength
	}
	if err = readRange(r.Body, p, answered); err != nil && err != io.ErrUnexpectedEOF {
		err = fmt.Errorf("%s/%s: %w", b.url, name, err)
	}
	return err
}

// readRange fills p from an answer of a length. An object that is too short has an answer that is, with the error
// io.ErrUnexpectedEOF; a connection that ends early has another error, as it says nothing about the object.
func readRange(r io.Reader, p []byte, answered int64) error {
	_, err := io.ReadFull(r, p)
	if errors.Is(err, io.ErrUnexpectedEOF) && answered == int64(len(p)) {
		return errors.New("the answer ended early")
	}
	return err
}

// List implements [tier.Objects].
func (b blobObjects) List(ctx context.Context, prefix string, fn func(string, int64) error) error {
	return b.list(ctx, prefix, fn)
}

// Remove implements [tier.Objects].
func (b blobObjects) Remove(ctx context.Context, name string) error {
	err := b.blobs.Remove(ctx, name)
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		err = nil
	}
	return err
}
