package bench

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

func TestParseConnectionString(t *testing.T) {
	t.Parallel()
	local := func(port string) Endpoint {
		return Endpoint{Addr: "127.0.0.1:" + port, Host: "127.0.0.1:" + port, Base: "/devstoreaccount1"}
	}
	tests := []struct {
		name, in string
		account  string
		want     [serviceCount]Endpoint
	}{
		{"development storage", "UseDevelopmentStorage=true", connstr.DevelopmentAccount,
			[serviceCount]Endpoint{local("10000"), local("10001"), local("10002")}},
		{"explicit endpoints",
			"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://h:1/a;QueueEndpoint=http://h:2/a/;TableEndpoint=https://t/;", "a",
			[serviceCount]Endpoint{{Addr: "h:1", Host: "h:1", Base: "/a"}, {Addr: "h:2", Host: "h:2", Base: "/a"},
				{Addr: "t:443", Host: "t", TLS: true}}},
		{"Azure", "AccountName=a;AccountKey=a2V5", "a",
			[serviceCount]Endpoint{
				{Addr: "a.blob.core.windows.net:443", Host: "a.blob.core.windows.net", TLS: true},
				{Addr: "a.queue.core.windows.net:443", Host: "a.queue.core.windows.net", TLS: true},
				{Addr: "a.table.core.windows.net:443", Host: "a.table.core.windows.net", TLS: true},
			}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st, err := ParseConnectionString(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if st.Account != tt.account {
				t.Errorf("account %q, want %q", st.Account, tt.account)
			}
			if diff := cmp.Diff(tt.want, st.Endpoints); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"", "x", "AccountName=a", "AccountName=a;AccountKey=%",
		"AccountName=a;SharedAccessSignature=sig=x", "AccountName=a;AccountKey=a2V5;BlobEndpoint=ftp://x"} {
		if _, err := ParseConnectionString(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParsePreload(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want Preload
		bad  bool
	}{
		{in: "", want: DefaultPreload},
		{in: "7", want: Preload{7, 7, 7}},
		{in: "entities=1000000", want: Preload{1_000_000, DefaultPreload.Messages, DefaultPreload.Blobs}},
		{in: "messages=1,blobs=2", want: Preload{DefaultPreload.Entities, 1, 2}},
		{in: "-1", bad: true},
		{in: "rows=1", bad: true},
		{in: "blobs", bad: true},
	}
	for _, tt := range tests {
		got, err := ParsePreload(tt.in)
		if (err != nil) != tt.bad {
			t.Errorf("ParsePreload(%q): error %v", tt.in, err)
		} else if err == nil && got != tt.want {
			t.Errorf("ParsePreload(%q) = %+v, want %+v", tt.in, got, tt.want)
		}
	}
}
