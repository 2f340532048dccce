package auth

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The order that the official Python SDK signs, which follows Azure's servers.
const weightedOrder = "x-ms-blob-content-type x-ms-blob-type x-ms-date x-ms-meta x-ms-meta-- x-ms-meta-_- " +
	"x-ms-meta-__ x-ms-meta--_1 " +
	"x-ms-meta-_1_ x-ms-meta-_aa x-ms-meta--_aa x-ms-meta-_aba x-ms-meta-1 x-ms-meta--1-- x-ms-meta-1_ x-ms-meta-1_-_ " +
	"x-ms-meta-11 " +
	"x-ms-meta-11- x-ms-meta-1a x-ms-meta-1a_1 x-ms-meta-1-aa x-ms-meta-1bb x-ms-meta-a- x-ms-meta--a x-ms-meta-a_ " +
	"x-ms-meta-a_b " +
	"x-ms-meta-a1 x-ms-meta-aa x-ms-meta-aa-- x-ms-meta-a-ab x-ms-meta-ab x-ms-meta-a-b x-ms-meta-ab__ x-ms-meta-ab1b " +
	"x-ms-meta-aba- " +
	"x-ms-metab x-ms-meta-b x-ms-meta-b_- x-ms-meta-b_a x-ms-meta-b1b_ x-ms-meta-ba x-ms-meta--ba x-ms-meta-bb " +
	"x-ms-meta-z x-ms-version"

func TestCompareWeighted(t *testing.T) {
	t.Parallel()
	want := strings.Fields(weightedOrder)
	got := slices.Clone(want)
	slices.Sort(got)
	slices.SortFunc(got, compareWeighted)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	for _, a := range want {
		for _, b := range want {
			if x, y := compareWeighted(a, b), compareWeighted(b, a); (x < 0) != (y > 0) || (x == 0) != (a == b) {
				t.Errorf("%s and %s: %d and %d", a, b, x, y)
			}
		}
	}
}

// Each text is one that some client or version signs; the server takes it, and none that is signed with another.
func TestOtherForms(t *testing.T) {
	t.Parallel()
	accounts := Development()
	key := accounts.Get(DevelopmentAccount).Keys[0]
	const date = "x-ms-date:Wed, 04 Mar 2026 05:06:07 GMT\n"
	const dateHeader = "x-ms-date: Wed, 04 Mar 2026 05:06:07 GMT"
	for _, tc := range []struct {
		name, scheme, head, message string
		svc                         wire.Service
		want                        error
	}{
		{"names by bytes", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a-b: 1\nx-ms-meta-aa: 2\nx-ms-version: 2021-12-02\n" +
				dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-meta-a-b:1\nx-ms-meta-aa:2\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c", wire.Blob, nil},
		{"names by weight", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a-b: 1\nx-ms-meta-aa: 2\nx-ms-version: 2021-12-02\n" +
				dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-meta-aa:2\nx-ms-meta-a-b:1\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c", wire.Blob, nil},
		{"names in no order", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a-b: 1\nx-ms-meta-aa: 2\nx-ms-version: 2021-12-02\n" +
				dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-meta-aa:2\nx-ms-meta-a-b:1\n" + date +
				"x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c", wire.Blob, wire.ErrAuthenticationFailed},
		{"blanks as they are", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a: 1  \t2\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-meta-a:1  \t2\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c", wire.Blob, nil},
		{"blanks squeezed", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a: 1  \t2\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-meta-a:1 2\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c", wire.Blob, nil},
		{"blanks taken away", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a: 1  \t2\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-meta-a:12\nx-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c", wire.Blob,
			wire.ErrAuthenticationFailed},
		{"an empty header", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a:\nx-ms-version: 2016-05-31\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date + "x-ms-meta-a:\nx-ms-version:2016-05-31\n/devstoreaccount1/devstoreaccount1/c",
			wire.Blob, nil},
		{"an empty header, before 2016-05-31", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-meta-a:\nx-ms-version: 2015-12-11\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date + "x-ms-version:2015-12-11\n/devstoreaccount1/devstoreaccount1/c", wire.Blob,
			nil},
		{"no body, before 2015-02-21", "SharedKey",
			"PUT /devstoreaccount1/c HTTP/1.1\nHost: h\nContent-Length: 0\nx-ms-version: 2014-02-14\n" + dateHeader,
			"PUT\n\n\n0\n\n\n\n\n\n\n\n\n" + date + "x-ms-version:2014-02-14\n/devstoreaccount1/devstoreaccount1/c", wire.Blob,
			nil},
		{"before 2009-09-19", "SharedKey",
			"GET /devstoreaccount1/c?comp=list&prefix=x HTTP/1.1\nHost: h\nx-ms-version: 2009-07-17\n" + dateHeader,
			"GET\n\n\n\n" + date + "x-ms-version:2009-07-17\n/devstoreaccount1/devstoreaccount1/c?comp=list", wire.Blob, nil},
		{"without a version, as now", "SharedKey",
			"PUT /devstoreaccount1/c HTTP/1.1\nHost: h\nContent-Length: 0\n" + dateHeader,
			"PUT\n\n\n\n\n\n\n\n\n\n\n\n" + date + "/devstoreaccount1/devstoreaccount1/c", wire.Blob, nil},
		{"without a version, as in 2009", "SharedKey",
			"PUT /devstoreaccount1/c HTTP/1.1\nHost: h\nContent-Length: 0\n" + dateHeader,
			"PUT\n\n\n0\n\n\n\n\n\n\n\n\n" + date + "/devstoreaccount1/devstoreaccount1/c", wire.Blob, nil},
		{"without a version, as in 2008", "SharedKey",
			"PUT /devstoreaccount1/c HTTP/1.1\nHost: h\nContent-Length: 0\n" + dateHeader,
			"PUT\n\n\n\n" + date + "/devstoreaccount1/devstoreaccount1/c", wire.Blob, nil},
		{"the old form for a new version", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n" + date + "x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c", wire.Blob,
			wire.ErrAuthenticationFailed},
		{"secondary, as the SDKs", "SharedKey",
			"GET /devstoreaccount1-secondary/c HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date + "x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1-secondary/c",
			wire.Blob, nil},
		{"secondary, as the reference", "SharedKey",
			"GET /devstoreaccount1-secondary/c HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-version:2021-12-02\n/devstoreaccount1-secondary/devstoreaccount1-secondary/c", wire.Blob, nil},
		{"secondary's name on the primary", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date + "x-ms-version:2021-12-02\n/devstoreaccount1-secondary/devstoreaccount1/c",
			wire.Blob, wire.ErrAuthenticationFailed},
		{"secondary, as libraries before version 12", "SharedKey",
			"GET /devstoreaccount1-secondary/?comp=stats HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/\ncomp:stats", wire.Queue, nil},
		{"secondary, lite, as libraries before version 12", "SharedKeyLite",
			"GET /devstoreaccount1-secondary/c?comp=list HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n" + date + "x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c?comp=list", wire.Blob, nil},
		{"secondary, table, as libraries before version 12", "SharedKey",
			"GET /devstoreaccount1-secondary/Tables HTTP/1.1\nHost: h\nx-ms-version: 2019-02-02\n" + dateHeader,
			"GET\n\n\nWed, 04 Mar 2026 05:06:07 GMT\n/devstoreaccount1/devstoreaccount1/Tables", wire.Table, nil},
		{"secondary, table, lite, as libraries before version 12", "SharedKeyLite",
			"GET /devstoreaccount1-secondary/Tables HTTP/1.1\nHost: h\nx-ms-version: 2019-02-02\n" + dateHeader,
			"Wed, 04 Mar 2026 05:06:07 GMT\n/devstoreaccount1/devstoreaccount1/Tables", wire.Table, nil},
		{"another account of a similar name", "SharedKey",
			"GET /devstoreaccount1/c HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date + "x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1-secondary/c",
			wire.Blob, wire.ErrAuthenticationFailed},
		{"a part without =, as a name", "SharedKey",
			"PUT /devstoreaccount1/c/p?comp=page&Update HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"PUT\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c/p\ncomp:page\nupdate:", wire.Blob, nil},
		{"a part without =, as .NET", "SharedKey",
			"PUT /devstoreaccount1/c/p?comp=page&Update HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"PUT\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c/p\n:Update\ncomp:page", wire.Blob, nil},
		{"a part with = and no value, as one without", "SharedKey",
			"PUT /devstoreaccount1/c/p?comp=page&update= HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"PUT\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c/p\n:update\ncomp:page", wire.Blob,
			wire.ErrAuthenticationFailed},
		{"secondary, and a part without =, as .NET before version 12", "SharedKey",
			"GET /devstoreaccount1-secondary/c/p?a&comp=page&&b HTTP/1.1\nHost: h\nx-ms-version: 2021-12-02\n" + dateHeader,
			"GET\n\n\n\n\n\n\n\n\n\n\n\n" + date +
				"x-ms-version:2021-12-02\n/devstoreaccount1/devstoreaccount1/c/p\n:a,b\ncomp:page", wire.Blob, nil},
		{"table, lite", "SharedKeyLite",
			"GET /devstoreaccount1/Tables HTTP/1.1\nHost: h\nx-ms-version: 2019-02-02\n" + dateHeader,
			"Wed, 04 Mar 2026 05:06:07 GMT\n/devstoreaccount1/devstoreaccount1/Tables", wire.Table, nil},
		{"table, full text under the lite scheme", "SharedKeyLite",
			"GET /devstoreaccount1/Tables HTTP/1.1\nHost: h\nx-ms-version: 2019-02-02\n" + dateHeader,
			"GET\n\n\nWed, 04 Mar 2026 05:06:07 GMT\n/devstoreaccount1/devstoreaccount1/Tables", wire.Table,
			wire.ErrAuthenticationFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := parse(t, tc.svc, sasNow, tc.head)
			r.HTTP.Header.Set("Authorization", tc.scheme+" "+DevelopmentAccount+":"+base64Signature(key, []byte(tc.message)))
			_, err := authenticate(r, accounts)
			if (err == nil) != (tc.want == nil) || !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func BenchmarkSAS(b *testing.B) {
	key, err := ParseKey(DevelopmentKey)
	if err != nil {
		b.Fatal(err)
	}
	accounts := Development()
	for name, token := range map[string]Token{
		"account": {Services: "b", ResourceTypes: "sco", Permissions: "rwl", Expiry: "2030-01-01T00:00:00Z",
			Protocol: "https,http"},
		"service": {Permissions: "r", Expiry: "2030-01-01T00:00:00Z"},
	} {
		b.Run(name, func(b *testing.B) {
			q, err := token.Sign(DevelopmentAccount, key, wire.Blob, "c/b")
			if err != nil {
				b.Fatal(err)
			}
			r := parse(b, wire.Blob, sasNow, "GET /"+DevelopmentAccount+"/c/b?"+q+" HTTP/1.1\nx-ms-version: 2021-12-02\nHost: h")
			need := Need{On: OnObject, Any: "r"}
			b.ReportAllocs()
			for b.Loop() {
				id, err := authenticate(r, accounts)
				if err == nil {
					err = id.Check(wire.Blob, need)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Of a request with many headers, few of the texts are tried that its signature could be of.
func TestFurtherFormsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		length, want int // of a text, and how many are tried at most
	}{
		{"a usual request", 1 << 10, 35},
		{"a request of 64 KiB", 64 << 10, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			hr := httptest.NewRequest("GET", "/devstoreaccount1-secondary/c/b", nil)
			hr.Header["X-Ms-B"], hr.Header["X-Ms-A-C"], hr.Header["X-Ms-Ab"] = []string{"a  b"}, []string{""}, []string{""}
			r, err := wire.Parse(wire.Blob, hr, nil, time.Now(), wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			tried := 0
			otherForm(r, usualForm(r, false), func(string, form) (bool, int) {
				tried++
				return false, tc.length
			})
			if tried != tc.want {
				t.Errorf("%d texts are tried, want %d", tried, tc.want)
			}
		})
	}
}
