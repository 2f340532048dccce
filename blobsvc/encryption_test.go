package blobsvc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

func ptr[T any](v T) *T { return &v }

// cpk is a customer's key made of one byte.
func cpk(b byte) *blob.CPKInfo {
	key := bytes.Repeat([]byte{b}, 32)
	sum := sha256.Sum256(key)
	return &blob.CPKInfo{EncryptionKey: ptr(base64.StdEncoding.EncodeToString(key)),
		EncryptionAlgorithm: ptr(blob.EncryptionAlgorithmTypeAES256),
		EncryptionKeySHA256: ptr(base64.StdEncoding.EncodeToString(sum[:]))}
}

// keyHeaders are those of cpk, for raw requests.
func keyHeaders(prefix string, k *blob.CPKInfo) []string {
	return []string{prefix + "key", *k.EncryptionKey, prefix + "key-sha256", *k.EncryptionKeySHA256, prefix + "algorithm",
		"AES256"}
}

// downloaded reads a range of a blob; count 0 is all of it.
func downloaded(t testing.TB, b *blob.Client, k *blob.CPKInfo, off, count int64) string {
	t.Helper()
	r, err := b.DownloadStream(ctx,
		&blob.DownloadStreamOptions{CPKInfo: k, Range: blob.HTTPRange{Offset: off, Count: count}})
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(r.Body); err != nil {
		t.Fatal(err)
	}
	if k != nil && (r.EncryptionKeySHA256 == nil || *r.EncryptionKeySHA256 != *k.EncryptionKeySHA256) {
		t.Errorf("the answer names another key")
	}
	return buf.String()
}

// atRest reports whether text is anywhere in the files of the service.
func (f *fixture) atRest(text string) bool {
	f.t.Helper()
	found := false
	err := filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		found = found || bytes.Contains(b, []byte(text))
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// refusesOtherKeys checks that content is read with k alone.
func refusesOtherKeys(t *testing.T, b *blob.Client) {
	t.Helper()
	_, err := b.DownloadStream(ctx, nil)
	wantCode(t, err, 409, "BlobUsesCustomerSpecifiedEncryption")
	_, err = b.DownloadStream(ctx, &blob.DownloadStreamOptions{CPKInfo: cpk(9)})
	wantCode(t, err, 409, "BlobCustomerSpecifiedEncryptionMismatch")
	_, err = b.GetProperties(ctx, nil)
	wantCode(t, err, 409, "BlobUsesCustomerSpecifiedEncryption")
}

const secret = "a text that nobody must find in a file "

func TestCustomerProvidedKeys(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	k := cpk(1)
	content := strings.Repeat(secret, 20_000) // several chunks
	bb := c.NewBlockBlobClient("block")
	up, err := bb.Upload(ctx, body(content),
		&blockblob.UploadOptions{CPKInfo: k, Metadata: map[string]*string{"k": ptr("v")}})
	if err != nil || up.EncryptionKeySHA256 == nil || *up.EncryptionKeySHA256 != *k.EncryptionKeySHA256 ||
		!*up.IsServerEncrypted {
		t.Fatal(err, up.EncryptionKeySHA256)
	}
	if f.atRest(secret) || f.atRest(string(bytes.Repeat([]byte{1}, 32))) {
		t.Fatal("content or key lie in the clear")
	}
	refusesOtherKeys(t, bb.BlobClient())
	if got := downloaded(t, bb.BlobClient(), k, 0, 0); got != content {
		t.Fatal("other content comes back")
	}
	for range 50 {
		off := rand.Int64N(int64(len(content)))
		n := 1 + rand.Int64N(min(int64(len(content))-off, 70_000))
		if downloaded(t, bb.BlobClient(), k, off, n) != content[off:off+n] {
			t.Fatalf("range [%d, +%d) differs", off, n)
		}
	}
	p, err := bb.GetProperties(ctx, &blob.GetPropertiesOptions{CPKInfo: k})
	if err != nil || *p.EncryptionKeySHA256 != *k.EncryptionKeySHA256 || *p.Metadata["K"] != "v" {
		t.Fatal(err)
	}

	// What needs the key, and what does not.
	_, err = bb.SetMetadata(ctx, map[string]*string{"a": ptr("b")}, nil)
	wantCode(t, err, 409, "BlobUsesCustomerSpecifiedEncryption")
	if _, err := bb.SetMetadata(ctx, map[string]*string{"a": ptr("b")}, &blob.SetMetadataOptions{CPKInfo: k}); err != nil {
		t.Fatal(err)
	}
	_, err = bb.CreateSnapshot(ctx, nil)
	wantCode(t, err, 409, "BlobUsesCustomerSpecifiedEncryption")
	snap, err := bb.CreateSnapshot(ctx, &blob.CreateSnapshotOptions{CPKInfo: k})
	if err != nil {
		t.Fatal(err)
	}
	old, _ := bb.WithSnapshot(*snap.Snapshot)
	for _, err := range []error{
		func() error { _, err := bb.SetTier(ctx, blob.AccessTierCool, nil); return err }(),
		func() error { _, err := bb.SetTags(ctx, map[string]string{"x": "y"}, nil); return err }(),
		func() error {
			_, err := bb.SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobContentType: ptr("a/b")}, nil)
			return err
		}(),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	// Overwritten with another key: the snapshot keeps its own.
	if _, err := bb.Upload(ctx, body("new"), &blockblob.UploadOptions{CPKInfo: cpk(2)}); err != nil {
		t.Fatal(err)
	}
	if downloaded(t, bb.BlobClient(), cpk(2), 0, 0) != "new" ||
		downloaded(t, old.BlobClient(), k, 5, 100) != content[5:105] {
		t.Error("blob and snapshot have each other's key")
	}

	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	f.reopen()
	c = f.service().NewContainerClient(strings.TrimPrefix(c.URL()[strings.LastIndex(c.URL(), "/"):], "/"))
	bb = c.NewBlockBlobClient("block")
	old, _ = bb.WithSnapshot(*snap.Snapshot)
	if downloaded(t, old.BlobClient(), k, 0, 0) != content {
		t.Error("after a restart other content comes back")
	}

	// A blob in the clear takes no key.
	plain := c.NewBlockBlobClient("plain")
	if _, err := plain.Upload(ctx, body("x"), nil); err != nil {
		t.Fatal(err)
	}
	_, err = plain.DownloadStream(ctx, &blob.DownloadStreamOptions{CPKInfo: k})
	wantCode(t, err, 409, "BlobDoesNotUseCustomerSpecifiedEncryption")

	// Listings show the hash.
	r := f.do(http.MethodGet, c.URL()[len(f.base):]+"?restype=container&comp=list", "").want(t, 200, "")
	if !strings.Contains(r.body, "<CustomerProvidedKeySha256>"+*cpk(2).EncryptionKeySHA256+
		"</CustomerProvidedKeySha256>") {
		t.Error("the listing does not name the key")
	}
}

func TestCustomerProvidedKeysOfBlocks(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	k := cpk(1)
	bb := c.NewBlockBlobClient("b")
	var ids []string
	var content strings.Builder
	stage := func(i int, k *blob.CPKInfo) error {
		ids = append(ids, base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%04d", i)))
		_, err := bb.StageBlock(ctx, ids[len(ids)-1], body(strings.Repeat(secret, i+1)),
			&blockblob.StageBlockOptions{CPKInfo: k})
		return err
	}
	for i := range 40 { // more than stand in the blob's own record
		if err := stage(i, k); err != nil {
			t.Fatal(err)
		}
		content.WriteString(strings.Repeat(secret, i+1))
	}
	_, err := bb.CommitBlockList(ctx, ids, nil)
	wantCode(t, err, 409, "BlobUsesCustomerSpecifiedEncryption")
	_, err = bb.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{CPKInfo: cpk(2)})
	wantCode(t, err, 409, "BlobCustomerSpecifiedEncryptionMismatch")
	if _, err := bb.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{CPKInfo: k}); err != nil {
		t.Fatal(err)
	}
	if downloaded(t, bb.BlobClient(), k, 0, 0) != content.String() ||
		downloaded(t, bb.BlobClient(), k, 777, 20_000) != content.String()[777:20_777] {
		t.Error("other content comes back")
	}
	refusesOtherKeys(t, bb.BlobClient())
	// A block in the clear cannot join them.
	if err := stage(40, nil); err != nil {
		t.Fatal(err)
	}
	_, err = bb.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{CPKInfo: k})
	wantCode(t, err, 409, "BlobDoesNotUseCustomerSpecifiedEncryption")
	if f.atRest(strings.Repeat(secret, 41)) == f.atRest(strings.Repeat(secret, 42)) {
		t.Error("the block in the clear is not in the files: the test looks in the wrong place")
	}
}

func TestCustomerProvidedKeysOfPagesAndAppends(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	k := cpk(1)

	pb := c.NewPageBlobClient("p")
	if _, err := pb.Create(ctx, 64<<10, &pageblob.CreateOptions{CPKInfo: k}); err != nil {
		t.Fatal(err)
	}
	model := make([]byte, 64<<10)
	for range 60 { // writes cut each other
		from := rand.Int64N(100) * 512
		n := (1 + rand.Int64N(28)) * 512
		r := blob.HTTPRange{Offset: from, Count: n}
		if rand.IntN(4) == 0 {
			if _, err := pb.ClearPages(ctx, r, &pageblob.ClearPagesOptions{CPKInfo: k}); err != nil {
				t.Fatal(err)
			}
			clear(model[from : from+n])
			continue
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		copy(model[from:], b)
		if _, err := pb.UploadPages(ctx, body(string(b)), r, &pageblob.UploadPagesOptions{CPKInfo: k}); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		off := rand.Int64N(60 << 10)
		n := 1 + rand.Int64N(64<<10-off)
		if downloaded(t, pb.BlobClient(), k, off, n) != string(model[off:off+n]) {
			t.Fatalf("pages [%d, +%d) differ", off, n)
		}
	}
	_, err := pb.UploadPages(ctx, body(strings.Repeat("x", 512)), blob.HTTPRange{Count: 512}, nil)
	wantCode(t, err, 409, "BlobUsesCustomerSpecifiedEncryption")
	_, err = pb.UploadPages(ctx, body(strings.Repeat("x", 512)), blob.HTTPRange{Count: 512},
		&pageblob.UploadPagesOptions{CPKInfo: cpk(2)})
	wantCode(t, err, 409, "BlobCustomerSpecifiedEncryptionMismatch")
	refusesOtherKeys(t, pb.BlobClient())

	ab := c.NewAppendBlobClient("a")
	if _, err := ab.Create(ctx, &appendblob.CreateOptions{CPKInfo: k}); err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range 20 {
		part := strings.Repeat(secret, i+1)
		if _, err := ab.AppendBlock(ctx, body(part), &appendblob.AppendBlockOptions{CPKInfo: k}); err != nil {
			t.Fatal(err)
		}
		want += part
	}
	_, err = ab.AppendBlock(ctx, body("x"), nil)
	wantCode(t, err, 409, "BlobUsesCustomerSpecifiedEncryption")
	if downloaded(t, ab.BlobClient(), k, 0, 0) != want || downloaded(t, ab.BlobClient(), k, 33, 999) != want[33:1032] {
		t.Error("other content comes back")
	}
	refusesOtherKeys(t, ab.BlobClient())
	if f.atRest(secret) {
		t.Error("content lies in the clear")
	}
}

// TestCustomerProvidedKeysOfSources: what takes a source's bytes reads it with one key and writes with another.
func TestCustomerProvidedKeysOfSources(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.publicContainer()
	from, to := cpk(1), cpk(2)
	path := c.URL()[len(f.base):]
	content := strings.Repeat(secret, 27)[:1024]
	f.do(http.MethodPut, path+"/src", content,
		append([]string{"x-ms-blob-type", "BlockBlob"}, keyHeaders("x-ms-encryption-", from)...)...).want(t, 201, "")
	both := append(keyHeaders("x-ms-encryption-", to), keyHeaders("x-ms-source-encryption-", from)...)
	source := []string{"x-ms-copy-source", c.URL() + "/src"}
	ask := func(path string, headers ...string) reply {
		t.Helper()
		return f.do(http.MethodPut, path, "", append(source, headers...)...)
	}
	f.do(http.MethodPut, path+"/p", "",
		append([]string{"x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "1024"},
			keyHeaders("x-ms-encryption-", to)...)...).want(t, 201, "")
	f.do(http.MethodPut, path+"/a", "",
		append([]string{"x-ms-blob-type", "AppendBlob"}, keyHeaders("x-ms-encryption-", to)...)...).want(t, 201, "")
	ask(path+"/b", append(both, "x-ms-blob-type", "BlockBlob")...).want(t, 201, "")
	ask(path+"/a?comp=appendblock", both...).want(t, 201, "")
	ask(path+"/p?comp=page", append(both, "x-ms-page-write", "update", "x-ms-range", "bytes=0-1023", "x-ms-source-range",
		"bytes=0-1023")...).want(t, 201, "")
	ask(path+"/l?comp=block&blockid=MDA%3D", both...).want(t, 201, "")
	f.do(http.MethodPut, path+"/l?comp=blocklist", `<BlockList><Latest>MDA=</Latest></BlockList>`,
		keyHeaders("x-ms-encryption-", to)...).want(t, 201, "")
	for _, name := range []string{"b", "a", "p", "l"} {
		if got := downloaded(t, c.NewBlobClient(name), to, 0, 0); got != content {
			t.Errorf("%s has other content", name)
		}
		refusesOtherKeys(t, c.NewBlobClient(name))
	}
	ask(path+"/x", "x-ms-blob-type", "BlockBlob").want(t, 409, "CannotVerifyCopySource")
	ask(path+"/x", append(keyHeaders("x-ms-source-encryption-", cpk(3)), "x-ms-blob-type", "BlockBlob")...).want(t, 409,
		"CannotVerifyCopySource")
	// Copy Blob takes no keys.
	ask(path+"/x").want(t, 409, "BlobUsesCustomerSpecifiedEncryption")
	ask(path+"/x", keyHeaders("x-ms-encryption-", to)...).want(t, 400, "UnsupportedHeader")
	if f.atRest(secret) {
		t.Error("content lies in the clear")
	}
}

func TestCustomerProvidedKeyRefusals(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	path := c.URL()[len(f.base):] + "/b"
	good := keyHeaders("x-ms-encryption-", cpk(1))
	change := func(i int, value string) []string {
		h := append([]string{"x-ms-blob-type", "BlockBlob"}, good...)
		h[2+i] = value
		return h
	}
	for name, tc := range map[string]struct {
		headers []string
		code    string
	}{
		"key alone":       {append([]string{"x-ms-blob-type", "BlockBlob"}, good[:2]...), "MissingRequiredHeader"},
		"no base64":       {change(1, "???"), "InvalidHeaderValue"},
		"short key":       {change(1, "YWJj"), "InvalidHeaderValue"},
		"hash of another": {change(3, *cpk(2).EncryptionKeySHA256), "InvalidHeaderValue"},
		"other algorithm": {change(5, "AES128"), "InvalidHeaderValue"},
		"key and scope":   {append(change(5, "AES256"), "x-ms-encryption-scope", "one"), "InvalidHeaderValue"},
	} {
		r := f.do(http.MethodPut, path, "x", tc.headers...)
		if r.status != 400 || r.code() != tc.code || strings.Contains(r.body, *cpk(1).EncryptionKey) {
			t.Errorf("%s: %d %s\n%s", name, r.status, r.code(), r.body)
		}
	}
}

func TestQueryOfEncryptedBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	path := c.URL()[len(f.base):] + "/b"
	f.do(http.MethodPut, path, "1,one\n2,zwei\n",
		append([]string{"x-ms-blob-type", "BlockBlob"}, keyHeaders("x-ms-encryption-", cpk(1))...)...).want(t, 201, "")
	f.do(http.MethodPost, path+"?comp=query", sqlBody("SELECT _2 FROM BlobStorage")).want(t, 409,
		"BlobUsesCustomerSpecifiedEncryption")
	r := f.do(http.MethodPost, path+"?comp=query", sqlBody("SELECT _2 FROM BlobStorage"),
		keyHeaders("x-ms-encryption-", cpk(1))...).want(t, 200, "")
	if !strings.Contains(r.body, "one\nzwei\n") {
		t.Errorf("answer %q", r.body)
	}
}

func TestEncryptionScopes(t *testing.T) {
	t.Parallel()
	declared := []string{"one", "two"}
	f := startWith(t, func(c *blobhost.Config) { manage(c, accountprops.Blob{Scopes: declared}) })
	if st, err := os.Stat(f.dir + "/scopes.json"); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatal(st, err)
	}
	scope := func(name string) *blob.CPKScopeInfo { return &blob.CPKScopeInfo{EncryptionScope: &name} }
	content := strings.Repeat(secret, 10_000)
	c := f.container()
	bb := c.NewBlockBlobClient("b")
	up, err := bb.Upload(ctx, body(content), &blockblob.UploadOptions{CPKScopeInfo: scope("one")})
	if err != nil || up.EncryptionScope == nil || *up.EncryptionScope != "one" {
		t.Fatal(err, up.EncryptionScope)
	}
	if downloaded(t, bb.BlobClient(), nil, 0, 0) != content ||
		downloaded(t, bb.BlobClient(), nil, 12345, 6789) != content[12345:12345+6789] {
		t.Error("other content comes back")
	}
	if p, err := bb.GetProperties(ctx, nil); err != nil || *p.EncryptionScope != "one" {
		t.Error(err)
	}
	if f.atRest(secret) {
		t.Fatal("content lies in the clear")
	}
	_, err = bb.Upload(ctx, body("x"), &blockblob.UploadOptions{CPKScopeInfo: scope("none")})
	wantCode(t, err, 409, "EncryptionScopeNotAvailable")
	_, err = bb.DownloadStream(ctx, &blob.DownloadStreamOptions{CPKInfo: cpk(1)})
	wantCode(t, err, 409, "BlobCustomerSpecifiedEncryptionMismatch")

	// A container's default, which can be binding.
	box := f.service().NewContainerClient(f.containerName())
	if _,
		err := box.Create(ctx, &container.CreateOptions{CPKScopeInfo: &container.CPKScopeInfo{DefaultEncryptionScope: ptr(
		"two"), PreventEncryptionScopeOverride: ptr(true)}}); err != nil {
		t.Fatal(err)
	}
	if p, err := box.GetProperties(ctx, nil); err != nil || *p.DefaultEncryptionScope != "two" ||
		!*p.DenyEncryptionScopeOverride {
		t.Fatal(err)
	}
	if r := f.do(http.MethodGet, "/?comp=list", "").want(t, 200, ""); !strings.Contains(r.body,
		"<DefaultEncryptionScope>two</DefaultEncryptionScope><DenyEncryptionScopeOverride>true</") {
		t.Error("the listing of containers does not name the scope")
	}
	inBox := box.NewBlockBlobClient("b")
	for _, s := range []*blob.CPKScopeInfo{nil, scope("two")} {
		if up, err := inBox.Upload(ctx, body("text"), &blockblob.UploadOptions{CPKScopeInfo: s}); err != nil ||
			*up.EncryptionScope != "two" {
			t.Fatal(err)
		}
	}
	_, err = inBox.Upload(ctx, body("x"), &blockblob.UploadOptions{CPKScopeInfo: scope("one")})
	wantCode(t, err, 403, "RequestForbiddenByContainerEncryptionPolicy")
	_, err = inBox.Upload(ctx, body("x"), &blockblob.UploadOptions{CPKInfo: cpk(1)})
	wantCode(t, err, 403, "RequestForbiddenByContainerEncryptionPolicy")
	// Appends and blocks without a header follow the blob and the container.
	ab := c.NewAppendBlobClient("a")
	if _, err := ab.Create(ctx, &appendblob.CreateOptions{CPKScopeInfo: scope("two")}); err != nil {
		t.Fatal(err)
	}
	if _, err := ab.AppendBlock(ctx, body(secret), nil); err != nil {
		t.Fatal(err)
	}
	_, err = ab.AppendBlock(ctx, body(secret), &appendblob.AppendBlockOptions{CPKScopeInfo: scope("one")})
	wantCode(t, err, 409, "BlobCustomerSpecifiedEncryptionMismatch")
	if downloaded(t, ab.BlobClient(), nil, 0, 0) != secret {
		t.Error("other content comes back")
	}

	// Copies between scopes: the same one shares the bytes, another encrypts them again.
	for _, tc := range []struct{ dst, want string }{{c.URL() + "/same", ""}, {box.URL() + "/other", "two"}} {
		for _, sync := range []string{"", "true"} {
			h := []string{"x-ms-copy-source", bb.URL()}
			if sync != "" {
				h = append(h, "x-ms-requires-sync", sync)
			}
			if strings.HasSuffix(tc.dst, "same") {
				h = append(h, "x-ms-encryption-scope", "one")
			}
			f.do(http.MethodPut, tc.dst[len(f.base):], "", h...).want(t, 202, "")
			r := f.do(http.MethodGet, tc.dst[len(f.base):], "").want(t, 200, "")
			if r.body != content || tc.want != "" && r.header.Get("x-ms-encryption-scope") != tc.want {
				t.Errorf("copy to %s: %d bytes in scope %s", tc.dst, len(r.body), r.header.Get("x-ms-encryption-scope"))
			}
		}
	}
	// With the blocks, the hash and the tags that it has.
	blocks := c.NewBlockBlobClient("blocks")
	var ids []string
	for i := range 30 {
		ids = append(ids, blockName(i))
		must(blocks.StageBlock(ctx, ids[i], body(strings.Repeat(secret, i+1)),
			&blockblob.StageBlockOptions{CPKScopeInfo: scope("one")}))(t)
	}
	must(blocks.CommitBlockList(ctx, ids,
		&blockblob.CommitBlockListOptions{CPKScopeInfo: scope("one"), Tags: map[string]string{"k": "v"},
			HTTPHeaders: &blob.HTTPHeaders{BlobContentMD5: bytes.Repeat([]byte{7}, 16)}}))(t)
	for _, more := range [][]string{{}, {"x-ms-requires-sync", "true", "x-ms-copy-source-tag-option", "COPY"}} {
		f.do(http.MethodPut, box.URL()[len(f.base):]+"/blocks", "", append(more, "x-ms-copy-source", blocks.URL())...).want(t,
			202, "")
		to := box.NewBlockBlobClient("blocks")
		from, list := must(blocks.GetBlockList(ctx, blockblob.BlockListTypeAll, nil))(t),
			must(to.GetBlockList(ctx, blockblob.BlockListTypeAll, nil))(t)
		if diff := cmp.Diff(from.CommittedBlocks, list.CommittedBlocks); diff != "" || len(list.CommittedBlocks) != 30 {
			t.Error(diff)
		}
		if !bytes.Equal(download(t, to, nil), download(t, blocks, nil)) {
			t.Error("the copy with blocks has other content")
		}
		p := must(to.GetProperties(ctx, nil))(t)
		if !bytes.Equal(p.ContentMD5, bytes.Repeat([]byte{7}, 16)) || (p.TagCount != nil) != (len(more) > 0) ||
			*p.EncryptionScope != "two" {
			t.Errorf("hash %x, %v tags", p.ContentMD5, p.TagCount)
		}
	}
	f.do(http.MethodPut, c.URL()[len(f.base):]+"/clear", "", "x-ms-copy-source", bb.URL()).want(t, 202, "")
	if r := f.do(http.MethodGet, c.URL()[len(f.base):]+"/clear", "").want(t, 200, ""); r.body != content ||
		r.header.Get("x-ms-encryption-scope") != "" {
		t.Errorf("copy to the clear: %d bytes in scope %q", len(r.body), r.header.Get("x-ms-encryption-scope"))
	}
	if !f.atRest(secret) {
		t.Error("the copy in the clear is not in the files: the test looks in the wrong place")
	}

	// Disabled, and enabled again.
	declared = []string{"two"}
	f.reopen()
	r := f.do(http.MethodGet, "/"+strings.Split(c.URL()[len(f.base)+1:], "/")[0]+"/b", "")
	r.want(t, 403, "EncryptionScopeDisabled")
	f.do(http.MethodPut, "/"+strings.Split(c.URL()[len(f.base)+1:], "/")[0]+"/n", "x", "x-ms-blob-type", "BlockBlob",
		"x-ms-encryption-scope", "one").want(t, 403, "EncryptionScopeDisabled")
	declared = []string{"one", "two"}
	f.reopen()
	if r := f.do(http.MethodGet, "/"+strings.Split(c.URL()[len(f.base)+1:], "/")[0]+"/b", "").want(t, 200,
		""); r.body != content {
		t.Error("after the scope was enabled again other content comes back")
	}
}

// A shared access signature can prescribe a scope.
func TestEncryptionScopeOfToken(t *testing.T) {
	t.Parallel()
	f := startWith(t, withScope)
	c := f.container()
	name := c.URL()[strings.LastIndex(c.URL(), "/")+1:]
	query, err := sas.BlobSignatureValues{ContainerName: name, BlobName: "b",
		Permissions: (&sas.BlobPermissions{Read: true, Write: true, Create: true}).String(),
		ExpiryTime:  f.now().Add(time.Hour), EncryptionScope: "scope"}.SignWithSharedKey(credential(t))
	if err != nil {
		t.Fatal(err)
	}
	path := "/" + name + "/b?" + query.Encode()
	f.anonymous(http.MethodPut, path, "x-ms-blob-type", "BlockBlob", "x-ms-encryption-scope", "other").want(t, 403,
		"AuthorizationFailure")
	r := f.anonymous(http.MethodPut, path, "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	if r.header.Get("x-ms-encryption-scope") != "scope" {
		t.Errorf("written in scope %q", r.header.Get("x-ms-encryption-scope"))
	}
	if r := f.anonymous(http.MethodGet, path).want(t, 200, ""); r.header.Get("x-ms-encryption-scope") != "scope" {
		t.Errorf("read in scope %q", r.header.Get("x-ms-encryption-scope"))
	}
}

// A range of encrypted content has the hash of what is sent, and its hash and size are those of the clear.
func TestHashOfEncryptedRange(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	path := c.URL()[len(f.base):] + "/b"
	k := keyHeaders("x-ms-encryption-", cpk(1))
	f.do(http.MethodPut, path, secret,
		append([]string{"x-ms-blob-type", "BlockBlob", "Content-MD5", md5Of([]byte(secret))}, k...)...).want(t, 201, "")
	r := f.do(http.MethodGet, path, "",
		append([]string{"x-ms-range", "bytes=5-20", "x-ms-range-get-content-md5", "true"}, k...)...).want(t, 206, "")
	if r.body != secret[5:21] || r.header.Get("Content-MD5") != md5Of([]byte(secret[5:21])) {
		t.Errorf("%q with hash %s", r.body, r.header.Get("Content-MD5"))
	}
}
