package accountarchive_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountarchive"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobtool"
	"github.com/lazuli-storage/lazuli/internal/sdk/laketool"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// dumpTree returns everything of a filesystem: the paths with their access control, content and metadata, in order.
func dumpTree(t *testing.T, a accountarchive.Account, fs string) (list []string) {
	t.Helper()
	add := func(name string, size int64) {
		access := must(laketool.GetAccess(ctx, a.Lake, fs, name))(t)
		line := fmt.Sprintf("%s %d %+v", name, size, access)
		if name != "" {
			properties, metadata, err := blobtool.Stat(ctx, a.Blobs, fs, name)
			directory := metadata["Hdi_isfolder"] != nil // which has no content, and a type if a request created it
			for _, p := range must(properties, err)(t) {
				if !directory && slices.Contains([]string{"type", "content type", "cache control", "content MD5"}, p.Name) {
					line += " " + p.Value
				}
			}
			for _, key := range slices.Sorted(maps.Keys(metadata)) {
				line += " " + key + "=" + *metadata[key]
			}
		}
		list = append(list, line)
	}
	add("", 0)
	if err := laketool.Tree(ctx, a.Lake, fs, "", func(e laketool.Entry) error {
		add(e.Path, e.Size)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// An account with a hierarchical namespace arrives with its directories, owners and lists; in a flat account the lists
// are counted as lost.
func TestRoundTripOfTrees(t *testing.T) {
	t.Parallel()
	from := open(t, lazulitest.WithHierarchicalNamespace())
	must(from.Blobs.CreateContainer(ctx, "data", nil))(t)
	fs := from.Blobs.ServiceClient().NewContainerClient("data")
	for i, name := range []string{"raw/a.csv", "raw/sub/b.csv", "raw.csv", "top", "empty/x"} {
		must(fs.NewBlockBlobClient(name).UploadBuffer(ctx, noise(i*1000), &blockblob.UploadBufferOptions{
			Metadata:    map[string]*string{"n": to.Ptr(fmt.Sprint(i))},
			HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("text/csv"), BlobCacheControl: to.Ptr("no-store")}}))(t)
	}
	must(fs.NewBlobClient("top").CreateSnapshot(ctx, nil))(t)
	must(fs.NewBlobClient("empty/x").Delete(ctx, nil))(t)
	for name, list := range map[string][]laketool.Access{
		"": {{ACL: "user::rwx,user:u:--x,group::r-x,other::---"}},
		"raw": {{Permissions: "rwxrwx--T"},
			{Owner: "alice", Group: "staff",
				ACL: "user::rwx,group::r-x,group:g:rwx,mask::r-x,other::--x,default:user::rwx,default:user:d:r--,default:group::r-x,default:other::---"}},
		"raw/sub/b.csv": {{Owner: "bob", ACL: "user::rw-,user:u:rw-,group::r--,mask::rw-,other::r--"}},
		"empty":         {{Permissions: "0711"}},
	} {
		for _, a := range list {
			if err := laketool.SetAccess(ctx, from.Lake, "data", name, a); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if err := laketool.Move(ctx, from.Lake, "data", "raw", "moved"); err != nil {
		t.Fatal(err)
	}
	dir := export(t, from, accountarchive.Selection{})
	into := open(t, lazulitest.WithHierarchicalNamespace())
	r := must(accountarchive.Import(ctx, into, dir, accountarchive.ImportOptions{}))(t)
	if d := cmp.Diff(dumpTree(t, from, "data"), dumpTree(t, into, "data")); d != "" {
		t.Errorf("(-from +into):\n%s", d)
	}
	if r.LostAccess != 0 || r.Missing != 0 || r.Items != 8 {
		t.Errorf("%+v", r)
	}
	flat := open(t)
	r = must(accountarchive.Import(ctx, flat, dir, accountarchive.ImportOptions{}))(t)
	if r.LostAccess != 8 || r.Items != 8 { // seven paths and the root; a snapshot has no list of its own
		t.Errorf("into a flat account: %+v", r)
	}
}

// What the dfs endpoint made takes no blocks: an import overwrites it all the same.
func TestImportOverFileOfDfs(t *testing.T) {
	t.Parallel()
	from, into := open(t), open(t, lazulitest.WithHierarchicalNamespace())
	content := noise(9 << 20) // more than one block
	must(from.Blobs.CreateContainer(ctx, "data", nil))(t)
	must(from.Blobs.UploadBuffer(ctx, "data", "dir/large", content, nil))(t)
	fs := into.Lake.NewFileSystemClient("data")
	must(fs.Create(ctx, nil))(t)
	must(fs.NewFileClient("dir/large").Create(ctx, nil))(t)
	must(accountarchive.Import(ctx, into, export(t, from, accountarchive.Selection{}),
		accountarchive.ImportOptions{Overwrite: true}))(t)
	got := make([]byte, len(content))
	must(into.Blobs.DownloadBuffer(ctx, "data", "dir/large", got, nil))(t)
	if !bytes.Equal(got, content) {
		t.Error("the content differs")
	}
}
