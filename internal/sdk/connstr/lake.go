package connstr

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake"
	lake "github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/service"
)

// Lake returns a client of the dfs endpoint of the Blob service. The SDK finds the Blob endpoint by replacing "dfs" in
// the host's name; for an endpoint whose host is not named so, the client uses the names ACCOUNT.dfs.localhost and
// ACCOUNT.blob.localhost and connects to the host of the endpoint, which may be that of the Blob service alone.
func (s Settings) Lake(o Options) (*lake.Client, error) {
	options := &lake.ClientOptions{ClientOptions: o.client()}
	endpoint := s.DFSEndpoint
	if endpoint == "" {
		endpoint = strings.Replace(s.BlobEndpoint, ".blob.", ".dfs.", 1)
	}
	if u, err := url.Parse(endpoint); err == nil && endpoint != "" && !strings.Contains(u.Host, ".dfs.") {
		address, name := u.Host, s.Account+".dfs.localhost"
		if port := u.Port(); port != "" {
			name += ":" + port
		}
		if o.Transport == nil {
			t := network.Clone()
			dial := t.DialContext
			t.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
				if strings.HasPrefix(to, s.Account+".") {
					to = address
				}
				return dial(ctx, network, to)
			}
			options.Transport = &http.Client{Transport: t}
		}
		u.Host, u.Path = name, ""
		endpoint = u.String()
	}
	return build("dfs", endpoint, s,
		func(u string) (*lake.Client, error) {
			cred, err := azdatalake.NewSharedKeyCredential(s.Account, s.Key.Reveal())
			if err != nil {
				return nil, err
			}
			return lake.NewClientWithSharedKeyCredential(u, cred, options)
		},
		func(u string) (*lake.Client, error) { return lake.NewClientWithNoCredential(u, options) })
}
