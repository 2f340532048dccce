package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// blobsOf returns a client of one node.
// patientRetries lets clients of a cluster wait for elections, for some minutes in all. The SDK's pauses overflow after
// more retries.
var patientRetries = policy.RetryOptions{MaxRetries: 35, RetryDelay: 100 * time.Millisecond,
	MaxRetryDelay: 5 * time.Second}

func blobsOf(t *testing.T, s *Server) *azblob.Client {
	t.Helper()
	return check.Must(azblob.NewClientFromConnectionString(s.ConnectionString(), &azblob.ClientOptions{
		ClientOptions: policy.ClientOptions{Retry: patientRetries}}))(t)
}

// random returns bytes that are the same for a seed.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// Blobs of all sizes that one node acknowledges are read from every node; damaged and lost extents are replaced by the
// other nodes' copies.
func testNodesShareBlobs(t *testing.T, nodes [3]*Server) {
	ctx := t.Context()
	_, err := blobsOf(t, nodes[0]).CreateContainer(ctx, "box", nil)
	check.OK(t, err)
	contents := map[string][]byte{}
	// The content of node 0 is too large to be passed on to another node: it is in an extent of its own.
	for i, size := range []int{0, 1, 4 << 10, 300 << 10, 20 << 10, 3<<20 + 5} {
		name := fmt.Sprint("b", size)
		contents[name] = random(uint64(size), size)
		_, err := blobsOf(t, nodes[i%3]).UploadBuffer(ctx, "box", name, contents[name],
			&azblob.UploadBufferOptions{BlockSize: 1 << 20})
		check.OK(t, err)
	}
	readAll := func(when string, node int) {
		t.Helper()
		for name, want := range contents {
			var got bytes.Buffer
			r, err := blobsOf(t, nodes[node]).DownloadStream(ctx, "box", name, nil)
			if err == nil {
				_, err = got.ReadFrom(r.Body)
			}
			if err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s: node %d: blob %s has %d bytes, %v; want %d", when, node, name, got.Len(), err, len(want))
			}
		}
	}
	for i := range nodes {
		readAll("after the upload", i)
	}

	// A blob that a node has overwritten is what the others read next.
	contents["b1"] = []byte("new")
	_, err = blobsOf(t, nodes[2]).UploadBuffer(ctx, "box", "b1", contents["b1"], nil)
	check.OK(t, err)
	readAll("after an overwrite", 0)

	// The metadata of a node differs from the cluster's: it starts with that of the others. Then its extents are damaged.
	check.OK(t, nodes[0].rejoin(ctx, map[string]error{"blobs": replog.ErrDiverged}))
	readAll("after joining again", 0)
	if kept, _ := filepath.Glob(filepath.Join(nodes[0].Path(), "blobs.db.diverged-*")); len(kept) != 1 {
		t.Errorf("kept files: %q", kept)
	}
	check.OK(t, nodes[0].rejoin(ctx, nil)) // so that nothing is checked already
	for _, path := range check.Must(filepath.Glob(filepath.Join(nodes[0].Path(), "extents", "*")))(t) {
		data := check.Must(os.ReadFile(path))(t)
		for at := 100; at < len(data); at += 1000 {
			data[at] ^= 1
		}
		f := check.Must(os.OpenFile(path, os.O_WRONLY, 0))(t)
		check.Must(f.WriteAt(data, 0))(t)
		check.OK(t, f.Close())
	}
	readAll("after damage", 0)
	if nodes[0].services.Load().list()[0].blobs.State.Membership.Healed() == 0 {
		t.Error("no damage was reported")
	}
	_, content := nodes[0].services.Load().list()[0].blobs.State.Damages()
	if content == 0 {
		t.Error("no damage was counted")
	}
	check.OK(t, nodes[0].Ready())

	_, err = blobsOf(t, nodes[1]).DeleteBlob(ctx, "box", "b1", nil)
	check.OK(t, err)
	for i := range nodes {
		_, err := blobsOf(t, nodes[i]).DownloadStream(ctx, "box", "b1", nil)
		if !bloberror.HasCode(err, bloberror.BlobNotFound) {
			t.Errorf("node %d: a deleted blob: %v", i, err)
		}
	}
}
