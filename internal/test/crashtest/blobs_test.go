package crashtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// blobWorker writes block blobs of its own container, in one request and in blocks.
type blobWorker struct {
	name      string
	container *container.Client
	version   int
	large     int // large uploads left in this life: fsck reads them all
	blobs     map[string]int
	doubt     map[string]int
	acked     int
}

func newBlobWorker(i int) *blobWorker {
	return &blobWorker{name: fmt.Sprint("container", i), blobs: map[string]int{}}
}

func (w *blobWorker) acknowledged() int { return w.acked }

func (w *blobWorker) connect(s *server) error {
	cred, err := container.NewSharedKeyCredential(account, key)
	if err != nil {
		return err
	}
	w.container, err = container.NewClientWithSharedKeyCredential(s.blob+"/"+w.name, cred,
		&container.ClientOptions{ClientOptions: s.options()})
	if err != nil {
		return err
	}
	w.large = 5
	_, err = w.container.Create(context.Background(), nil)
	return unless(err, "ContainerAlreadyExists")
}

// unless returns err unless it has the code.
func unless(err error, code string) error {
	var r *azcore.ResponseError
	if errors.As(err, &r) && r.ErrorCode == code {
		return nil
	}
	return err
}

// blobContent returns the content of a version of a blob. Large versions span several blocks and records.
func blobContent(name string, version int) []byte {
	n := version * 7919 % 9000
	if version%10 == 0 {
		n = 1_500_000 + version*7919%1_000_000
	}
	var seed [32]byte
	copy(seed[:], name)
	binary.LittleEndian.PutUint64(seed[24:], uint64(version))
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(p)
	return p
}

func (w *blobWorker) step(ctx context.Context, rnd *rand.Rand) error {
	w.version++
	if w.version%10 == 0 {
		if w.large--; w.large < 0 {
			w.version++
		}
	}
	name := fmt.Sprint("blob", rnd.IntN(60))
	blob := w.container.NewBlockBlobClient(name)
	w.doubt = map[string]int{name: w.version}
	p := blobContent(name, w.version)
	var err error
	switch n := rnd.IntN(10); {
	case n == 0 && w.blobs[name] != 0:
		w.doubt[name] = 0
		_, err = blob.Delete(ctx, nil)
	case n <= 3 && len(p) > 0:
		err = w.inBlocks(ctx, blob, p)
	default:
		_, err = blob.Upload(ctx, streaming.NopCloser(bytes.NewReader(p)), nil)
	}
	if err != nil {
		return err
	}
	w.commit()
	w.acked++
	return nil
}

func (w *blobWorker) inBlocks(ctx context.Context, blob *blockblob.Client, p []byte) error {
	var ids []string
	for part := range slices.Chunk(p, len(p)/3+1) {
		id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%08d", len(ids)))
		ids = append(ids, id)
		if _, err := blob.StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(part)), nil); err != nil {
			return err
		}
	}
	_, err := blob.CommitBlockList(ctx, ids, nil)
	return err
}

func (w *blobWorker) commit() {
	for name, version := range w.doubt {
		w.blobs[name] = version
	}
	w.doubt = nil
}

func (w *blobWorker) verify(ctx context.Context, _ bool) error {
	listed := map[string]bool{}
	for pager := w.container.NewListBlobsFlatPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, item := range page.Segment.BlobItems {
			listed[*item.Name] = true
		}
	}
	for name, version := range w.doubt {
		got, err := w.read(ctx, name)
		if err != nil {
			return err
		}
		if w.is(got, name, version) {
			w.commit()
		}
	}
	w.doubt = nil
	for name := range listed {
		if w.blobs[name] == 0 {
			return mismatchf("blob: %s/%s is listed and should not exist", w.name, name)
		}
	}
	for name, version := range w.blobs {
		if listed[name] != (version != 0) {
			return mismatchf("blob: %s/%s of version %d is listed: %v", w.name, name, version, listed[name])
		}
		got, err := w.read(ctx, name)
		if err != nil {
			return err
		}
		if !w.is(got, name, version) {
			return mismatchf("blob: %s/%s is not what was acknowledged as version %d", w.name, name, version)
		}
	}
	return nil
}

// is reports whether content is that of a version; nil is that of a blob that does not exist, and of version 0.
func (w *blobWorker) is(content []byte, name string, version int) bool {
	if version == 0 || content == nil {
		return version == 0 && content == nil
	}
	return bytes.Equal(content, blobContent(name, version))
}

// read returns nil if the blob does not exist.
func (w *blobWorker) read(ctx context.Context, name string) ([]byte, error) {
	r, err := w.container.NewBlobClient(name).DownloadStream(ctx, nil)
	if err != nil {
		return nil, unless(err, "BlobNotFound")
	}
	defer r.Body.Close()
	p := []byte{}
	p, err = io.ReadAll(io.MultiReader(bytes.NewReader(p), r.Body))
	return p, err
}
