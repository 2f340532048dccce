package parameters

import (
	"crypto/md5"
	"encoding/base64"
	"maps"
	"strings"
)

// scene has a request that succeeds, and what it needs.
type scene struct {
	service string
	prepare []request
	request request
	after   []request // reads of what the request may have changed
	scoped  bool      // the account must have encryption scopes
}

// scenes are the scenes by operation, "blob Blob.Delete".
var scenes = func() map[string]scene {
	all := map[string]scene{}
	for service, list := range map[string]map[string]scene{"blob": blobScenes, "queue": queueScenes,
		"table": tableScenes, "dfs": dfsScenes} {
		for name, sc := range list {
			sc.service = service
			all[service+" "+name] = sc
		}
	}
	return all
}()

func md5Of(s string) string {
	sum := md5.Sum([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// merge returns all scenes of several maps.
func merge(list ...map[string]scene) map[string]scene {
	out := map[string]scene{}
	for _, m := range list {
		maps.Copy(out, m)
	}
	return out
}

const (
	lease     = "11111111-1111-1111-1111-111111111111"
	permanent = `<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days><AllowPermanentDelete>true</AllowPermanentDelete></DeleteRetentionPolicy></StorageServiceProperties>`
)

// page is the content of a page.
var page = strings.Repeat("page", 128)

// Requests that prepare blobs.
var (
	box     = req("PUT /box?restype=container", "x-ms-blob-public-access: blob", "x-ms-meta-k: 1")
	block   = req("PUT /box/b", "x-ms-blob-type: BlockBlob", "x-ms-tags: a=1", "x-ms-meta-k: 1", "= n,m\n1,2\n")
	another = req("PUT /box/d/e", "x-ms-blob-type: BlockBlob", "x-ms-tags: a=1", "= another")
	source  = req("PUT /box/s", "x-ms-blob-type: BlockBlob", "x-ms-tags: s=1", "x-ms-blob-content-type: text/source",
		"x-ms-meta-s: 1", "= "+page)
	appended = req("PUT /box/b", "x-ms-blob-type: AppendBlob", "x-ms-tags: a=1", "x-ms-meta-k: 1")
	pages    = req("PUT /box/b", "x-ms-blob-type: PageBlob", "x-ms-blob-content-length: 2048", "x-ms-tags: a=1",
		"x-ms-meta-k: 1")
	written    = req("PUT /box/b?comp=page", "x-ms-page-write: update", "Range: bytes=0-511", "= "+page)
	writtenTwo = req("PUT /box/b?comp=page", "x-ms-page-write: update", "Range: bytes=1024-1535", "= "+page)
	snapshot   = req("PUT /box/b?comp=snapshot")
	leased     = req("PUT /box/b?comp=lease", "x-ms-lease-action: acquire", "x-ms-lease-duration: -1",
		"x-ms-proposed-lease-id: "+lease)
	boxLeased = req("PUT /box?restype=container&comp=lease", "x-ms-lease-action: acquire", "x-ms-lease-duration: -1",
		"x-ms-proposed-lease-id: "+lease)
	archived  = req("PUT /box/b?comp=tier", "x-ms-access-tier: Archive")
	retention = req("PUT /?restype=service&comp=properties", "= "+permanent)
	staged    = req("PUT /box/b?comp=block&blockid=MQ%3D%3D", "= 1\n")
	immutable = req("PUT /box/b?comp=immutabilityPolicies", "x-ms-immutability-policy-until-date: {future}",
		"x-ms-immutability-policy-mode: unlocked")
	incremental = req("PUT /box/i?comp=incrementalcopy", "x-ms-copy-source: {url}/box/s?snapshot={snapshot}")
	stalled     = req("PUT /box/b", "x-ms-copy-source: {slow}")
	deadSnap    = req("DELETE /box/b?snapshot={snapshot}")
	sourcePages = req("PUT /box/s", "x-ms-blob-type: PageBlob", "x-ms-blob-content-length: 2048")
)

// Reads of what a request may have changed.
var (
	headBlob = req("HEAD /box/b")
	getBlob  = req("GET /box/b")
	getTags  = req("GET /box/b?comp=tags")
	listBox  = req(
		"GET /box?restype=container&comp=list&include=snapshots,versions,deleted,metadata,tags,copy,uncommittedblobs,legalhold,immutabilitypolicy")
	headBox = req("GET /box?restype=container")
	acl     = req("GET /box?restype=container&comp=acl")
	boxes   = req("GET /?comp=list&include=metadata,deleted,system")

	blobReads = []request{headBlob, getBlob, getTags, listBox}
	boxReads  = []request{headBox, acl, boxes}
)

func prepare(r ...request) []request { return r }

var blobScenes = merge(map[string]scene{
	// The account.
	"Service.FilterBlobs": {prepare: prepare(box, block, another),
		request: req("GET /?comp=blobs&where=a%3D%271%27")},
	"Service.GetAccountInfo": {request: req("GET /?restype=account&comp=properties")},
	"Service.GetProperties":  {request: req("GET /?restype=service&comp=properties")},
	"Service.GetStatistics":  {request: req("GET -secondary/?restype=service&comp=stats")},
	"Service.GetUserDelegationKey": {request: bearer(
		req("POST /?restype=service&comp=userdelegationkey",
			"= <KeyInfo><Start>{pastISO}</Start><Expiry>{futureISO}</Expiry></KeyInfo>"))},
	"Service.ListContainersSegment": {prepare: prepare(box, req("PUT /dead?restype=container"),
		req("DELETE /dead?restype=container"), req("PUT /$web?restype=container")), request: req("GET /?comp=list")},
	"Service.SetProperties": {request: req("PUT /?restype=service&comp=properties",
		"= <StorageServiceProperties>"+cors+analytics+blobOnly+"</StorageServiceProperties>"),
		after: []request{req("GET /?restype=service&comp=properties")}},
	"Service.SubmitBatch": {prepare: prepare(box, block), request: batch("POST /?comp=batch"), after: blobReads},

	// Containers.
	"Container.Create": {request: req("PUT /box?restype=container"), after: boxReads},
	"Container.Delete": {prepare: prepare(box), request: req("DELETE /box?restype=container"),
		after: []request{boxes}},
	"Container.FilterBlobs": {prepare: prepare(box, block, another),
		request: req("GET /box?restype=container&comp=blobs&where=a%3D%271%27")},
	"Container.GetAccessPolicy": {prepare: prepare(box), request: acl},
	"Container.GetAccountInfo": {prepare: prepare(box),
		request: req("GET /box?restype=account&comp=properties")},
	"Container.GetProperties": {prepare: prepare(box), request: headBox},
	"Container.Restore": {prepare: prepare(box, req("DELETE /box?restype=container"), boxes),
		request: req("PUT /box?restype=container&comp=undelete", "x-ms-deleted-container-name: box",
			"x-ms-deleted-container-version: {deleted}"), after: boxReads},
	"Container.SetAccessPolicy": {prepare: prepare(box),
		request: req("PUT /box?restype=container&comp=acl", "= "+policies), after: boxReads},
	"Container.SetMetadata": {prepare: prepare(box),
		request: req("PUT /box?restype=container&comp=metadata", "x-ms-meta-m: 1"), after: boxReads},
	"Container.SubmitBatch": {prepare: prepare(box, block),
		request: batch("POST /box?restype=container&comp=batch"), after: blobReads},
	"Container.AcquireLease": {prepare: prepare(box),
		request: req("PUT /box?restype=container&comp=lease", "x-ms-lease-action: acquire", "x-ms-lease-duration: -1"),
		after:   boxReads},
	"Container.BreakLease": {prepare: prepare(box, boxLeased),
		request: req("PUT /box?restype=container&comp=lease", "x-ms-lease-action: break"), after: boxReads},
	"Container.ChangeLease": {prepare: prepare(box, boxLeased),
		request: req("PUT /box?restype=container&comp=lease", "x-ms-lease-action: change", "x-ms-lease-id: "+lease,
			"x-ms-proposed-lease-id: 22222222-0000-0000-0000-222222222222"), after: boxReads},
	"Container.ReleaseLease": {prepare: prepare(box, boxLeased),
		request: req("PUT /box?restype=container&comp=lease", "x-ms-lease-action: release", "x-ms-lease-id: "+lease),
		after:   boxReads},
	"Container.RenewLease": {prepare: prepare(box, boxLeased),
		request: req("PUT /box?restype=container&comp=lease", "x-ms-lease-action: renew", "x-ms-lease-id: "+lease),
		after:   boxReads},
	"Container.ListBlobFlatSegment": {prepare: listed,
		request: req("GET /box?restype=container&comp=list&include=snapshots")},
	"Container.ListBlobFlatSegmentApacheArrow": {prepare: listed,
		request: req("GET /box?restype=container&comp=list&include=snapshots", arrow)},
	"Container.ListBlobHierarchySegmentApacheArrow": {prepare: listed,
		request: req("GET /box?restype=container&comp=list&delimiter=e", arrow)},
	"Container.ListBlobHierarchySegment": {prepare: listed,
		request: req("GET /box?restype=container&comp=list&delimiter=e")},
}, leaseScenes(), map[string]scene{
	// Blobs of all types.
	"Blob.AbortCopyFromURL": {prepare: prepare(box, stalled),
		request: req("PUT /box/b?comp=copy&copyid={copy}", "x-ms-copy-action: abort"), after: []request{headBlob}},
	"Blob.CopyFromURL": {prepare: prepare(box, source, block),
		request: req("PUT /box/b", "x-ms-copy-source: {url}/box/s", "x-ms-requires-sync: true"), after: blobReads},
	"Blob.StartCopyFromURL": {prepare: prepare(box, source,
		req("PUT /box/s?comp=tier", "x-ms-access-tier: Archive"), block),
		request: req("PUT /box/b", "x-ms-copy-source: {url}/box/s", "x-ms-access-tier: Cool"), after: blobReads},
	"Blob.CreateSnapshot": {prepare: prepare(box, block), request: snapshot, after: blobReads},
	"Blob.Delete": {prepare: prepare(retention, box, block, snapshot),
		request: req("DELETE /box/b", "x-ms-delete-snapshots: include"), after: []request{listBox}},
	"Blob.DeleteImmutabilityPolicy": {prepare: prepare(box, block, snapshot, immutable),
		request: req("DELETE /box/b?comp=immutabilityPolicies"), after: blobReads},
	"Blob.SetImmutabilityPolicy": {prepare: prepare(box, block, snapshot), request: immutable, after: blobReads},
	"Blob.SetLegalHold": {prepare: prepare(box, block, snapshot),
		request: req("PUT /box/b?comp=legalhold", "x-ms-legal-hold: true"), after: blobReads},
	"Blob.Download": {prepare: prepare(box, block, snapshot, req("PUT /box/b?comp=metadata")),
		request: getBlob},
	"Blob.GetAccountInfo": {prepare: prepare(box, block),
		request: req("GET /box/b?restype=account&comp=properties")},
	"Blob.GetProperties": {prepare: prepare(box, block, snapshot, req("PUT /box/b?comp=metadata")),
		request: headBlob},
	"Blob.GetTags": {prepare: prepare(box, block, snapshot,
		req("PUT /box/b?comp=tags", "= <Tags><TagSet/></Tags>")), request: getTags},
	"Blob.SetTags": {prepare: prepare(box, block, snapshot, req("PUT /box/b?comp=metadata")),
		request: req("PUT /box/b?comp=tags", "= "+tagsBody), after: blobReads},
	"Blob.SetExpiry": {prepare: prepare(box, block),
		request: req("PUT /box/b?comp=expiry", "x-ms-expiry-option: NeverExpire"), after: blobReads},
	"Blob.SetHTTPHeaders": {prepare: prepare(box, block), request: req("PUT /box/b?comp=properties"),
		after: blobReads},
	"Blob.SetMetadata": {prepare: prepare(box, block),
		request: req("PUT /box/b?comp=metadata", "x-ms-meta-m: 1"), after: blobReads},
	"Blob.SetTier": {prepare: prepare(box, block, snapshot, req("PUT /box/b?comp=metadata"), archived),
		request: req("PUT /box/b?comp=tier", "x-ms-access-tier: Cold"), after: blobReads},
	"Blob.Undelete": {prepare: prepare(retention, box, appended, req("DELETE /box/b")),
		request: req("PUT /box/b?comp=undelete"), after: blobReads},

	// Block blobs.
	"BlockBlob.Upload": {prepare: prepare(box, block),
		request: req("PUT /box/b", "x-ms-blob-type: BlockBlob", "= hello"), after: blobReads},
	"BlockBlob.UploadBlobFromURL": {prepare: prepare(box, source, block),
		request: req("PUT /box/b", "x-ms-blob-type: BlockBlob", "x-ms-copy-source: {url}/box/s"), after: blobReads},
	"BlockBlob.StageBlock": {prepare: prepare(box, block), request: staged,
		after: []request{req("GET /box/b?comp=blocklist&blocklisttype=all")}},
	"BlockBlob.StageBlockFromURL": {prepare: prepare(box, source, block),
		request: req("PUT /box/b?comp=block&blockid=MQ%3D%3D", "x-ms-copy-source: {url}/box/s"),
		after:   []request{req("GET /box/b?comp=blocklist&blocklisttype=all")}},
	"BlockBlob.CommitBlockList": {prepare: prepare(box, block, staged),
		request: req("PUT /box/b?comp=blocklist", "= <BlockList><Latest>MQ==</Latest></BlockList>"), after: blobReads},
	"BlockBlob.GetBlockList": {prepare: prepare(box, block, staged,
		req("PUT /box/b?comp=blocklist", "= <BlockList><Latest>MQ==</Latest></BlockList>"), snapshot,
		req("PUT /box/b?comp=block&blockid=Mg%3D%3D", "= 2")), request: req("GET /box/b?comp=blocklist&blocklisttype=all")},
	"BlockBlob.Query": {prepare: prepare(box, block, snapshot),
		request: req("POST /box/b?comp=query", "= "+query)},

	// Append blobs.
	"AppendBlob.Create": {prepare: prepare(box, appended),
		request: req("PUT /box/b", "x-ms-blob-type: AppendBlob"), after: blobReads},
	"AppendBlob.AppendBlock": {prepare: prepare(box, appended),
		request: req("PUT /box/b?comp=appendblock", "= hello"), after: blobReads},
	"AppendBlob.AppendBlockFromURL": {prepare: prepare(box, source, appended),
		request: req("PUT /box/b?comp=appendblock", "x-ms-copy-source: {url}/box/s"), after: blobReads},
	"AppendBlob.Seal": {prepare: prepare(box, appended), request: req("PUT /box/b?comp=seal"),
		after: blobReads},

	// Page blobs.
	"PageBlob.Create": {prepare: prepare(box, pages),
		request: req("PUT /box/b", "x-ms-blob-type: PageBlob", "x-ms-blob-content-length: 512"), after: blobReads},
	"PageBlob.UploadPages": {prepare: prepare(box, pages), request: written, after: blobReads},
	"PageBlob.UploadPagesFromURL": {prepare: prepare(box, source, pages),
		request: req("PUT /box/b?comp=page", "x-ms-page-write: update", "Range: bytes=0-511", "x-ms-copy-source: {url}/box/s",
			"x-ms-source-range: bytes=0-511"), after: blobReads},
	"PageBlob.ClearPages": {prepare: prepare(box, pages, written),
		request: req("PUT /box/b?comp=page", "x-ms-page-write: clear", "Range: bytes=0-511"), after: blobReads},
	"PageBlob.Resize": {prepare: prepare(box, pages),
		request: req("PUT /box/b?comp=properties", "x-ms-blob-content-length: 1024"), after: blobReads},
	"PageBlob.UpdateSequenceNumber": {prepare: prepare(box, pages,
		req("PUT /box/b?comp=properties", "x-ms-sequence-number-action: update", "x-ms-blob-sequence-number: 7")),
		request: req("PUT /box/b?comp=properties", "x-ms-sequence-number-action: max", "x-ms-blob-sequence-number: 5"),
		after:   blobReads},
	"PageBlob.GetPageRanges": {prepare: prepare(box, pages, snapshot, written, writtenTwo),
		request: req("GET /box/b?comp=pagelist")},
	"PageBlob.GetPageRangesDiff": {prepare: prepare(box, pages, snapshot, written, writtenTwo),
		request: req("GET /box/b?comp=pagelist&prevsnapshot={snapshot}")},
	"PageBlob.CopyIncremental": {prepare: prepare(box, sourcePages, req("PUT /box/s?comp=snapshot"), incremental,
		req("PUT /box/s?comp=snapshot")),
		request: req("PUT /box/i?comp=incrementalcopy", "x-ms-copy-source: {url}/box/s?snapshot={snapshot}"),
		after:   []request{listBox}},
})

// listed is a container with names for prefixes, delimiters and pages.
var listed = prepare(retention, box, block, snapshot, deadSnap, snapshot, another,
	req("PUT /box/z", "x-ms-blob-type: AppendBlob"), req("DELETE /box/z"),
	req("PUT /box/y", "x-ms-copy-source: {url}/box/b"), req("PUT /box/b?comp=legalhold", "x-ms-legal-hold: true"),
	immutable, req("PUT /box/u?comp=block&blockid=MQ%3D%3D", "= u"))

// arrow asks for a list as Apache Arrow stream, or as XML where the service has none.
const arrow = "accept: application/vnd.apache.arrow.stream,application/xml"

const query = `<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * from BlobStorage</Expression></QueryRequest>`

func bearer(r request) request {
	r.bearer = true
	return r
}

// batch deletes the blob.
func batch(line string) request {
	r := req(line, "content-type: multipart/mixed; boundary=batch_1",
		"= --batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\nContent-ID: "+
			"0\r\n\r\nDELETE /{account}/box/b HTTP/1.1\r\n{signature}\r\n\r\n--batch_1--\r\n")
	r.inner = "/box/b"
	return r
}

// leaseScenes are the operations of leases of a blob.
func leaseScenes() map[string]scene {
	of := func(action string, parts ...string) request {
		return req("PUT /box/b?comp=lease", append([]string{"x-ms-lease-action: " + action}, parts...)...)
	}
	return map[string]scene{
		"Blob.AcquireLease": {prepare: prepare(box, block), request: of("acquire", "x-ms-lease-duration: -1"),
			after: blobReads},
		"Blob.BreakLease": {prepare: prepare(box, block, leased), request: of("break"), after: blobReads},
		"Blob.ChangeLease": {prepare: prepare(box, block, leased),
			request: of("change", "x-ms-lease-id: "+lease, "x-ms-proposed-lease-id: 22222222-0000-0000-0000-222222222222"),
			after:   blobReads},
		"Blob.ReleaseLease": {prepare: prepare(box, block, leased), request: of("release", "x-ms-lease-id: "+lease),
			after: blobReads},
		"Blob.RenewLease": {prepare: prepare(box, block, leased), request: of("renew", "x-ms-lease-id: "+lease),
			after: blobReads},
	}
}
