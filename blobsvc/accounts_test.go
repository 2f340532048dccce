package blobsvc_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/service/blobhost"
)

const otherKey = "b3RoZXIga2V5"

// otherAccount is an account beside the development account, with settings of its own.
func otherAccount(t testing.TB, settings ...string) auth.Account {
	t.Helper()
	o := must(accountprops.ParseOverrides(settings))(t)
	return auth.Account{Name: "other", Keys: []auth.Key{must(auth.ParseKey(otherKey))(t)}, Overrides: o}
}

// other is a client of otherAccount.
func (f *fixture) other() *service.Client {
	f.t.Helper()
	cred := must(azblob.NewSharedKeyCredential("other", otherKey))(f.t)
	return must(service.NewClientWithSharedKeyCredential(strings.Replace(f.base, auth.DevelopmentAccount, "other", 1),
		cred,
		&service.ClientOptions{ClientOptions: noRetries}))(f.t)
}

// What is set of one account changes nothing in another, in either direction.
func TestSettingsOfAccounts(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{},
			otherAccount(t, "blob-versioning=true", "blob-immutability=true", "blob-change-feed=true", "blob-access-times=true",
				"container-soft-delete-days=3"))
	})
	has, hasNot := f.other(), f.service()
	for _, s := range []*service.Client{has, hasNot} {
		on := s == has
		c := s.NewContainerClient("box")
		must(c.Create(ctx, nil))(t)
		b := c.NewBlockBlobClient("b")
		if v := must(b.Upload(ctx, body("one"), nil))(t).VersionID; (v != nil) != on {
			t.Errorf("versions %t: id %v", on, v)
		}
		must(b.Upload(ctx, body("two"), nil))(t)
		if p := must(b.GetProperties(ctx, nil))(t); (p.LastAccessed != nil) != on {
			t.Errorf("access times %t: %v", on, p.LastAccessed)
		}
		_, err := b.SetLegalHold(ctx, true, nil)
		if on {
			must(b.SetLegalHold(ctx, false, nil))(t)
		} else {
			wantCode(t, err, 409, "ImmutableStorageWithVersioningNotEnabled")
		}
		n := 0
		for pager := c.NewListBlobsFlatPager(
			&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Versions: true}}); pager.More(); {
			n += len(must(pager.NextPage(ctx))(t).Segment.BlobItems)
		}
		if want := map[bool]int{true: 2, false: 1}[on]; n != want {
			t.Errorf("versions %t: %d listed", on, n)
		}
		if err := f.parts.Clean(ctx); err != nil {
			t.Fatal(err)
		}
		_, err = s.NewContainerClient("$blobchangefeed").GetProperties(ctx, nil)
		if (err == nil) != on {
			t.Errorf("change feed %t: %v", on, err)
		}
		// Another container, for one whose blobs can be immutable is deleted only when it is empty.
		gone := s.NewContainerClient("gone")
		must(gone.Create(ctx, nil))(t)
		must(gone.Delete(ctx, nil))(t)
		list := must(s.NewListContainersPager(
			&service.ListContainersOptions{Include: service.ListContainersInclude{Deleted: true},
				Prefix: to.Ptr("gone")}).NextPage(ctx))(t)
		if (len(list.ContainerItems) == 1) != on {
			t.Errorf("deleted containers %t: %d", on, len(list.ContainerItems))
		}
	}
}

// An account that is given settings while the process runs has them from the next request on.
func TestSettingsChange(t *testing.T) {
	t.Parallel()
	var accounts *auth.Accounts
	f := startWith(t, func(c *blobhost.Config) { manage(c, accountprops.Blob{}, otherAccount(t)); accounts = c.Accounts })
	c := f.other().NewContainerClient("box")
	must(c.Create(ctx, nil))(t)
	put := func() *string { return must(c.NewBlockBlobClient("b").Upload(ctx, body("x"), nil))(t).VersionID }
	scope := &blockblob.UploadOptions{CPKScopeInfo: &blob.CPKScopeInfo{EncryptionScope: to.Ptr("late")}}
	if put() != nil {
		t.Error("a version before versions are kept")
	}
	_, err := c.NewBlockBlobClient("s").Upload(ctx, body("x"), scope)
	wantCode(t, err, 409, "EncryptionScopeNotAvailable")
	if err := accounts.Replace(otherAccount(t, "blob-versioning=true", "encryption-scopes=late")); err != nil {
		t.Fatal(err)
	}
	if put() == nil {
		t.Error("no version once versions are kept")
	}
	must(c.NewBlockBlobClient("s").Upload(ctx, body("text"), scope))(t)
	if got := downloaded(t, c.NewBlobClient("s"), nil, 0, 0); got != "text" {
		t.Errorf("the scope's blob is %q", got)
	}
	if err := accounts.Replace(otherAccount(t, "blob-immutability=true")); err == nil {
		t.Error("policies without versions are taken")
	}
	if err := accounts.Replace(otherAccount(t)); err != nil {
		t.Fatal(err)
	}
	if put() != nil {
		t.Error("a version after versions are not kept any more")
	}
	_, err = c.NewBlobClient("s").DownloadStream(ctx, nil)
	wantCode(t, err, 403, "EncryptionScopeDisabled")
}

// Scopes of the same name in two accounts have two keys; one account's scope is not there for another.
func TestScopesOfAccounts(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(c *blobhost.Config) {
		manage(c, accountprops.Blob{Scopes: []string{"common"}}, otherAccount(t, "encryption-scopes=common,own"))
	})
	upload := func(s *service.Client, name, scope string) error {
		_, err := s.NewContainerClient("box").NewBlockBlobClient(name).Upload(ctx, body(secret),
			&blockblob.UploadOptions{CPKScopeInfo: &blob.CPKScopeInfo{EncryptionScope: &scope}})
		return err
	}
	for _, s := range []*service.Client{f.other(), f.service()} {
		must(s.CreateContainer(ctx, "box", nil))(t)
		if err := upload(s, "b", "common"); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, upload(f.service(), "c", "own"), 409, "EncryptionScopeNotAvailable")
	if err := upload(f.other(), "c", "own"); err != nil {
		t.Error(err)
	}
	keys := map[string]string{} // three, and the checksum of the file
	if err := json.Unmarshal(must(os.ReadFile(f.dir+"/scopes.json"))(t), &keys); err != nil || len(keys) != 4 ||
		keys["other/common"] == keys[auth.DevelopmentAccount+"/common"] {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	// A copy to the scope of that name in the other account is encrypted again, and is read there.
	source := f.other().NewContainerClient("box").NewBlobClient("b")
	token := must(sas.BlobSignatureValues{ContainerName: "box", BlobName: "b", Permissions: "r",
		ExpiryTime: f.now().Add(1e12)}.
		SignWithSharedKey(must(azblob.NewSharedKeyCredential("other", otherKey))(t)))(t)
	url := source.URL() + "?" + token.Encode()
	f.do("PUT", "/box/copy", "", "x-ms-copy-source", url, "x-ms-encryption-scope", "common").want(t, 202, "")
	if r := f.do("GET", "/box/copy", "").want(t, 200, ""); r.body != secret ||
		r.header.Get("x-ms-encryption-scope") != "common" {
		t.Errorf("%q in scope %q", r.body, r.header.Get("x-ms-encryption-scope"))
	}
	if f.atRest(secret) {
		t.Error("content lies in the clear")
	}
}

// Keys of earlier versions, whose scopes were those of all accounts, still open what they have sealed.
func TestScopeKeysOfAllAccounts(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(c *blobhost.Config) {
		if err := os.WriteFile(c.Path[:strings.LastIndex(c.Path, "/")]+"/scopes.json",
			[]byte(`{"old":"`+strings.Repeat("A", 43)+`="}`), 0o600); err != nil {
			t.Fatal(err)
		}
		manage(c, accountprops.Blob{Scopes: []string{"old"}}, otherAccount(t))
	})
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", secret, "x-ms-blob-type", "BlockBlob", "x-ms-encryption-scope", "old").want(t, 201, "")
	f.reopen()
	if r := f.do("GET", "/box/b", "").want(t, 200, ""); r.body != secret {
		t.Errorf("%q", r.body)
	}
	if text := string(must(os.ReadFile(f.dir + "/scopes.json"))(t)); strings.Contains(text, "/old") {
		t.Errorf("another key was made beside the old one: %s", text)
	}
}

// Between accounts that the host names, a copy stays inside the process, so it needs no permission to read from the
// network.
func TestCopyBetweenAccountsOfHosts(t *testing.T) {
	t.Parallel()
	f := startWith(t, func(c *blobhost.Config) { manage(c, accountprops.Blob{}, otherAccount(t)) })
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	f.do("PUT", "/box/b", "x", "x-ms-blob-type", "BlockBlob").want(t, 201, "")
	server := must(url.Parse(f.base))(t).Host
	_, port, _ := net.SplitHostPort(server)
	key := must(azblob.NewSharedKeyCredential("other", otherKey))(t)
	signed := must(sas.AccountSignatureValues{ResourceTypes: "sco", Permissions: "rwdlac",
		ExpiryTime: f.now().Add(time.Hour)}.SignWithSharedKey(key))(t)
	token := signed.Encode()
	send := func(path, content string, headers ...string) reply {
		hr := must(http.NewRequest("PUT", "http://"+server+path+"&"+token, strings.NewReader(content)))(t)
		hr.Host = "other.blob.store.example:" + port
		for i := 0; i < len(headers); i += 2 {
			hr.Header.Set(headers[i], headers[i+1])
		}
		return f.send(hr)
	}
	send("/mine?restype=container", "").want(t, 201, "")
	readable := must(sas.BlobSignatureValues{ContainerName: "box", BlobName: "b", Permissions: "r",
		ExpiryTime: f.now().Add(time.Hour)}.SignWithSharedKey(credential(t)))(t)
	mine := readable.Encode()
	for host, want := range map[string]string{
		"devstoreaccount1.blob.store.example:" + port:           "",
		"devstoreaccount1-secondary.blob.STORE.example:" + port: "",
		"devstoreaccount1.blob.store.example:1":                 "CannotVerifyCopySource",
		"devstoreaccount1.blob.store.example":                   "CannotVerifyCopySource",
		"devstoreaccount1.blob.else.example:" + port:            "CannotVerifyCopySource",
		"stranger.blob.store.example:" + port:                   "CannotVerifyCopySource",
	} {
		for _, headers := range [][]string{nil, {"x-ms-requires-sync", "true"}, {"x-ms-blob-type", "BlockBlob"}} {
			r := send("/mine/copy?", "", append(headers, "x-ms-copy-source", "http://"+host+"/box/b?"+mine)...)
			if r.code() != want {
				t.Errorf("from %s with %v: %d %s, want %q", host, headers, r.status, r.code(), want)
			}
		}
		// no credential for the source
		r := send("/mine/copy?", "", "x-ms-requires-sync", "true", "x-ms-copy-source", "http://"+host+"/box/b")
		if r.code() != "CannotVerifyCopySource" {
			t.Errorf("from %s without a credential: %d %s", host, r.status, r.code())
		}
	}
}
