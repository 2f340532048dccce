package blobsvc_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// modelBlob is a blob as the model has it: blocks in order, an id of "" for what Put Blob wrote.
type modelBlob struct {
	ids, contents []string
	metadata      string
}

func (b *modelBlob) content() string { return strings.Join(b.contents, "") }

// model is a container in memory.
type model struct {
	blobs       map[string]*modelBlob
	snapshots   map[string]map[string]string // name, snapshot: content
	uncommitted map[string]map[string]string // name, block id: content
}

// Random operations leave the service in the state that the model has, also after garbage was collected, extents were
// compacted, and the service was started again.
func TestLikeAModel(t *testing.T) {
	t.Parallel()
	f := startWith(t, withScope)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		box := f.service().NewContainerClient(fmt.Sprintf("model%04d", n))
		n++
		o := &container.CreateOptions{}
		if n%2 == 0 { // every other container is encrypted
			o = inScope
		}
		must(box.Create(ctx, o))(rt)
		m := model{map[string]*modelBlob{}, map[string]map[string]string{}, map[string]map[string]string{}}
		name := rapid.SampledFrom([]string{"a", "a/b", "c"})
		content := rapid.Custom(func(rt *rapid.T) string {
			size := rapid.SampledFrom([]int{0, 1, 10, 5000, 300_000}).Draw(rt, "size")
			return strings.Repeat(string(rune('a'+rapid.IntRange(0, 25).Draw(rt, "fill"))), size)
		})
		id := rapid.Map(rapid.IntRange(0, 5), blockName)
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				at, text, meta := name.Draw(rt, "name"), content.Draw(rt, "content"),
					rapid.SampledFrom([]string{"", "x"}).Draw(rt, "metadata")
				o := &blockblob.UploadOptions{}
				if meta != "" {
					o.Metadata = map[string]*string{"M": &meta}
				}
				must(box.NewBlockBlobClient(at).Upload(ctx, body(text), o))(rt)
				m.blobs[at] = &modelBlob{ids: []string{""}, contents: []string{text}, metadata: meta}
				delete(m.uncommitted, at)
			},
			"stage": func(rt *rapid.T) {
				at, block := name.Draw(rt, "name"), id.Draw(rt, "block")
				text := content.Filter(func(s string) bool { return s != "" }).Draw(rt, "content")
				must(box.NewBlockBlobClient(at).StageBlock(ctx, block, body(text), nil))(rt)
				if m.uncommitted[at] == nil {
					m.uncommitted[at] = map[string]string{}
				}
				m.uncommitted[at][block] = text
			},
			"commit": func(rt *rapid.T) {
				at, ids := name.Draw(rt, "name"), rapid.SliceOfN(id, 0, 8).Draw(rt, "blocks")
				next, ok := &modelBlob{}, true
				for _, i := range ids {
					text, found := m.uncommitted[at][i]
					if old := m.blobs[at]; !found && old != nil {
						for k := range old.ids {
							if old.ids[k] == i {
								text, found = old.contents[k], true
								break
							}
						}
					}
					next.ids, next.contents, ok = append(next.ids, i), append(next.contents, text), ok && found
				}
				_, err := box.NewBlockBlobClient(at).CommitBlockList(ctx, ids, nil)
				if !ok {
					wantCode(rt, err, 400, "InvalidBlockList")
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				m.blobs[at] = next
				delete(m.uncommitted, at)
			},
			"snapshot": func(rt *rapid.T) {
				at := name.Draw(rt, "name")
				resp, err := box.NewBlobClient(at).CreateSnapshot(ctx, nil)
				if m.blobs[at] == nil {
					wantCode(rt, err, 404, "BlobNotFound")
					return
				}
				if m.snapshots[at] == nil {
					m.snapshots[at] = map[string]string{}
				}
				m.snapshots[at][*resp.Snapshot] = m.blobs[at].content()
			},
			"copy": func(rt *rapid.T) {
				from, at := name.Draw(rt, "from"), name.Draw(rt, "to")
				_, err := box.NewBlobClient(at).StartCopyFromURL(ctx, box.NewBlobClient(from).URL(), nil)
				if m.blobs[from] == nil {
					wantCode(rt, err, 404, "BlobNotFound")
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				b := *m.blobs[from]
				m.blobs[at] = &b
				delete(m.uncommitted, at)
			},
			"delete": func(rt *rapid.T) {
				at := name.Draw(rt, "name")
				_, err := box.NewBlobClient(at).Delete(ctx,
					&blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
				if m.blobs[at] == nil {
					wantCode(rt, err, 404, "BlobNotFound")
					return
				}
				delete(m.blobs, at)
				delete(m.snapshots, at)
				delete(m.uncommitted, at)
			},
			"collect": func(rt *rapid.T) {
				if err := f.parts.Clean(ctx); err != nil {
					rt.Fatal(err)
				}
				if _, err := f.parts.State.Maintenance.Compact(ctx, extent.CompactOptions{}); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) { m.check(rt, box) },
		})
		m.check(rt, box)
	})
	if audit := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t); audit.Torn != 0 {
		t.Errorf("%+v", audit)
	}
}

// check compares a container with the model.
func (m *model) check(rt *rapid.T, box *container.Client) {
	rt.Helper()
	var want, got []string
	for name, b := range m.blobs {
		for at, text := range m.snapshots[name] {
			want = append(want, fmt.Sprint(name, "@", at, " ", len(text)))
		}
		want = append(want, fmt.Sprint(name, "@~ ", len(b.content()), b.metadata))
	}
	for name := range m.uncommitted {
		if m.blobs[name] == nil {
			want = append(want, name+"@~ 0")
		}
	}
	sort.Strings(want)
	pager := box.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{MaxResults: to.Ptr(int32(2)),
		Include: container.ListBlobsInclude{Snapshots: true, UncommittedBlobs: true, Metadata: true}})
	for pager.More() {
		for _, b := range must(pager.NextPage(ctx))(rt).Segment.BlobItems {
			at := "~"
			if b.Snapshot != nil {
				at = *b.Snapshot
			}
			meta := ""
			if v := b.Metadata["m"]; v != nil && b.Snapshot == nil {
				meta = *v
			}
			got = append(got, fmt.Sprint(*b.Name, "@", at, " ", *b.Properties.ContentLength, meta))
		}
	}
	sort.Strings(got)
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("listing: %s", diff)
	}
	for name, b := range m.blobs {
		c := box.NewBlobClient(name)
		if text := string(download(rt, c, nil)); text != b.content() {
			rt.Fatalf("%s has %d bytes, want %d", name, len(text), len(b.content()))
		}
		for at, want := range m.snapshots[name] {
			if text := string(download(rt, must(c.WithSnapshot(at))(rt), nil)); text != want {
				rt.Fatalf("%s at %s differs", name, at)
			}
		}
	}
}

// Space of deleted blobs is given back, and what is left is where it should be.
func TestCompaction(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*container.CreateOptions{"in the clear": nil, "encrypted": inScope} {
		t.Run(name, func(t *testing.T) { testCompaction(t, o) })
	}
}

// withScope declares the encryption scope that inScope makes a container's default.
func withScope(c *blobhost.Config) {
	manage(c, accountprops.Blob{Scopes: []string{"scope"}})
}

var inScope = &container.CreateOptions{CPKScopeInfo: &container.CPKScopeInfo{DefaultEncryptionScope: to.Ptr("scope"),
	PreventEncryptionScopeOverride: to.Ptr(true)}}

func testCompaction(t *testing.T, o *container.CreateOptions) {
	f := startWith(t, withScope)
	c := f.service().NewContainerClient("box")
	must(c.Create(ctx, o))(t)
	kept := map[string]string{}
	for i := range 40 {
		name := fmt.Sprintf("b%02d", i)
		text := string(randomBytes(600<<10 + i))
		must(c.NewBlockBlobClient(name).Upload(ctx, body(text), nil))(t)
		if i%8 == 0 {
			kept[name] = text
		}
	}
	page := c.NewPageBlobClient("page")
	must(page.Create(ctx, 1<<20, nil))(t)
	must(page.UploadPages(ctx, body(string(randomBytes(1<<20))), blob.HTTPRange{Count: 1 << 20}, nil))(t)
	must(page.ClearPages(ctx, blob.HTTPRange{Offset: 512, Count: 512}, nil))(t)
	kept["page"] = string(download(t, page, nil))
	must(c.NewBlockBlobClient("staged").StageBlock(ctx, blockName(1), body("staged"), nil))(t)
	for i := range 40 {
		if i%8 != 0 {
			must(c.NewBlobClient(fmt.Sprintf("b%02d", i)).Delete(ctx, nil))(t)
		}
	}
	f.reopen() // finishes the extents that were being written
	c = f.service().NewContainerClient(strings.Split(c.URL(), "/")[4])
	before := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t)
	done, err := f.parts.State.Maintenance.Compact(ctx, unbounded)
	if err != nil {
		t.Fatal(err)
	}
	if done.Rewritten == 0 || done.Moved == 0 {
		t.Errorf("nothing was moved: %+v of %+v", done, before)
	}
	for name, want := range kept {
		if string(download(t, c.NewBlobClient(name), nil)) != want {
			t.Errorf("%s differs", name)
		}
	}
	must(c.NewBlockBlobClient("staged").CommitBlockList(ctx, []string{blockName(1)}, nil))(t)
	if got := string(download(t, c.NewBlobClient("staged"), nil)); got != "staged" {
		t.Errorf("staged block %q", got)
	}
	// What was moved is referred to where it is now: where it was is given back.
	svc := f.svc
	f.svc = nil
	if err := svc.Close(); err != nil {
		t.Fatal(err)
	}
	_, after, err := maintain.CompactFolder(ctx, f.dir+"/blobs.db", f.dir+"/extents", nil, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	live := int64(0)
	for _, text := range kept {
		live += int64(len(text))
	}
	if after > live+live/4 {
		t.Errorf("%d bytes are left of which %d are needed", after, live)
	}
	f.open()
}
