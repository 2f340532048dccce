package blobsvc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/google/go-cmp/cmp"
)

func TestSetBlobTags(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	_, err := b.SetTags(ctx, map[string]string{"a": "1"}, nil)
	wantCode(t, err, 404, "BlobNotFound")
	up := must(b.Upload(ctx, body("x"), nil))(t)
	must(b.SetTags(ctx, map[string]string{"a": "1", "b c": "2"}, nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); *p.TagCount != 2 || *p.ETag != *up.ETag {
		t.Errorf("%+v", p)
	}
	must(b.SetTags(ctx, nil, nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); p.TagCount != nil {
		t.Errorf("%+v", p)
	}
	name := strings.Split(c.URL(), "/")[4]
	tags := func(s string) string { return "<Tags><TagSet>" + s + "</TagSet></Tags>" }
	one := func(k, v string) string { return "<Tag><Key>" + k + "</Key><Value>" + v + "</Value></Tag>" }
	for _, tc := range []struct{ name, body, code string }{
		{"not XML", "<Tags>", "InvalidXmlDocument"},
		{"another root", "<Tag/>", "InvalidXmlDocument"},
		{"empty key", tags(one("", "x")), "InvalidTag"},
		{"long key", tags(one(strings.Repeat("k", 129), "x")), "InvalidTag"},
		{"long value", tags(one("k", strings.Repeat("v", 257))), "InvalidTag"},
		{"bad character", tags(one("k", "ä")), "InvalidTag"},
		{"twice", tags(one("k", "1") + one("k", "2")), "InvalidTag"},
		{"eleven", tags(strings.Repeat(one("k", "1"), 11)), "TagsTooLarge"},
	} {
		t.Run(tc.name, func(t *testing.T) { f.do("PUT", "/"+name+"/b?comp=tags", tc.body).want(t, 400, tc.code) })
	}
	f.do("PUT", "/"+name+"/b?comp=tags", tags(""), "x-ms-if-tags", "a='1'").want(t, 412, "ConditionNotMet")
}

func TestGetBlobTags(t *testing.T) {
	t.Parallel()
	f := start(t)
	b := f.container().NewBlockBlobClient("b")
	must(b.Upload(ctx, body("x"), &blockUpload{Tags: map[string]string{"k": "v", "a b": "c:d"}}))(t)
	got := map[string]string{}
	for _, x := range must(b.GetTags(ctx, nil))(t).BlobTagSet {
		got[*x.Key] = *x.Value
	}
	if diff := cmp.Diff(map[string]string{"k": "v", "a b": "c:d"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSetBlobTier(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	b := c.NewBlockBlobClient("b")
	_, err := b.SetTier(ctx, blob.AccessTierCool, nil)
	wantCode(t, err, 404, "BlobNotFound")
	up := must(b.Upload(ctx, body("x"), nil))(t)
	for _, tier := range []blob.AccessTier{blob.AccessTierCool, blob.AccessTierCold, blob.AccessTierHot,
		blob.AccessTierArchive} {
		must(b.SetTier(ctx, tier, nil))(t)
		p := must(b.GetProperties(ctx, nil))(t)
		if *p.AccessTier != string(tier) || p.AccessTierInferred != nil || p.AccessTierChangeTime == nil ||
			*p.ETag != *up.ETag {
			t.Errorf("%s: %+v", tier, p)
		}
	}
	_, err = b.DownloadStream(ctx, nil)
	wantCode(t, err, 409, "BlobArchived")
	must(b.SetTier(ctx, blob.AccessTierHot, nil))(t)
	if p := must(b.GetProperties(ctx, nil))(t); *p.AccessTier != "Archive" ||
		*p.ArchiveStatus != "rehydrate-pending-to-hot" {
		t.Errorf("%+v", p)
	}
	_, err = b.SetTier(ctx, blob.AccessTierCool, nil)
	wantCode(t, err, 409, "BlobBeingRehydrated")
	f.advance(2 * time.Minute)
	name := strings.Split(c.URL(), "/")[4]
	if r := f.do("GET", "/"+name+"/b", "").want(t, 200, ""); r.body != "x" {
		t.Errorf("content %q", r.body)
	}
	f.do("PUT", "/"+name+"/b?comp=tier", "").want(t, 400, "MissingRequiredHeader")
	f.do("PUT", "/"+name+"/b?comp=tier", "", "x-ms-access-tier", "P10").want(t, 400, "InvalidHeaderValue")
	must(c.NewAppendBlobClient("a").Create(ctx, nil))(t)
	f.do("PUT", "/"+name+"/a?comp=tier", "", "x-ms-access-tier", "Cool").want(t, 400, "InvalidBlobTier")
}

func TestSetContainerACL(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	start, expiry := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := c.SetAccessPolicy(ctx,
		&container.SetAccessPolicyOptions{Access: to.Ptr(container.PublicAccessTypeBlob),
			ContainerACL: []*container.SignedIdentifier{
				{ID: to.Ptr("policy"), AccessPolicy: &container.AccessPolicy{Start: &start, Expiry: &expiry,
					Permission: to.Ptr("rl")}}}})
	if err != nil {
		t.Fatal(err)
	}
	got := must(c.GetAccessPolicy(ctx, nil))(t)
	if p := got.SignedIdentifiers[0]; *got.BlobPublicAccess != "blob" || *p.ID != "policy" ||
		!p.AccessPolicy.Start.Equal(start) || *p.AccessPolicy.Permission != "rl" {
		t.Errorf("%+v", got)
	}
	must(c.SetAccessPolicy(ctx, nil))(t)
	if got := must(c.GetAccessPolicy(ctx, nil))(t); got.BlobPublicAccess != nil || len(got.SignedIdentifiers) != 0 {
		t.Errorf("%+v", got)
	}
	name := strings.Split(c.URL(), "/")[4]
	f.do("PUT", "/"+name+"?restype=container&comp=acl", "<SignedIdentifiers>").want(t, 400, "InvalidXmlDocument")
	f.do("PUT", "/"+name+"?restype=container&comp=acl", "", "x-ms-blob-public-access", "x").want(t, 400,
		"InvalidHeaderValue")
	f.do("PUT", "/none?restype=container&comp=acl", "").want(t, 404, "ContainerNotFound")
}

func TestGetContainerACL(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("GET", "/none?restype=container&comp=acl", "").want(t, 404, "ContainerNotFound")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	if r := f.do("GET", "/box?restype=container&comp=acl", "").want(t, 200, ""); !strings.HasSuffix(r.body,
		"<SignedIdentifiers />") {
		t.Error(r.body)
	}
}

func TestSetBlobServiceProperties(t *testing.T) {
	t.Parallel()
	f := start(t)
	s := f.service()
	_, err := s.SetProperties(ctx, &service.SetPropertiesOptions{
		CORS: []*service.CORSRule{{AllowedOrigins: to.Ptr("http://a"), AllowedMethods: to.Ptr("GET"),
			AllowedHeaders: to.Ptr("*"),
			ExposedHeaders: to.Ptr("*"), MaxAgeInSeconds: to.Ptr(int32(5))}}, DefaultServiceVersion: to.Ptr("2019-12-12")})
	if err != nil {
		t.Fatal(err)
	}
	f.reopen()
	got := must(f.service().GetProperties(ctx, nil))(t)
	if *got.CORS[0].AllowedOrigins != "http://a" || *got.DefaultServiceVersion != "2019-12-12" {
		t.Errorf("%+v", got)
	}
	f.do("PUT", "/?restype=service&comp=properties", "<StorageServiceProperties>").want(t, 400, "InvalidXmlDocument")
}

func TestGetBlobServiceProperties(t *testing.T) {
	t.Parallel()
	f := start(t)
	got := must(f.service().GetProperties(ctx, nil))(t)
	if len(got.CORS) != 0 || *got.Logging.Read || *got.HourMetrics.Enabled || *got.DeleteRetentionPolicy.Enabled {
		t.Errorf("%+v", got)
	}
}

func TestPreflightBlobRequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	ask := func(path, origin string) reply {
		return f.anonymous("OPTIONS", path, "Origin", origin, "Access-Control-Request-Method", "GET")
	}
	ask("/box/b", "http://a").want(t, 403, "CorsPreflightFailure")
	f.do("PUT", "/?restype=service&comp=properties",
		"<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a</AllowedOrigins>"+
			"<AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>5</MaxAgeInSeconds></CorsRule></Cors>"+
			"</StorageServiceProperties>").want(t, 202, "")
	if r := ask("/box/b", "http://a").want(t, 200, ""); r.header.Get("Access-Control-Allow-Origin") != "http://a" {
		t.Errorf("%v", r.header)
	}
	ask("/box/b", "http://b").want(t, 403, "CorsPreflightFailure")
	f.do("PUT", "/box?restype=container", "").want(t, 201, "")
	if r := f.do("GET", "/box?restype=container&comp=list", "", "Origin", "http://a").want(t, 200,
		""); r.header.Get("Access-Control-Allow-Origin") != "http://a" {
		t.Errorf("%v", r.header)
	}
}

func TestGetAccountInformation(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	a := must(f.service().GetAccountInfo(ctx, nil))(t)
	b := must(c.GetAccountInfo(ctx, nil))(t)
	d := must(c.NewBlobClient("b").GetAccountInfo(ctx, nil))(t)
	for _, sku := range []string{string(*a.SKUName), string(*b.SKUName), string(*d.SKUName)} {
		if sku != "Standard_RAGRS" {
			t.Errorf("SKU %s", sku)
		}
	}
	f.do("HEAD", "/?restype=account&comp=properties", "").want(t, 200, "")
}

func TestGetBlobServiceStats(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("GET", "/?restype=service&comp=stats", "").want(t, 400, "InvalidQueryParameterValue")
	f.base += "-secondary"
	r := f.do("GET", "/?restype=service&comp=stats", "").want(t, 200, "")
	if !strings.Contains(r.body, "<Status>live</Status>") {
		t.Error(r.body)
	}
}

// The operation itself is tested in package auth; here, that it is wired and wants a token.
func TestGetUserDelegationKey(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("POST", "/?restype=service&comp=userdelegationkey", "<KeyInfo/>").want(t, 403, "AuthenticationFailed")
	// Nor does a shared access signature replace one.
	q := must(sas.AccountSignatureValues{ResourceTypes: "sco", Permissions: "rwdlacup",
		ExpiryTime: f.now().Add(time.Hour)}.SignWithSharedKey(credential(t)))(t)
	r := f.anonymous("POST", "/?restype=service&comp=userdelegationkey&"+q.Encode()).want(t, 403, "AuthenticationFailed")
	if !strings.Contains(r.body, "<AuthenticationErrorDetail>Only authentication scheme Bearer is "+
		"supported</AuthenticationErrorDetail>") {
		t.Error(r.body)
	}
}

// What a shared access signature permits, and what it does not.
func TestSharedAccess(t *testing.T) {
	t.Parallel()
	f := start(t)
	c := f.container()
	must(c.NewBlockBlobClient("b").Upload(ctx, body("x"), &blockUpload{Tags: map[string]string{"k": "v"}}))(t)
	expiry := time.Now().Add(time.Hour)
	with := func(name string, p sas.BlobPermissions) *blockblob.Client {
		u := must(c.NewBlobClient(name).GetSASURL(p, expiry, nil))(t)
		return must(blockblob.NewClientWithNoCredential(u, &blockblob.ClientOptions{ClientOptions: noRetries}))(t)
	}
	_, err := with("b", sas.BlobPermissions{Create: true}).Upload(ctx, body("y"), nil)
	wantCode(t, err, 403, "UnauthorizedBlobOverwrite") // to create is not to overwrite
	must(with("new", sas.BlobPermissions{Create: true}).Upload(ctx, body("y"), nil))(t)
	must(with("b", sas.BlobPermissions{Write: true}).Upload(ctx, body("y"), nil))(t)
	_, err = with("b", sas.BlobPermissions{Write: true}).Upload(ctx, body("y"),
		&blockUpload{Tags: map[string]string{"k": "v"}})
	wantCode(t, err, 403, "AuthorizationPermissionMismatch")
	must(with("b", sas.BlobPermissions{Write: true, Tag: true}).Upload(ctx, body("z"),
		&blockUpload{Tags: map[string]string{"k": "v"}}))(t)
	_, err = with("b", sas.BlobPermissions{Write: true}).Delete(ctx, nil)
	wantCode(t, err, 403, "AuthorizationPermissionMismatch")
	// Headers of its own instead of the blob's.
	query, err := sas.BlobSignatureValues{Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: expiry, Permissions: "r",
		ContainerName: strings.Split(c.URL(), "/")[4],
		BlobName:      "b", ContentType: "a/b", ContentDisposition: "inline",
		CacheControl: "none"}.SignWithSharedKey(credential(t))
	if err != nil {
		t.Fatal(err)
	}
	r := f.anonymous("GET", "/"+strings.Split(c.URL(), "/")[4]+"/b?"+query.Encode()).want(t, 200, "")
	if r.header.Get("Content-Type") != "a/b" || r.header.Get("Content-Disposition") != "inline" ||
		r.header.Get("Cache-Control") != "none" {
		t.Errorf("%v", r.header)
	}
}
