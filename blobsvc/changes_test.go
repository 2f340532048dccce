package blobsvc_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"

	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

// A subscriber hears of each write of a blob, by the time that it is answered, and of nothing else.
func TestChanged(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	f := startWith(t, func(c *blobhost.Config) {
		c.Changed = func(account, container, blob string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, account+"/"+container+"/"+blob)
		}
	})
	box := f.container()
	name := func(url string) string {
		return strings.TrimPrefix(url, strings.TrimSuffix(f.base, "devstoreaccount1"))
	}
	b, p, a := box.NewBlockBlobClient("b/1"), box.NewPageBlobClient("p"), box.NewAppendBlobClient("a")
	tier := func() error { _, err := b.SetTier(ctx, blob.AccessTierCool, nil); return err }
	for _, step := range []struct {
		what, of string
		do       func() error
	}{
		{"put", "b%2F1", func() error { _, err := b.UploadBuffer(ctx, []byte("x"), nil); return err }},
		{"read", "", func() error { _, err := b.GetProperties(ctx, nil); return err }},
		{"stage", "", func() error {
			_, err := b.StageBlock(ctx, "AAAA", streaming.NopCloser(strings.NewReader("y")), nil)
			return err
		}},
		{"commit", "b%2F1", func() error { _, err := b.CommitBlockList(ctx, []string{"AAAA"}, nil); return err }},
		{"metadata", "b%2F1", func() error {
			_,
				err := b.SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil)
			return err
		}},
		{"headers", "b%2F1", func() error { _, err := b.SetHTTPHeaders(ctx, blob.HTTPHeaders{}, nil); return err }},
		{"tags", "b%2F1", func() error { _, err := b.SetTags(ctx, map[string]string{"a": "b"}, nil); return err }},
		{"tier", "b%2F1", tier},
		{"snapshot", "", func() error { _, err := b.CreateSnapshot(ctx, nil); return err }},
		{"pages", "p", func() error { _, err := p.Create(ctx, 512, nil); return err }},
		{"write", "p", func() error {
			_, err := p.UploadPages(ctx, streaming.NopCloser(strings.NewReader(strings.Repeat("z", 512))),
				blob.HTTPRange{Count: 512}, nil)
			return err
		}},
		{"resize", "p", func() error { _, err := p.Resize(ctx, 1024, &pageblob.ResizeOptions{}); return err }},
		{"appendable", "a", func() error { _, err := a.Create(ctx, nil); return err }},
		{"append", "a", func() error {
			_, err := a.AppendBlock(ctx, streaming.NopCloser(strings.NewReader("z")), nil)
			return err
		}},
		{"seal", "a", func() error { _, err := a.Seal(ctx, nil); return err }},
		{"copy", "copy", func() error {
			_,
				err := box.NewBlobClient("copy").StartCopyFromURL(ctx, b.URL(), nil)
			return err
		}},
		{"delete", "", func() error {
			_, err := b.Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
			return err
		}},
	} {
		mu.Lock()
		told = nil
		mu.Unlock()
		if err := step.do(); err != nil {
			t.Fatal(step.what, err)
		}
		var want []string
		if step.of != "" {
			want = []string{strings.ReplaceAll(name(box.URL())+"/"+step.of, "%2F", "/")}
		}
		mu.Lock()
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", step.what, told, want)
		}
		mu.Unlock()
	}
	mu.Lock()
	told = nil
	mu.Unlock()
	if _, err := box.NewBlockBlobClient("none").SetMetadata(ctx, nil, nil); err == nil {
		t.Error("metadata of nothing")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) > 0 {
		t.Errorf("told %q of a refused write", told)
	}
}
