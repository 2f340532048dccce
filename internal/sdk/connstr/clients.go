package connstr

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/exposure"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
)

// Options hold what the clients of the three services have in common.
type Options struct {
	// Transport sends the requests; nil means one HTTP transport for the whole process that keeps enough idle
	// connections for a busy worker.
	Transport policy.Transporter
	// Retry is the SDK's retry policy; the zero value is the SDK's default.
	Retry policy.RetryOptions
	// PerCall are policies that see each request once.
	PerCall []policy.Policy
}

// idlePerHost is the number of idle connections that to one service are kept. The SDK's own transport keeps ten: a
// worker with more messages in flight than that would open and close a connection for nearly every request.
const idlePerHost = 256

var network = &http.Transport{
	Proxy:                 http.ProxyFromEnvironment,
	DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	ForceAttemptHTTP2:     true,
	MaxIdleConns:          3 * idlePerHost,
	MaxIdleConnsPerHost:   idlePerHost,
	IdleConnTimeout:       90 * time.Second,
	TLSHandshakeTimeout:   10 * time.Second,
	ExpectContinueTimeout: time.Second,
	// The services answer in small bodies that gain nothing from being compressed and inflated.
	DisableCompression: true,
}

// sharedTransport needs no connection to a server in this process.
var sharedTransport = &http.Client{Transport: inproc.Here{Next: network}}

func (o Options) client() azcore.ClientOptions {
	c := azcore.ClientOptions{Transport: o.Transport, Retry: o.Retry,
		PerCallPolicies: append([]policy.Policy{new(fallback)}, o.PerCall...)}
	if c.Transport == nil {
		c.Transport = sharedTransport
	}
	return c
}

var errNoEndpoint = errors.New("the connection string names no such endpoint")

// Queues returns a client of the Queue service.
func (s Settings) Queues(o Options) (*azqueue.ServiceClient, error) {
	options := &azqueue.ClientOptions{ClientOptions: o.client()}
	return build("queue", s.QueueEndpoint, s,
		func(u string) (*azqueue.ServiceClient, error) {
			cred, err := azqueue.NewSharedKeyCredential(s.Account, s.Key.Reveal())
			if err != nil {
				return nil, err
			}
			return azqueue.NewServiceClientWithSharedKeyCredential(u, cred, options)
		},
		func(u string) (*azqueue.ServiceClient, error) {
			return azqueue.NewServiceClientWithNoCredential(u, options)
		})
}

// Blobs returns a client of the Blob service.
func (s Settings) Blobs(o Options) (*azblob.Client, error) {
	options := &azblob.ClientOptions{ClientOptions: o.client()}
	return build("blob", s.BlobEndpoint, s,
		func(u string) (*azblob.Client, error) {
			cred, err := azblob.NewSharedKeyCredential(s.Account, s.Key.Reveal())
			if err != nil {
				return nil, err
			}
			return azblob.NewClientWithSharedKeyCredential(u, cred, options)
		},
		func(u string) (*azblob.Client, error) { return azblob.NewClientWithNoCredential(u, options) })
}

// Tables returns a client of the Table service.
func (s Settings) Tables(o Options) (*aztables.ServiceClient, error) {
	options := &aztables.ClientOptions{ClientOptions: o.client()}
	options.PerCallPolicies = append(options.PerCallPolicies, emptykey.Policy())
	return build("table", s.TableEndpoint, s,
		func(u string) (*aztables.ServiceClient, error) {
			cred, err := aztables.NewSharedKeyCredential(s.Account, s.Key.Reveal())
			if err != nil {
				return nil, err
			}
			return aztables.NewServiceClientWithSharedKey(u, cred, options)
		},
		func(u string) (*aztables.ServiceClient, error) {
			return aztables.NewServiceClientWithNoCredential(u, options)
		})
}

// build makes a client with the key, or with the signature as the URL's query.
func build[C any](service, endpoint string, s Settings, withKey, withSAS func(url string) (C, error)) (C, error) {
	var none C
	if endpoint == "" {
		return none, fmt.Errorf("%s client: %w", service, errNoEndpoint)
	}
	make, at := withKey, endpoint
	if s.Key.Empty() {
		make, at = withSAS, endpoint+"?"+s.SAS.Reveal()
	}
	client, err := make(at)
	if err != nil {
		// The SDK's error may quote the URL, and with it the signature.
		var quoted *url.Error
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return none, fmt.Errorf("%s client for %s: %w", service, endpoint, err)
	}
	return client, nil
}

// Local reports whether every endpoint is on this machine (a loopback address or localhost).
func (s Settings) Local() bool {
	for _, endpoint := range []string{s.BlobEndpoint, s.QueueEndpoint, s.TableEndpoint} {
		u, err := url.Parse(endpoint)
		if err != nil {
			return false
		}
		if endpoint != "" && !exposure.Local(u.Hostname()) {
			return false
		}
	}
	return true
}
