package blobsvc_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

// The IDs of the lease that a blob of the matrix has, and of another.
const (
	matrixLease = "11111111-1111-1111-1111-111111111111"
	otherLease  = "22222222-2222-2222-2222-222222222222"
)

// errorOperation is a request that succeeds as it is, for a blob of a type.
type errorOperation struct {
	name, method, query, body string
	headers                   []string
	kind                      string
}

// errorOperations are the operations on blobs; sources are in the container of the matrix.
func errorOperations(base string) []errorOperation {
	source, pages := base+"/box/src", base+"/box/srcp"
	page := strings.Repeat("x", 512)
	from := []string{"x-ms-copy-source", source}
	write := []string{"x-ms-page-write", "update", "x-ms-range", "bytes=0-511"}
	tags := "<Tags><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tags>"
	sql := "<QueryRequest><QueryType>SQL</QueryType><Expression>select * from BlobStorage</Expression></QueryRequest>"
	until := []string{"x-ms-immutability-policy-until-date", "Fri, 01 Jan 2100 00:00:00 GMT"}
	return []errorOperation{
		{"PutBlob(Block)", "PUT", "", "x", []string{"x-ms-blob-type", "BlockBlob"}, "BlockBlob"},
		{"PutBlob(Page)", "PUT", "", "", []string{"x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "512"},
			"PageBlob"},
		{"PutBlob(Append)", "PUT", "", "", []string{"x-ms-blob-type", "AppendBlob"}, "AppendBlob"},
		{"PutBlobFromURL", "PUT", "", "", append([]string{"x-ms-blob-type", "BlockBlob"}, from...), "BlockBlob"},
		{"GetBlob", "GET", "", "", nil, "BlockBlob"},
		{"GetBlobProperties", "HEAD", "", "", nil, "BlockBlob"},
		{"GetBlobMetadata", "GET", "comp=metadata", "", nil, "BlockBlob"},
		{"SetBlobProperties", "PUT", "comp=properties", "", []string{"x-ms-blob-content-type", "a/b"}, "BlockBlob"},
		{"SetBlobMetadata", "PUT", "comp=metadata", "", []string{"x-ms-meta-a", "b"}, "BlockBlob"},
		{"GetBlobTags", "GET", "comp=tags", "", nil, "BlockBlob"},
		{"SetBlobTags", "PUT", "comp=tags", tags, nil, "BlockBlob"},
		{"LeaseBlob", "PUT", "comp=lease", "", []string{"x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1"},
			"BlockBlob"},
		{"SnapshotBlob", "PUT", "comp=snapshot", "", nil, "BlockBlob"},
		{"CopyBlob", "PUT", "", "", from, "BlockBlob"},
		{"CopyBlobFromURL", "PUT", "", "", append([]string{"x-ms-requires-sync", "true"}, from...), "BlockBlob"},
		{"AbortCopyBlob", "PUT", "comp=copy&copyid=" + matrixLease, "", []string{"x-ms-copy-action", "abort"}, "BlockBlob"},
		{"DeleteBlob", "DELETE", "", "", nil, "BlockBlob"},
		{"UndeleteBlob", "PUT", "comp=undelete", "", nil, "BlockBlob"},
		{"SetBlobTier", "PUT", "comp=tier", "", []string{"x-ms-access-tier", "Cool"}, "BlockBlob"},
		{"SetBlobExpiry", "PUT", "comp=expiry", "", []string{"x-ms-expiry-option", "NeverExpire"}, "BlockBlob"},
		{"SetBlobImmutabilityPolicy", "PUT", "comp=immutabilitypolicies", "", until, "BlockBlob"},
		{"DeleteBlobImmutabilityPolicy", "DELETE", "comp=immutabilitypolicies", "", nil, "BlockBlob"},
		{"SetBlobLegalHold", "PUT", "comp=legalhold", "", []string{"x-ms-legal-hold", "false"}, "BlockBlob"},
		{"QueryBlobContents", "POST", "comp=query", sql, nil, "BlockBlob"},
		{"PutBlock", "PUT", "comp=block&blockid=YQ==", "x", nil, "BlockBlob"},
		{"PutBlockFromURL", "PUT", "comp=block&blockid=YQ==", "", from, "BlockBlob"},
		{"PutBlockList", "PUT", "comp=blocklist", "<BlockList></BlockList>", nil, "BlockBlob"},
		{"GetBlockList", "GET", "comp=blocklist", "", nil, "BlockBlob"},
		{"PutPage", "PUT", "comp=page", page, write, "PageBlob"},
		{"PutPage(clear)", "PUT", "comp=page", "", []string{"x-ms-page-write", "clear", "x-ms-range", "bytes=0-511"},
			"PageBlob"},
		{"PutPageFromURL", "PUT", "comp=page", "", append([]string{"x-ms-copy-source", pages, "x-ms-source-range",
			"bytes=0-511"}, write...), "PageBlob"},
		{"GetPageRanges", "GET", "comp=pagelist", "", nil, "PageBlob"},
		{"SetBlobProperties(size)", "PUT", "comp=properties", "", []string{"x-ms-blob-content-length", "1024"}, "PageBlob"},
		{"AppendBlock", "PUT", "comp=appendblock", "x", nil, "AppendBlob"},
		{"AppendBlockFromURL", "PUT", "comp=appendblock", "", from, "AppendBlob"},
		{"SealAppendBlob", "PUT", "comp=seal", "", nil, "AppendBlob"},
	}
}

// errorMatrix makes blobs in a state and sends operations to them.
type errorMatrix struct {
	*fixture
	t     *testing.T
	names int
}

// blob makes a blob of a type, "" for none, and returns its name.
func (m *errorMatrix) blob(kind string) string {
	m.names++
	name := fmt.Sprint("b", m.names)
	if kind != "" {
		headers := []string{"x-ms-blob-type", kind, "x-ms-blob-content-length", "1024"}
		m.do("PUT", "/box/"+name, "", headers...).want(m.t, 201, "")
	}
	return name
}

// leased is blob with a lease.
func (m *errorMatrix) leased(kind string) string {
	name := m.blob(kind)
	m.do("PUT", "/box/"+name+"?comp=lease", "", "x-ms-lease-action", "acquire", "x-ms-lease-duration", "-1",
		"x-ms-proposed-lease-id", matrixLease).want(m.t, 201, "")
	return name
}

// tiered is a block blob that is moved through tiers.
func (m *errorMatrix) tiered(tiers ...string) string {
	name := m.blob("BlockBlob")
	for _, tier := range tiers {
		if r := m.do("PUT", "/box/"+name+"?comp=tier", "", "x-ms-access-tier", tier); r.status >= 300 {
			m.t.Fatalf("%s: %d", tier, r.status)
		}
	}
	return name
}

// errorState is a state of the blob, and what the request has beside what the operation needs. path makes the blob
// and returns what follows the account in the request's path.
type errorState struct {
	name string
	path func(kind string) string
	more []string
}

// TestErrorMatrix sends every operation on blobs to a blob in every state, with every condition and lease ID, and
// compares status and error code with testdata/errors_matrix.txt: a line with the state, then one for each answer with
// the operations that have it. The errors are those of
// https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations and
// https://learn.microsoft.com/rest/api/storageservices/lease-blob#outcomes-of-use-attempts-on-blobs-by-lease-state,
// and those of recordings where these say nothing.
func TestErrorMatrix(t *testing.T) {
	t.Parallel()
	m := &errorMatrix{fixture: managed(t, accountprops.Blob{}), t: t}
	m.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "blob").want(t, 201, "")
	m.do("PUT", "/box/src", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	m.do("PUT", "/box/srcp", "", "x-ms-blob-type", "PageBlob", "x-ms-blob-content-length", "1024").want(t, 201, "")
	var out strings.Builder
	for _, state := range m.states() {
		answers := map[string][]string{}
		for _, op := range errorOperations(m.base) {
			path, query, _ := strings.Cut(state.path(op.kind), "?")
			query = strings.Trim(op.query+"&"+query, "&")
			r := m.do(op.method, path+"?"+query, op.body, slices.Concat(op.headers, state.more)...)
			key := strings.TrimSpace(fmt.Sprint(r.status, " ", r.code()))
			answers[key] = append(answers[key], op.name)
		}
		out.WriteString(state.name + "\n")
		var lines []string
		for key, names := range answers {
			lines = append(lines, "  "+key+": "+strings.Join(names, " ")+"\n")
		}
		slices.Sort(lines)
		out.WriteString(strings.Join(lines, ""))
	}
	const file = "testdata/errors_matrix.txt"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := strings.Split(string(must(os.ReadFile(file))(t)), "\n")
	state := ""
	for i, line := range strings.Split(out.String(), "\n") {
		if !strings.HasPrefix(line, " ") {
			state = line
		}
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s\n%s\nwant\n%s", state, line, append(want, "the end")[min(i, len(want))])
		}
	}
}

// states are the rows of the matrix.
func (m *errorMatrix) states() []errorState {
	const wrong, past, future = `"0x8D4BCC2E4835CD0"`, "Sat, 01 Jan 2000 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"
	there := func(kind string) string { return "/box/" + m.blob(kind) }
	missing := func(string) string { return "/box/" + m.blob("") }
	leased := func(kind string) string { return "/box/" + m.leased(kind) }
	fixed := func(path string) func(string) string { return func(string) string { return path } }
	with := func(query string) func(string) string {
		return func(kind string) string { return there(kind) + "?" + query }
	}
	snapshot := func(kind string) string {
		path := there(kind)
		return path + "?snapshot=" + m.do("PUT", path+"?comp=snapshot", "").want(m.t, 201, "").header.Get("x-ms-snapshot")
	}
	return []errorState{
		{"a blob", there, nil}, {"no blob", missing, nil}, {"no container", fixed("/none/b"), nil},
		{"a container's name with a hyphen at the end", fixed("/b--/b"), nil},
		{"a container's name of two letters", fixed("/bo/b"), nil},
		{"a blob's name of 1025 letters", fixed("/box/" + strings.Repeat("b", 1025)), nil},
		{"a page blob", func(string) string { return there("PageBlob") }, nil},
		{"an append blob", func(string) string { return there("AppendBlob") }, nil},
		{"a block blob", func(string) string { return there("BlockBlob") }, nil},
		{"uncommitted blocks", func(string) string {
			path := missing("")
			m.do("PUT", path+"?comp=block&blockid=YQ==", "x").want(m.t, 201, "")
			return path
		}, nil},
		{"an archived blob", func(string) string { return "/box/" + m.tiered("Archive") }, nil},
		{"a blob on its way out of the archive", func(string) string { return "/box/" + m.tiered("Archive", "Hot") }, nil},
		{"a blob with a snapshot", func(kind string) string { return strings.Split(snapshot(kind), "?")[0] }, nil},
		{"a snapshot", snapshot, nil},
		{"a snapshot that does not exist", with("snapshot=2020-01-01T00:00:00.0000000Z"), nil},
		{"a snapshot that is no time", with("snapshot=x"), nil},
		{"a version that does not exist", with("versionid=2020-01-01T00:00:00.0000000Z"), nil},
		{"a version that is no time", with("versionid=x"), nil},
		{"a snapshot and a version", with("snapshot=2020-01-01T00:00:00.0000000Z&versionid=2020-01-01T00:00:00.0000000Z"),
			nil},

		{"If-Match: another", there, []string{"If-Match", wrong}},
		{"If-Match: another, no blob", missing, []string{"If-Match", wrong}},
		{"If-Match: *", there, []string{"If-Match", "*"}},
		{"If-Match: *, no blob", missing, []string{"If-Match", "*"}},
		{"If-None-Match: another", there, []string{"If-None-Match", wrong}},
		{"If-None-Match: *", there, []string{"If-None-Match", "*"}},
		{"If-None-Match: *, no blob", missing, []string{"If-None-Match", "*"}},
		{"If-Modified-Since: the future", there, []string{"If-Modified-Since", future}},
		{"If-Modified-Since: the past", there, []string{"If-Modified-Since", past}},
		{"If-Unmodified-Since: the past", there, []string{"If-Unmodified-Since", past}},
		{"If-Unmodified-Since: the past, no blob", missing, []string{"If-Unmodified-Since", past}},
		{"x-ms-if-tags, not met", there, []string{"x-ms-if-tags", `"a" = 'b'`}},
		{"x-ms-if-tags, no blob", missing, []string{"x-ms-if-tags", `"a" = 'b'`}},
		{"x-ms-if-tags, no condition", there, []string{"x-ms-if-tags", "garbage"}},

		{"leased", leased, nil}, {"leased, its ID", leased, []string{"x-ms-lease-id", matrixLease}},
		{"leased, another ID", leased, []string{"x-ms-lease-id", otherLease}},
		{"leased, If-Match: another", leased, []string{"If-Match", wrong}},
		{"leased, If-None-Match: *", leased, []string{"If-None-Match", "*"}},
		{"a lease that was broken, its ID", func(kind string) string {
			path := leased(kind)
			m.do("PUT", path+"?comp=lease", "", "x-ms-lease-action", "break").want(m.t, 202, "")
			return path
		}, []string{"x-ms-lease-id", matrixLease}},
		{"no lease, an ID", there, []string{"x-ms-lease-id", matrixLease}},
		{"no blob, an ID", missing, []string{"x-ms-lease-id", matrixLease}},
		{"an ID of a wrong form", there, []string{"x-ms-lease-id", "garbage"}},

		{"metadata with a name of a wrong form", there, []string{"x-ms-meta-1a", "b"}},
		{"metadata without a name", there, []string{"x-ms-meta-", "b"}},
		{"metadata of 8 KiB", there, []string{"x-ms-meta-a", strings.Repeat("b", 8<<10)}},
		{"tags with other characters", there, []string{"x-ms-tags", "a=&!=b"}},
		{"tags without a value", there, []string{"x-ms-tags", "a"}},
		{"eleven tags", there, []string{"x-ms-tags", "a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1&j=1&k=1"}},
		{"a tier of a wrong form", there, []string{"x-ms-access-tier", "Tepid"}},
		{"the tier Archive", there, []string{"x-ms-access-tier", "Archive"}},
		{"an MD5 of a wrong form", there, []string{"Content-MD5", "garbage"}},
		{"another MD5", there, []string{"Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="}},
		{"an MD5 of the blob of a wrong form", there, []string{"x-ms-blob-content-md5", "garbage"}},
		{"a CRC64 of a wrong form", there, []string{"x-ms-content-crc64", "garbage"}},
		{"another CRC64", there, []string{"x-ms-content-crc64", "AAAAAAAAAAA="}},
		{"an encryption scope that does not exist", there, []string{"x-ms-encryption-scope", "none"}},
		{"a source lease ID", there, []string{"x-ms-source-lease-id", matrixLease}},
		{"a timeout of a wrong form", with("timeout=x"), nil},
		{"a version of a wrong form", there, []string{"x-ms-version", "x"}},
		{"a version before the first", there, []string{"x-ms-version", "1999-01-01"}},
		{"a container's restype", with("restype=container"), nil},
	}
}
