package chaos

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
)

// historyBlobs makes the requests of histories to the container of [sharedBlobs].
type historyBlobs struct{ *sharedBlobs }

// unit is the size of the smallest block. The content of a block is its name, repeated.
const unit = 16

// historyBlock returns the content of a block or of a value. Every fourth is too large for the log of the metadata.
func historyBlock(name string) []byte {
	n := 1
	if crc32.ChecksumIEEE([]byte(name))%4 == 0 {
		n = 3000
	}
	return bytes.Repeat(fmt.Appendf(nil, "%-*s", unit, name), n)
}

// historyNames returns the names of the blocks that a content has.
func historyNames(content []byte) (string, error) {
	var names []string
	for len(content) > 0 {
		name := strings.TrimSpace(string(content[:min(unit, len(content))]))
		rest, found := bytes.CutPrefix(content, historyBlock(name))
		if name == "" || !found {
			return "", fmt.Errorf("%w: %q", errOtherBytes, content[:min(2*unit, len(content))])
		}
		names, content = append(names, name), rest
	}
	return strings.Join(names, " "), nil
}

// create creates an empty blob unless it exists: then the status is 409.
func (b historyBlobs) create(ctx context.Context, node int, kind, name string) error {
	missing := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(
		azcore.ETagAny)}}
	if kind == kindAppend {
		_, err := b.containers[node].NewAppendBlobClient(name).Create(ctx,
			&appendblob.CreateOptions{AccessConditions: missing})
		return err
	}
	_, err := b.containers[node].NewBlockBlobClient(name).Upload(ctx, body(nil),
		&blockblob.UploadOptions{AccessConditions: missing})
	return err
}

// do makes a request.
func (b historyBlobs) do(ctx context.Context, node int, name string, r blobRequest) (a blobAnswer, err error) {
	c := b.containers[node].NewBlockBlobClient(name)
	switch r.do {
	case doRead:
		return b.readHistory(ctx, node, name)
	case doWrite:
		conditions := &blob.AccessConditions{}
		// One of two conditions, by what the history is about; both at once would hide which one was violated.
		switch {
		case r.kind == kindETag:
			conditions.ModifiedAccessConditions = &blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(r.condition))}
		case r.condition != "":
			conditions.LeaseAccessConditions = &blob.LeaseAccessConditions{LeaseID: &r.condition}
		}
		answer, err := c.Upload(ctx, body(historyBlock(r.value)), &blockblob.UploadOptions{AccessConditions: conditions})
		if err == nil {
			a.etag = string(*answer.ETag)
		}
		return a, err
	case doAcquire, doRelease:
		l, err := lease.NewBlobClient(c, &lease.BlobClientOptions{LeaseID: &r.condition})
		// Only malformed options fail here; nothing was sent.
		if err != nil {
			return a, err
		}
		if r.do == doAcquire {
			// Infinite: the end of a lease by time would be a state change that no request explains.
			_, err = l.AcquireLease(ctx, -1, nil)
		} else {
			_, err = l.ReleaseLease(ctx, nil)
		}
		return a, err
	case doAppend:
		o := &appendblob.AppendBlockOptions{}
		if r.position >= 0 {
			o.AppendPositionAccessConditions = &appendblob.AppendPositionAccessConditions{AppendPosition: to.Ptr(
				int64(r.position * unit))}
		}
		// Each value fills a block of the same size, so that a position is a number of values.
		_, err = b.containers[node].NewAppendBlobClient(name).AppendBlock(ctx, body(fmt.Appendf(nil, "%-*s", unit, r.value)),
			o)
		return a, err
	case doStage:
		_, err = c.StageBlock(ctx, blockID(r.value), body(historyBlock(r.value)), nil)
		return a, err
	case doCommit:
		var ids []string
		for _, id := range strings.Fields(r.value) {
			ids = append(ids, blockID(id))
		}
		_, err = c.CommitBlockList(ctx, ids, nil)
		return a, err
	}
	// A request that is not made would be explained by every order.
	panic("chaos: unknown request " + r.do)
}

func blockID(name string) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%-8s", name))
}

// readHistory reads a blob, and the names of the blocks that it has.
func (b historyBlobs) readHistory(ctx context.Context, node int, name string) (a blobAnswer, err error) {
	r, err := b.containers[node].NewBlobClient(name).DownloadStream(ctx, nil)
	if err != nil {
		return a, err
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return a, err
	}
	a.etag = string(*r.ETag)
	a.leased = r.LeaseState != nil && *r.LeaseState == lease.StateTypeLeased
	// blocks are as small as possible: the position of an append counts them
	if strings.HasPrefix(name, "history-"+kindAppend) {
		for ; len(content) >= unit; content = content[unit:] {
			a.value = strings.TrimSpace(a.value + " " + strings.TrimSpace(string(content[:unit])))
		}
		if len(content) > 0 {
			err = fmt.Errorf("%w: %d bytes behind the blocks", errOtherBytes, len(content))
		}
		return a, err
	}
	a.value, err = historyNames(content)
	return a, err
}
