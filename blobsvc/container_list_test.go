package blobsvc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/google/go-cmp/cmp"
)

func TestListContainers(t *testing.T) {
	t.Parallel()
	f := start(t)
	for i := range 12 {
		f.do("PUT", fmt.Sprintf("/list%02d?restype=container", i), "", "x-ms-meta-Number", fmt.Sprint(i)).want(t, 201, "")
	}
	f.do("PUT", "/other?restype=container", "", "x-ms-blob-public-access", "container").want(t, 201, "")

	var got []string
	pages := 0
	pager := f.service().NewListContainersPager(
		&service.ListContainersOptions{Prefix: to.Ptr("list"), MaxResults: to.Ptr(int32(5)),
			Include: service.ListContainersInclude{Metadata: true}})
	for pager.More() {
		page := must(pager.NextPage(ctx))(t)
		pages++
		for _, c := range page.ContainerItems {
			got = append(got, *c.Name+"="+*c.Metadata["number"])
			if *c.Properties.LeaseState != "available" || c.Properties.ETag == nil || c.Properties.LastModified == nil {
				t.Errorf("%s: properties %+v", *c.Name, c.Properties)
			}
		}
	}
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("list%02d=%d", i, i))
	}
	if diff := cmp.Diff(want, got); diff != "" || pages != 3 {
		t.Errorf("%d pages, want 3; %s", pages, diff)
	}
	if r := f.do("GET", "/?comp=list&prefix=other", ""); !strings.Contains(r.body,
		"<PublicAccess>container</PublicAccess>") || strings.Contains(r.body, "<Metadata") {
		t.Errorf("%s", r.body)
	}
	if r := f.do("GET", "/?comp=list&include=metadata", ""); !strings.Contains(r.body,
		"<Metadata><Number>3</Number></Metadata>") {
		t.Errorf("the case of a metadata name is lost: %s", r.body)
	}
	for query, code := range map[string]string{
		"maxresults=0": "OutOfRangeQueryParameterValue", "maxresults=-1": "OutOfRangeQueryParameterValue",
		"maxresults=x": "InvalidQueryParameterValue",
		"marker=x":     "OutOfRangeInput", "include=everything": "InvalidQueryParameterValue",
	} {
		f.do("GET", "/?comp=list&"+query, "").want(t, 400, code)
	}
	f.do("GET", "/?comp=list&maxresults=9999", "").want(t, 200, "")
}
