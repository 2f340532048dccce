package blobsvc_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/pageblob"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

func startVersioning(t testing.TB) *fixture {
	t.Helper()
	return managed(t, accountprops.Blob{Versioning: true})
}

// versions lists a container's versions, as "name id content-length" with a * for the current one.
func versions(t testing.TB, box *container.Client, include container.ListBlobsInclude) (list []string) {
	t.Helper()
	include.Versions = true
	pager := box.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Include: include, MaxResults: to.Ptr(int32(2))})
	for pager.More() {
		for _, b := range must(pager.NextPage(ctx))(t).Segment.BlobItems {
			s := *b.Name
			switch {
			case b.Snapshot != nil:
				s += " snapshot"
			case b.VersionID != nil:
				s += " " + *b.VersionID
			}
			if b.IsCurrentVersion != nil {
				s += "*"
			}
			if b.Deleted != nil && *b.Deleted {
				s += " deleted"
			}
			list = append(list, s)
		}
	}
	return list
}

func wantVersions(t testing.TB, box *container.Client, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, versions(t, box, container.ListBlobsInclude{})); diff != "" {
		t.Error(diff)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.container()
	b := box.NewBlockBlobClient("b")
	one := must(b.Upload(ctx, body("one"), nil))(t)
	wantVersions(t, box, "b "+*one.VersionID+"*")
	two := must(b.Upload(ctx, body("two"), nil))(t)
	v1, v2 := *one.VersionID, *two.VersionID
	wantVersions(t, box, "b "+v1, "b "+v2+"*")
	at := func(id string) *blockblob.Client { return must(b.WithVersionID(id))(t) }
	for id, want := range map[string]string{v1: "one", v2: "two"} {
		r := must(at(id).DownloadStream(ctx, nil))(t)
		if got := string(download(t, at(id), nil)); got != want || *r.VersionID != id ||
			(r.IsCurrentVersion != nil) != (id == v2) {
			t.Errorf("%s has %q, id %v, current %v", id, got, *r.VersionID, r.IsCurrentVersion)
		}
	}
	// A previous version has no lease and shows the default tier.
	p := must(at(v1).GetProperties(ctx, nil))(t)
	if p.LeaseState != nil || *p.AccessTier != "Hot" || *p.ETag != *one.ETag || p.IsCurrentVersion != nil {
		t.Errorf("%+v", p)
	}
	if p := must(b.GetProperties(ctx, nil))(t); *p.VersionID != v2 || !*p.IsCurrentVersion ||
		*p.LeaseState != "available" {
		t.Errorf("%+v", p)
	}
	for query, code := range map[string]string{"versionid=yesterday": "InvalidQueryParameterValue",
		"versionid=2026-08-13T10:00:00Z":      "InvalidQueryParameterValue",
		"versionid=" + v1 + "&snapshot=" + v2: "MutuallyExclusiveQueryParameters"} {
		f.do("GET", pathOf(t, b.URL())+"?"+query, "").want(t, 400, code)
	}
	_, err := at("2020-01-01T00:00:00.0000000Z").GetProperties(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	f.do("GET", pathOf(t, b.URL())+"?snapshot="+v1, "").want(t, 404, "BlobNotFound")
	// Operations of the blob alone take no version.
	f.do("PUT", pathOf(t, b.URL())+"?comp=metadata&versionid="+v1, "").want(t, 400, "InvalidQueryParameterValue")
	f.do("PUT", pathOf(t, b.URL())+"?versionid="+v1, "", "x-ms-blob-type", "BlockBlob").want(t, 400,
		"InvalidQueryParameterValue")

	_, err = at(v2).Delete(ctx, nil)
	wantCode(t, err, 403, "OperationNotAllowedOnRootBlob")
	f.do("DELETE", pathOf(t, b.URL())+"?versionid="+v1, "", "x-ms-delete-snapshots", "include").want(t, 400,
		"InvalidQueryParameterValue")
	if r := f.do("DELETE", pathOf(t, b.URL()), "").want(t, 202,
		""); r.header.Get("x-ms-delete-type-permanent") != "false" {
		t.Errorf("%v", r.header)
	}
	wantVersions(t, box, "b "+v1, "b "+v2)
	_, err = b.GetProperties(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	_, err = b.Delete(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	three := must(b.Upload(ctx, body("three"), nil))(t)
	wantVersions(t, box, "b "+v1, "b "+v2, "b "+*three.VersionID+"*")
	// A copy of a version promotes it.
	four := must(b.CopyFromURL(ctx, at(v1).URL(), nil))(t)
	if got := string(download(t, b, nil)); got != "one" {
		t.Errorf("promoted %q", got)
	}
	must(at(v1).Delete(ctx, nil))(t)
	wantVersions(t, box, "b "+v2, "b "+*three.VersionID, "b "+*four.VersionID+"*")
	if got := string(download(t, b, nil)); got != "one" {
		t.Errorf("without its source %q", got)
	}
	five := must(b.StartCopyFromURL(ctx, at(v2).URL(), nil))(t)
	if got := string(download(t, b, nil)); got != "two" || five.VersionID == nil {
		t.Errorf("promoted %q", got)
	}
}

// Writes of a whole blob or of its metadata make versions, others do not.
func TestWhatMakesVersions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.publicContainer()
	b, p, a := box.NewBlockBlobClient("b"), box.NewPageBlobClient("p"), box.NewAppendBlobClient("a")
	src := box.NewBlockBlobClient("src")
	must(src.Upload(ctx, body("src"), nil))(t)
	for _, step := range []struct {
		what string
		do   func() (*string, error)
		of   string
		more int
	}{
		{"put", func() (*string, error) { r, err := b.Upload(ctx, body("x"), nil); return r.VersionID, err }, "b", 1},
		{"stage", func() (*string, error) { _, err := b.StageBlock(ctx, blockName(1), body("y"), nil); return nil, err }, "b",
			0},
		{"commit", func() (*string, error) {
			r, err := b.CommitBlockList(ctx, []string{blockName(1)}, nil)
			return r.VersionID, err
		}, "b", 1},
		{"metadata", func() (*string, error) {
			r, err := b.SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil)
			return r.VersionID, err
		}, "b", 1},
		{"headers", func() (*string, error) {
			_, err := b.SetHTTPHeaders(ctx, blob.HTTPHeaders{BlobContentType: to.Ptr("a/b")}, nil)
			return nil, err
		}, "b", 0},
		{"tags", func() (*string, error) { _, err := b.SetTags(ctx, map[string]string{"a": "b"}, nil); return nil, err }, "b",
			0},
		{"tier", func() (*string, error) { _, err := b.SetTier(ctx, blob.AccessTierCool, nil); return nil, err }, "b", 0},
		{"snapshot", func() (*string, error) { r, err := b.CreateSnapshot(ctx, nil); return r.VersionID, err }, "b", 1},
		{"copy", func() (*string, error) { r, err := b.StartCopyFromURL(ctx, src.URL(), nil); return r.VersionID, err }, "b",
			1},
		{"copy now", func() (*string, error) { r, err := b.CopyFromURL(ctx, src.URL(), nil); return r.VersionID, err }, "b",
			1},
		{"put from url", func() (*string, error) {
			r, err := b.UploadBlobFromURL(ctx, src.URL(), nil)
			return r.VersionID,
				err
		}, "b", 1},
		{"page blob", func() (*string, error) { r, err := p.Create(ctx, 1024, nil); return r.VersionID, err }, "p", 1},
		{"pages", func() (*string, error) {
			_, err := p.UploadPages(ctx, body(strings.Repeat("p", 512)), blob.HTTPRange{Count: 512}, nil)
			return nil, err
		}, "p", 0},
		{"resize", func() (*string, error) { _, err := p.Resize(ctx, 2048, &pageblob.ResizeOptions{}); return nil, err }, "p",
			0},
		{"page metadata", func() (*string, error) { r, err := p.SetMetadata(ctx, nil, nil); return r.VersionID, err }, "p",
			1},
		{"append blob", func() (*string, error) { r, err := a.Create(ctx, nil); return r.VersionID, err }, "a", 1},
		{"append", func() (*string, error) { _, err := a.AppendBlock(ctx, body("1"), nil); return nil, err }, "a", 0},
		{"append metadata", func() (*string, error) { r, err := a.SetMetadata(ctx, nil, nil); return r.VersionID, err }, "a",
			1},
		{"append snapshot", func() (*string, error) { r, err := a.CreateSnapshot(ctx, nil); return r.VersionID, err }, "a",
			1},
	} {
		count := func() (n int, current string) {
			for _, s := range versions(t, box, container.ListBlobsInclude{}) {
				if name, id, _ := strings.Cut(s, " "); name == step.of {
					n++
					current = id
				}
			}
			return n, current
		}
		before, _ := count()
		id, err := step.do()
		if err != nil {
			t.Fatal(step.what, err)
		}
		after, current := count()
		if after-before != step.more || (id != nil) != (step.more == 1) || id != nil && *id+"*" != current {
			t.Errorf("%s made %d versions, answered %v; the current one is %s", step.what, after-before, id, current)
		}
	}
	// Uncommitted blocks, a lease and tags stay with the blob.
	if r := must(b.GetProperties(ctx, nil))(t); *r.ContentLength != 3 {
		t.Errorf("%+v", r)
	}
}

// A previous version of a blob that grows or changes in place stays as it was.
func TestVersionsOfGrowingBlobs(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.container()
	a := box.NewAppendBlobClient("a")
	va := must(a.Create(ctx, nil))(t)
	must(a.AppendBlock(ctx, body("one"), nil))(t)
	must(a.SetMetadata(ctx, map[string]*string{"k": to.Ptr("v")}, nil))(t)
	must(a.AppendBlock(ctx, body("two"), nil))(t)
	p := box.NewPageBlobClient("p")
	vp := must(p.Create(ctx, 1024, nil))(t)
	first, second := string(randomBytes(1024)), string(randomBytes(512))
	must(p.UploadPages(ctx, body(first), blob.HTTPRange{Count: 1024}, nil))(t)
	snap := must(p.CreateSnapshot(ctx, nil))(t)
	must(p.UploadPages(ctx, body(second), blob.HTTPRange{Count: 512}, nil))(t)
	for _, x := range []struct {
		c    *blob.Client
		want string
	}{
		{a.BlobClient(), "onetwo"}, {must(a.BlobClient().WithVersionID(*va.VersionID))(t), "one"},
		{p.BlobClient(), second + first[512:]}, {must(p.BlobClient().WithVersionID(*vp.VersionID))(t), first},
		{must(p.BlobClient().WithSnapshot(*snap.Snapshot))(t), first},
	} {
		if got := string(download(t, x.c, nil)); got != x.want {
			t.Errorf("%s differs", x.c.URL())
		}
	}
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	// Both versions of an append blob share its content; each gives up its own part.
	must(a.Delete(ctx, nil))(t)
	must(must(a.BlobClient().WithVersionID(*va.VersionID))(t).Delete(ctx, nil))(t)
}

// All versions of a blob have one type.
func TestVersionsHaveOneType(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.container()
	one := must(box.NewBlockBlobClient("b").Upload(ctx, body("x"), nil))(t)
	_, err := box.NewPageBlobClient("b").Create(ctx, 512, nil)
	wantCode(t, err, 409, "InvalidBlobType")
	must(box.NewBlobClient("b").Delete(ctx, nil))(t)
	_, err = box.NewPageBlobClient("b").Create(ctx, 512, nil)
	wantCode(t, err, 409, "InvalidBlobType")
	must(must(box.NewBlobClient("b").WithVersionID(*one.VersionID))(t).Delete(ctx, nil))(t)
	must(box.NewPageBlobClient("b").Create(ctx, 512, nil))(t)
}

// Tags and the tier are those of a version; queries find the current one.
func TestTagsAndTiersOfVersions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.container()
	b := box.NewBlockBlobClient("b")
	one := must(b.Upload(ctx, body("one"), &blockUpload{Tags: map[string]string{"k": "old"}}))(t)
	must(b.Upload(ctx, body("two"), &blockUpload{Tags: map[string]string{"k": "new"}}))(t)
	old := must(b.WithVersionID(*one.VersionID))(t)
	tags := func(c *blockblob.Client) string {
		s := ""
		for _, x := range must(c.GetTags(ctx, nil))(t).BlobTagSet {
			s += *x.Key + "=" + *x.Value
		}
		return s
	}
	must(old.SetTags(ctx, map[string]string{"k": "older"}, nil))(t)
	if o, n := tags(old), tags(b); o != "k=older" || n != "k=new" {
		t.Errorf("tags %q and %q", o, n)
	}
	find := func(where string) int {
		return strings.Count(f.do("GET", "/?comp=blobs&where="+url.QueryEscape(where), "").want(t, 200, "").body, "<Blob>")
	}
	if find(`"k"='older'`) != 0 || find(`"k"='new'`) != 1 {
		t.Error("queries find previous versions, or not the current one")
	}
	must(old.SetTier(ctx, blob.AccessTierArchive, nil))(t)
	_, err := old.SetTier(ctx, blob.AccessTierHot, nil)
	wantCode(t, err, 409, "BlobOperationNotSupported")
	if p := must(b.GetProperties(ctx, nil))(t); *p.AccessTier != "Hot" {
		t.Errorf("the current version has tier %s", *p.AccessTier)
	}
	_, err = old.DownloadStream(ctx, nil)
	wantCode(t, err, 409, "BlobArchived")
	must(b.Delete(ctx, nil))(t)
	if find(`"k"='new'`) != 0 {
		t.Error("a deleted blob is found")
	}
}

// The lease stays with the blob, and with no version.
func TestLeaseAndVersions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	one := f.do("PUT", "/box/b", "one", "x-ms-blob-type", "BlockBlob").want(t, 201, "").header.Get("x-ms-version-id")
	lease := f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1").want(t, 201,
		"").header.Get("x-ms-lease-id")
	f.do("PUT", "/box/b", "two", "x-ms-blob-type", "BlockBlob").want(t, 412, "LeaseIdMissing")
	f.do("DELETE", "/box/b", "").want(t, 412, "LeaseIdMissing")
	f.do("PUT", "/box/b", "two", "x-ms-blob-type", "BlockBlob", "x-ms-lease-id", lease).want(t, 201, "")
	if r := f.do("HEAD", "/box/b", "").want(t, 200, ""); r.header.Get("x-ms-lease-state") != "leased" {
		t.Errorf("%v", r.header)
	}
	f.do("DELETE", "/box/b?versionid="+one, "").want(t, 202, "")
	f.do("DELETE", "/box/b", "", "x-ms-lease-id", lease).want(t, 202, "")
	f.do("PUT", "/box/b", "three", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
}

// Versions stay when versions are no longer kept, and a blob that is older than keeping them becomes one.
func TestVersioningOnAndOff(t *testing.T) {
	t.Parallel()
	on := false
	f := startWith(t, func(c *blobhost.Config) { manage(c, accountprops.Blob{Versioning: on}) })
	box := func() *container.Client { return f.service().NewContainerClient("box") }
	must(box().Create(ctx, nil))(t)
	put := func(s string) *string {
		return must(box().NewBlockBlobClient("b").Upload(ctx, body(s), nil))(t).VersionID
	}
	if id := put("none"); id != nil {
		t.Errorf("version %s", *id)
	}
	must(box().NewBlockBlobClient("c").Upload(ctx, body("c"), nil))(t)
	wantVersions(t, box(), "b", "c")
	on = true
	f.reopen()
	f.do("GET", "/box/b", "").want(t, 200, "")
	two := put("two")
	list := versions(t, box(), container.ListBlobsInclude{})
	if len(list) != 3 || list[1] != "b "+*two+"*" || list[2] != "c" {
		t.Errorf("%v", list)
	}
	first := strings.TrimPrefix(list[0], "b ")
	if got := string(download(t, must(box().NewBlobClient("b").WithVersionID(first))(t), nil)); got != "none" {
		t.Errorf("the first version has %q", got)
	}
	must(box().NewBlobClient("c").Delete(ctx, nil))(t)
	on = false
	f.reopen()
	must(box().NewBlobClient("b").SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil))(t)
	list = versions(t, box(), container.ListBlobsInclude{})
	if len(list) != 4 || list[1] != "b "+*two || list[2] != "b" || !strings.HasPrefix(list[3], "c 20") {
		t.Errorf("%v", list)
	}
	put("four")
	if got := versions(t, box(), container.ListBlobsInclude{}); len(got) != 4 {
		t.Errorf("%v", got)
	}
	must(must(box().NewBlobClient("b").WithVersionID(first))(t).Delete(ctx, nil))(t)
	must(box().NewBlobClient("b").Delete(ctx, nil))(t)
	wantVersions(t, box(), "b "+*two, list[3])
	// Created, and turned on again: the time of creation is taken.
	put("five")
	on = true
	f.reopen()
	put("six")
	if got := versions(t, box(), container.ListBlobsInclude{}); len(got) != 4 {
		t.Errorf("%v", got)
	}
}

func TestVersionsAndSoftDelete(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	f.keepDeleted(2, "<AllowPermanentDelete>true</AllowPermanentDelete>")
	box := f.service().NewContainerClient("box")
	must(box.Create(ctx, nil))(t)
	b := box.NewBlockBlobClient("b")
	one := must(b.Upload(ctx, body("one"), nil))(t)
	two := must(b.Upload(ctx, body("two"), nil))(t)
	v1, v2 := *one.VersionID, *two.VersionID
	deleted := container.ListBlobsInclude{Deleted: true, Snapshots: true}
	// Neither overwriting nor deleting the blob soft-deletes anything.
	must(b.Delete(ctx, nil))(t)
	if diff := cmp.Diff([]string{"b " + v1, "b " + v2}, versions(t, box, deleted)); diff != "" {
		t.Error(diff)
	}
	// Undelete restores what was soft-deleted, and promotes nothing.
	must(b.Undelete(ctx, nil))(t)
	must(must(b.WithVersionID(v1))(t).Delete(ctx, nil))(t)
	wantVersions(t, box, "b "+v2)
	if diff := cmp.Diff([]string{"b " + v1 + " deleted", "b " + v2}, versions(t, box, deleted)); diff != "" {
		t.Error(diff)
	}
	_, err := must(b.WithVersionID(v1))(t).GetProperties(ctx, nil)
	wantCode(t, err, 404, "BlobNotFound")
	must(b.Undelete(ctx, nil))(t)
	wantVersions(t, box, "b "+v1, "b "+v2)
	// Retention ends.
	must(must(b.WithVersionID(v1))(t).Delete(ctx, nil))(t)
	f.advance(49 * time.Hour)
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	f.do("PUT", "/box/b?comp=undelete", "").want(t, 200, "") // an SDK would sign with the real time
	if got := f.do("GET", "/box?restype=container&comp=list&include=versions,deleted", "").want(t, 200,
		"").body; strings.Count(got, "<Blob>") != 1 || !strings.Contains(got, v2) {
		t.Error(got)
	}
	// Permanent deletion is the second one.
	path := "/box/b?versionid=" + v2
	f.do("DELETE", path+"&deletetype=permanent", "").want(t, 409, "BlobSnapshotNotSoftDeleted")
	f.do("DELETE", path, "").want(t, 202, "")
	f.do("DELETE", path+"&deletetype=permanent", "").want(t, 202, "")
	f.do("PUT", "/box/b?comp=undelete", "").want(t, 404, "BlobNotFound")
	three := f.do("PUT", "/box/b", "three", "x-ms-blob-type", "BlockBlob").want(t, 201, "").header.Get("x-ms-version-id")
	f.do("DELETE", "/box/b?deletetype=permanent&versionid="+three, "").want(t, 403, "OperationNotAllowedOnRootBlob")
}

func TestListDeletedWithVersions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	box := f.service().NewContainerClient("box")
	must(box.Create(ctx, nil))(t)
	for _, name := range []string{"a", "b", "b/c", "d"} {
		must(box.NewBlockBlobClient(name).Upload(ctx, body(name), nil))(t)
		must(box.NewBlockBlobClient(name).Upload(ctx, body(name+name), nil))(t)
	}
	must(box.NewBlobClient("b").Delete(ctx, nil))(t)
	must(box.NewBlobClient("b/c").Delete(ctx, nil))(t)
	list := func(size int, more string) string {
		var names []string
		marker := ""
		for {
			r := f.do("GET", fmt.Sprintf("/box?restype=container&comp=list&maxresults=%d&marker=%s%s", size,
				url.QueryEscape(marker), more), "").want(t, 200, "")
			for _, item := range strings.Split(r.body, "<Blob>")[1:] {
				name := between(item, "<Name>", "</Name>")
				if strings.Contains(item, "<HasVersionsOnly>true</HasVersionsOnly>") {
					name += "!"
					if !strings.Contains(more, "versions") ||
						strings.Contains(item, "<VersionId>") != strings.Contains(more, ",versions") ||
						strings.Contains(item, "<LeaseState>available</LeaseState>") == strings.Contains(more, ",versions") {
						t.Errorf("item %s", item)
					}
				}
				names = append(names, name)
			}
			for _, item := range strings.Split(r.body, "<BlobPrefix>")[1:] {
				names = append(names, between(item, "<Name>", "</Name>"))
			}
			if marker = between(r.body, "<NextMarker>", "</NextMarker>"); marker == "" {
				return strings.Join(names, " ")
			}
		}
	}
	for _, size := range []int{1, 2, 5000} {
		for more, want := range map[string]string{
			"": "a d", "&include=deletedwithversions": "a b! b/c! d",
			"&include=deletedwithversions,versions":          "a a b b! b/c b/c! d d",
			"&include=deletedwithversions,snapshots,deleted": "a b! b/c! d", "&include=deletedwithversions&prefix=b/": "b/c!",
		} {
			if got := list(size, more); got != want {
				t.Errorf("pages of %d, %s: %s, want %s", size, more, got, want)
			}
		}
	}
	if got := list(5000, "&include=versions&delimiter=/"); got != "a a b b d d b/" {
		t.Errorf("by hierarchy %s", got)
	}
	if got := list(5000, "&delimiter=/"); got != "a d" {
		t.Errorf("by hierarchy without versions %s", got)
	}
}

// between holds what stands between two texts, "" if they are not there.
func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, ok := strings.Cut(s, to)
	if !ok {
		return ""
	}
	return s
}

// record.PathOf holds what follows the account in a URL.
func pathOf(t testing.TB, s string) string {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/devstoreaccount1")
}

// Deleting a version takes the permission x.
func TestVersionPermissions(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	f.keepDeleted(2, "<AllowPermanentDelete>true</AllowPermanentDelete>")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	one := f.do("PUT", "/box/b", "one", "x-ms-blob-type", "BlockBlob").want(t, 201, "").header.Get("x-ms-version-id")
	f.do("PUT", "/box/b", "two", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	at := "/box/b?versionid=" + one
	f.anonymous("DELETE", at+"&"+accountSAS(t, "d")).want(t, 403, "AuthorizationPermissionMismatch")
	f.anonymous("DELETE", "/box/b?"+accountSAS(t, "x")).want(t, 403, "AuthorizationPermissionMismatch")
	f.anonymous("DELETE", at+"&"+accountSAS(t, "x")).want(t, 202, "")
	f.anonymous("DELETE", at+"&deletetype=permanent&"+accountSAS(t, "x")).want(t, 403, "AuthorizationPermissionMismatch")
	f.anonymous("DELETE", at+"&deletetype=permanent&"+accountSAS(t, "xy")).want(t, 202, "")
	f.anonymous("DELETE", "/box/b?"+accountSAS(t, "d")).want(t, 202, "")
}

// IDs of versions are in answers from service version 2019-10-10 on (recorded), and reads of a version say nothing of
// leases.
func TestVersionIDInAnswers(t *testing.T) {
	t.Parallel()
	f := startVersioning(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	for version, want := range map[string]bool{"2019-07-07": false, "2019-10-10": true, "2021-12-02": true} {
		written := f.do("PUT", "/box/"+version, "x", "x-ms-blob-type", "BlockBlob", "x-ms-version", version).want(t, 201, "")
		read := f.do("HEAD", "/box/"+version, "", "x-ms-version", version).want(t, 200, "")
		for what, r := range map[string]reply{"PUT": written, "HEAD": read} {
			if got := r.header.Get("x-ms-version-id") != ""; got != want {
				t.Errorf("%s with %s: an ID of a version is there: %v", what, version, got)
			}
		}
	}
	id := f.do("HEAD", "/box/2021-12-02", "").want(t, 200, "").header.Get("x-ms-version-id")
	for _, method := range []string{"GET", "HEAD"} {
		r := f.do(method, "/box/2021-12-02?versionid="+id, "").want(t, 200, "")
		for _, name := range []string{"x-ms-lease-state", "x-ms-lease-status", "x-ms-lease-duration"} {
			if r.header.Get(name) != "" {
				t.Errorf("%s of a version: %s is %s", method, name, r.header.Get(name))
			}
		}
	}
}
