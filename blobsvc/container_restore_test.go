package blobsvc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

func startKeeping(t testing.TB) *fixture {
	t.Helper()
	return managed(t, accountprops.Blob{ContainerDays: 3})
}

// deletedContainers lists containers with deleted ones, these as "name version".
func (f *fixture) deletedContainers(prefix string) (list []string) {
	f.t.Helper()
	pager := f.service().NewListContainersPager(
		&service.ListContainersOptions{Prefix: &prefix, MaxResults: to.Ptr(int32(1)),
			Include: service.ListContainersInclude{Deleted: true, Metadata: true}})
	for pager.More() {
		for _, c := range must(pager.NextPage(ctx))(f.t).ContainerItems {
			s := *c.Name
			if c.Deleted != nil && *c.Deleted {
				s += " " + *c.Version
				if c.Properties.DeletedTime == nil || *c.Properties.RemainingRetentionDays > 3 ||
					*c.Properties.LeaseState != "leased" {
					f.t.Errorf("%s: %+v", s, c.Properties)
				}
			}
			list = append(list, s)
		}
	}
	return list
}

func TestRestoreContainer(t *testing.T) {
	t.Parallel()
	f := startKeeping(t)
	svc := f.service()
	box := svc.NewContainerClient("box")
	must(box.Create(ctx, &service.CreateContainerOptions{Metadata: map[string]*string{"k": to.Ptr("v")}}))(t)
	must(svc.NewContainerClient("box-other").Create(ctx, nil))(t)
	must(box.NewBlockBlobClient("b").Upload(ctx, body("one"), &blockUpload{Tags: map[string]string{"k": "v"}}))(t)
	must(box.NewBlockBlobClient("b").StageBlock(ctx, blockName(1), body("staged"), nil))(t)
	must(box.Delete(ctx, nil))(t)
	_, err := box.GetProperties(ctx, nil)
	wantCode(t, err, 404, "ContainerNotFound")
	_, err = box.NewBlobClient("b").GetProperties(ctx, nil)
	wantCode(t, err, 404, "ContainerNotFound")
	_, err = box.Delete(ctx, nil)
	wantCode(t, err, 404, "ContainerNotFound")
	find := "/?comp=blobs&where=%22k%22%3D'v'"
	if r := f.do("GET", find, "").want(t, 200, ""); strings.Contains(r.body, "<Blob>") {
		t.Error("a blob of a deleted container is found by its tags")
	}
	// The name can be used again, and deleted again.
	must(box.Create(ctx, nil))(t)
	must(box.NewBlockBlobClient("b").Upload(ctx, body("two"), nil))(t)
	must(box.Delete(ctx, nil))(t)
	must(box.Create(ctx, nil))(t)
	list := f.deletedContainers("box")
	if len(list) != 4 || list[2] != "box" || list[3] != "box-other" || !strings.HasPrefix(list[0], "box 01D") ||
		list[1] <= list[0] {
		t.Fatalf("%q", list)
	}
	if got := f.do("GET", "/?comp=list", "").want(t, 200, "").body; strings.Count(got, "<Container>") != 2 {
		t.Error(got)
	}
	first, second := strings.Fields(list[0])[1], strings.Fields(list[1])[1]
	restore := func(to, name, version string) reply {
		return f.do("PUT", "/"+to+"?restype=container&comp=undelete", "", "x-ms-deleted-container-name", name,
			"x-ms-deleted-container-version", version)
	}
	_, err = svc.RestoreContainer(ctx, "box", first, nil)
	wantCode(t, err, 409, "ContainerAlreadyExists")
	_, err = svc.RestoreContainer(ctx, "box", "", nil)
	wantCode(t, err, 400, "MissingRequiredHeader")
	f.do("PUT", "/box?restype=container&comp=undelete", "").want(t, 400, "MissingRequiredHeader")
	restore("box", "box", "x").want(t, 400, "InvalidHeaderValue")
	restore("box", "b/x", first).want(t, 400, "InvalidHeaderValue")
	restore("fresh", "box", "01D60F8BB59A4652").want(t, 404, "ContainerNotFound")
	restore("fresh", "box-other", first).want(t, 404, "ContainerNotFound")
	restore("fresh", "box", second).want(t, 201, "")
	if got := string(download(t, svc.NewContainerClient("fresh").NewBlobClient("b"), nil)); got != "two" {
		t.Errorf("restored %q", got)
	}
	must(box.Delete(ctx, nil))(t)
	f.reopen()
	if err := f.parts.Clean(ctx); err != nil {
		t.Fatal(err)
	}
	svc = f.service()
	box = svc.NewContainerClient("box")
	must(svc.RestoreContainer(ctx, "box", first, nil))(t)
	if p := must(box.GetProperties(ctx, nil))(t); *p.Metadata["K"] != "v" {
		t.Errorf("metadata %v", p.Metadata)
	}
	must(box.NewBlockBlobClient("b").CommitBlockList(ctx, []string{blockName(1)}, nil))(t)
	if got := string(download(t, box.NewBlobClient("b"), nil)); got != "staged" {
		t.Errorf("restored %q", got)
	}
	if list := f.deletedContainers(""); len(list) != 4 {
		t.Errorf("%q", list)
	}
}

// The contents of a deleted container go when its time is over, and are no garbage before.
func TestContainerRetentionEnds(t *testing.T) {
	t.Parallel()
	f := startKeeping(t)
	for _, name := range []string{"aaa", "bbb"} {
		f.do("PUT", "/"+name+"?restype=container", "").want(t, 201, "")
		for i := range 3 {
			f.do("PUT", fmt.Sprint("/", name, "/", i), strings.Repeat(name, 1000), "x-ms-blob-type", "BlockBlob", "x-ms-tags",
				"k=v").want(t, 201, "")
		}
	}
	lease := f.do("PUT", "/aaa?restype=container&comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration",
		"-1").want(t, 201, "").header.Get("x-ms-lease-id")
	f.do("DELETE", "/aaa?restype=container", "").want(t, 412, "LeaseIdMissing")
	f.do("DELETE", "/aaa?restype=container", "", "x-ms-lease-id", lease).want(t, 202, "")
	f.advance(48 * time.Hour)
	f.do("DELETE", "/bbb?restype=container", "").want(t, 202, "")
	audit := func(containers, deleted, blobs int64) {
		t.Helper()
		if err := f.parts.Clean(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := f.parts.State.Maintenance.Compact(ctx, unbounded); err != nil {
			t.Fatal(err)
		}
		if a := must(f.parts.State.Maintenance.Audit(func(err error) { t.Error(err) }))(t); a.Containers != containers ||
			a.DeletedContainers != deleted || a.Blobs != blobs {
			t.Errorf("%+v", a)
		}
	}
	audit(0, 2, 6)
	f.advance(25 * time.Hour)
	audit(0, 1, 3)
	list := between(f.do("GET", "/?comp=list&include=deleted", "").want(t, 200, "").body, "<Version>", "</Version>")
	f.do("PUT", "/bbb?restype=container&comp=undelete", "", "x-ms-deleted-container-name", "bbb",
		"x-ms-deleted-container-version", list).want(t, 201, "")
	if r := f.do("GET", "/bbb/1", "").want(t, 200, ""); len(r.body) != 3000 {
		t.Errorf("restored %d bytes", len(r.body))
	}
	audit(1, 0, 3)
	f.advance(400 * 24 * time.Hour)
	audit(1, 0, 3)
}

// Without the option a deleted container is gone.
func TestContainerGone(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("DELETE", "/box?restype=container", "").want(t, 202, "")
	if r := f.do("GET", "/?comp=list&include=deleted", "").want(t, 200, ""); strings.Contains(r.body, "<Container>") {
		t.Error(r.body)
	}
	f.do("GET", "/?comp=list&include=deleted&marker=/devstoreaccount1/box/x", "").want(t, 400, "OutOfRangeInput")
}
