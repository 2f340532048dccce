package blobsvc_test

import (
	"strings"
	"testing"
	"time"
)

const (
	leaseA = "aaaaaaaa-0000-4000-8000-000000000000"
	leaseB = "bbbbbbbb-0000-4000-8000-000000000000"
)

// The steps of a lease's life are the same for containers and blobs.
func leaseLife(t *testing.T, f *fixture, path, write string, missing, mismatch string) {
	t.Helper()
	at := path + "?comp=lease"
	if strings.Contains(path, "?") {
		at = path + "&comp=lease"
	}
	do := func(action string, headers ...string) reply {
		return f.do("PUT", at, "", append(headers, "x-ms-lease-action", action)...)
	}
	do("acquire").want(t, 400, "MissingRequiredHeader")
	do("acquire", "x-ms-lease-duration", "14").want(t, 400, "InvalidHeaderValue")
	do("acquire", "x-ms-lease-duration", "61").want(t, 400, "InvalidHeaderValue")
	do("acquire", "x-ms-lease-duration", "15", "x-ms-proposed-lease-id", "x").want(t, 400, "InvalidHeaderValue")
	do("seize").want(t, 400, "InvalidHeaderValue")
	do("renew").want(t, 400, "MissingRequiredHeader")
	do("change", "x-ms-lease-id", leaseA).want(t, 400, "MissingRequiredHeader")
	do("break").want(t, 409, "LeaseNotPresentWithLeaseOperation")
	if r := do("acquire", "x-ms-lease-duration", "15", "x-ms-proposed-lease-id", leaseA).want(t, 201,
		""); r.header.Get("x-ms-lease-id") != leaseA {
		t.Errorf("lease id %q", r.header.Get("x-ms-lease-id"))
	}
	do("acquire", "x-ms-lease-duration", "15").want(t, 409, "LeaseAlreadyPresent")
	f.do(write, path, "", "x-ms-blob-type", "BlockBlob").want(t, 412, missing)
	f.do(write, path, "", "x-ms-blob-type", "BlockBlob", "x-ms-lease-id", leaseB).want(t, 412, mismatch)
	if r := f.do("HEAD", path, "").want(t, 200, ""); r.header.Get("x-ms-lease-state") != "leased" ||
		r.header.Get("x-ms-lease-status") != "locked" || r.header.Get("x-ms-lease-duration") != "fixed" {
		t.Errorf("headers %v", r.header)
	}
	f.advance(10 * time.Second)
	do("renew", "x-ms-lease-id", leaseA).want(t, 200, "")
	f.advance(10 * time.Second)
	do("change", "x-ms-lease-id", leaseA, "x-ms-proposed-lease-id", leaseB).want(t, 200, "")
	do("renew", "x-ms-lease-id", leaseA).want(t, 409, "LeaseIdMismatchWithLeaseOperation")
	if r := do("break", "x-ms-lease-break-period", "60").want(t, 202, ""); r.header.Get("x-ms-lease-time") != "5" {
		t.Errorf("lease time %q, want 5", r.header.Get("x-ms-lease-time"))
	}
	do("acquire", "x-ms-lease-duration", "15", "x-ms-proposed-lease-id", leaseB).want(t, 409,
		"LeaseIsBreakingAndCannotBeAcquired")
	f.advance(5 * time.Second)
	if r := f.do("HEAD", path, ""); r.header.Get("x-ms-lease-state") != "broken" {
		t.Errorf("state %q", r.header.Get("x-ms-lease-state"))
	}
	do("renew", "x-ms-lease-id", leaseB).want(t, 409, "LeaseIsBrokenAndCannotBeRenewed")
	do("acquire", "x-ms-lease-duration", "-1", "x-ms-proposed-lease-id", leaseA).want(t, 201, "")
	f.advance(time.Hour)
	if r := f.do("HEAD", path, ""); r.header.Get("x-ms-lease-state") != "leased" ||
		r.header.Get("x-ms-lease-duration") != "infinite" {
		t.Errorf("headers %v", r.header)
	}
	do("break", "x-ms-lease-break-period", "61").want(t, 400, "InvalidHeaderValue")
	kind := "blob"
	if strings.Contains(path, "restype=container") {
		kind = "container"
	}
	r := do("release", "x-ms-lease-id", leaseB).want(t, 409, "LeaseIdMismatchWithLeaseOperation")
	if !strings.Contains(r.body, "the lease ID for the "+kind+".") {
		t.Errorf("the text names another resource: %s", r.body)
	}
	do("release", "x-ms-lease-id", leaseA).want(t, 200, "")
	if r := f.do("HEAD", path, ""); r.header.Get("x-ms-lease-state") != "available" {
		t.Errorf("state %q", r.header.Get("x-ms-lease-state"))
	}
}

func TestLeaseBlob(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1").want(t, 404,
		"BlobNotFound")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	leaseLife(t, f, "/box/b", "PUT", "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation")
	f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1", "If-Match",
		`"0x1"`).want(t, 412, "ConditionNotMet")
}

func TestLeaseContainer(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/none?restype=container&comp=lease", "", "x-ms-lease-action", "break").want(t, 404, "ContainerNotFound")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	leaseLife(t, f, "/box?restype=container", "DELETE", "LeaseIdMissing", "LeaseIdMismatchWithContainerOperation")
}

// Every write to a leased blob needs its lease; reads and snapshots do not.
func TestLeaseGuardsWrites(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/src", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	for _, kind := range []string{"BlockBlob", "PageBlob", "AppendBlob"} {
		f.do("PUT", "/box/"+kind, "", "x-ms-blob-type", kind, "x-ms-blob-content-length", "512").want(t, 201, "")
		f.do("PUT", "/box/"+kind+"?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
			"x-ms-proposed-lease-id", leaseA).want(t, 201, "")
	}
	for _, tc := range []struct {
		name, method, path, content string
		headers                     []string
		free                        bool
	}{
		{"PutBlob", "PUT", "BlockBlob", "x", []string{"x-ms-blob-type", "BlockBlob"}, false},
		{"PutBlock", "PUT", "BlockBlob?comp=block&blockid=YQ==", "x", nil, false},
		{"PutBlockList", "PUT", "BlockBlob?comp=blocklist", "<BlockList/>", nil, false},
		{"SetMetadata", "PUT", "BlockBlob?comp=metadata", "", nil, false},
		{"SetProperties", "PUT", "BlockBlob?comp=properties", "", nil, false},
		{"SetTags", "PUT", "BlockBlob?comp=tags", "<Tags><TagSet/></Tags>", nil, false},
		{"CopyBlob", "PUT", "BlockBlob", "", []string{"x-ms-copy-source", f.base + "/box/src"}, false},
		{"Delete", "DELETE", "BlockBlob", "", nil, false},
		{"PutPage", "PUT", "PageBlob?comp=page", strings.Repeat("x", 512),
			[]string{"x-ms-range", "bytes=0-511", "x-ms-page-write", "update"}, false},
		{"AppendBlock", "PUT", "AppendBlob?comp=appendblock", "x", nil, false},
		{"Seal", "PUT", "AppendBlob?comp=seal", "", nil, false},
		{"Get", "GET", "BlockBlob", "", nil, true},
		{"Head", "HEAD", "BlockBlob", "", nil, true},
		{"Snapshot", "PUT", "BlockBlob?comp=snapshot", "", nil, true},
		{"SetTier", "PUT", "BlockBlob?comp=tier", "", []string{"x-ms-access-tier", "Cool"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := f.do(tc.method, "/box/"+tc.path, tc.content, tc.headers...)
			if tc.free {
				if r.status >= 300 {
					t.Errorf("without a lease: %d %s", r.status, r.code())
				}
			} else {
				r.want(t, 412, "LeaseIdMissing")
			}
			f.do(tc.method, "/box/"+tc.path, tc.content, append(tc.headers, "x-ms-lease-id", leaseB)...).want(t, 412,
				"LeaseIdMismatchWithBlobOperation")
			if r := f.do(tc.method, "/box/"+tc.path, tc.content,
				append(tc.headers, "x-ms-lease-id", leaseA)...); r.status >= 300 && r.code() != "SnapshotsPresent" {
				t.Errorf("with the lease: %d %s", r.status, r.code())
			}
			if tc.name == "Delete" { // for the tests after it
				f.do("DELETE", "/box/BlockBlob", "", "x-ms-delete-snapshots", "include")
				f.do("PUT", "/box/BlockBlob", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
				f.do("PUT", "/box/BlockBlob?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
					"x-ms-proposed-lease-id", leaseA).want(t, 201, "")
			}
		})
	}
}

// A write without the lease makes an expired lease Available: its holder has lost it.
func TestWriteAfterLeaseExpired(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "15",
		"x-ms-proposed-lease-id", leaseA).want(t, 201, "")
	f.advance(16 * time.Second)
	f.do("PUT", "/box/b", "y", "x-ms-blob-type", "BlockBlob", "x-ms-lease-id", leaseA).want(t, 412, "LeaseLost")
	f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "renew", "x-ms-lease-id", leaseA).want(t, 200, "")
	f.advance(16 * time.Second)
	f.do("PUT", "/box/b", "y", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "renew", "x-ms-lease-id", leaseA).want(t, 409,
		"LeaseIdMismatchWithLeaseOperation")
}

// A write that neither holds the lease nor meets its conditions fails with the error of the lease.
func TestLeaseBeforeConditions(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	id := f.do("PUT", "/box/b?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1").want(t, 201,
		"").header.Get("x-ms-lease-id")
	const other = "6a0d0d3c-0000-4000-8000-000000000000"
	for _, write := range []struct{ method, target string }{{"PUT", "/box/b"}, {"PUT", "/box/b?comp=metadata"},
		{"PUT", "/box/b?comp=properties"}, {"DELETE", "/box/b"}} {
		try := func(condition, value, lease string) reply {
			headers := []string{condition, value, "x-ms-blob-type", "BlockBlob"}
			if lease != "" {
				headers = append(headers, "x-ms-lease-id", lease)
			}
			return f.do(write.method, write.target, "", headers...)
		}
		try("If-None-Match", "*", "").want(t, 412, "LeaseIdMissing")
		try("If-Match", `"0x1"`, "").want(t, 412, "LeaseIdMissing")
		try("If-Match", `"0x1"`, other).want(t, 412, "LeaseIdMismatchWithBlobOperation")
		if write.method == "PUT" && write.target == "/box/b" { // the lease decides whether the blob is replaced
			try("If-None-Match", "*", id).want(t, 201, "")
		} else {
			try("If-None-Match", "*", id).want(t, 409, "BlobAlreadyExists")
		}
		try("If-Match", `"0x1"`, id).want(t, 412, "ConditionNotMet")
	}
	f.do("GET", "/box/b", "", "If-Match", `"0x1"`, "x-ms-lease-id", other).want(t, 412, "ConditionNotMet")
}
