package server_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	blobsas "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	queuesas "github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// far is the time at which the tokens below expire. Clients with a token need no date that fits the clock of the
// services.
var far = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)

func blobClient(t *testing.T, s *server.Server) *azblob.Client {
	t.Helper()
	key, err := azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	q, err := blobsas.AccountSignatureValues{ExpiryTime: far, Permissions: "rwdlc",
		ResourceTypes: "sco"}.SignWithSharedKey(key)
	check.OK(t, err)
	c, err := azblob.NewClientWithNoCredential(s.URL(wire.Blob, auth.DevelopmentAccount)+"/?"+q.Encode(), nil)
	check.OK(t, err)
	return c
}

func queueClient(t *testing.T, s *server.Server) *azqueue.ServiceClient {
	t.Helper()
	key, err := azqueue.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	q, err := queuesas.AccountSignatureValues{ExpiryTime: far, Permissions: "rwdlacup",
		ResourceTypes: "sco"}.SignWithSharedKey(key)
	check.OK(t, err)
	c, err := azqueue.NewServiceClientWithNoCredential(s.URL(wire.Queue, auth.DevelopmentAccount)+"/?"+q.Encode(), nil)
	check.OK(t, err)
	return c
}

func tableClient(t *testing.T, s *server.Server) *aztables.ServiceClient {
	t.Helper()
	key, err := aztables.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	q, err := aztables.AccountSASSignatureValues{ExpiryTime: far, Permissions: "rwdlacu", ResourceTypes: "sco",
		Services: "t", Protocol: aztables.SASProtocolHTTPSandHTTP}.Sign(key)
	check.OK(t, err)
	c, err := aztables.NewServiceClientWithNoCredential(s.URL(wire.Table, auth.DevelopmentAccount)+"/?"+q.Encode(), nil)
	check.OK(t, err)
	return c
}
