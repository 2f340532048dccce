package queuesvc_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/devissuer"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/queuesvc"
)

// The key that a caller with a token gets signs shared access signatures, which the service accepts with what the
// caller's role allows. The Go SDK has no call for it; the string to sign is that of the reference:
// https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas
func TestGetUserDelegationKey(t *testing.T) {
	t.Parallel()
	issuer := must(devissuer.New(devissuer.Config{}))(t)
	roles := must(auth.NewRoles(auth.Assignment{Principal: "worker", Role: "Storage Queue Data Message Processor",
		Scope: auth.DevelopmentAccount}))(t)
	log := slog.New(slog.DiscardHandler)
	n := must(natsserver.Start(natsserver.Config{Log: log}))(t)
	t.Cleanup(n.Close)
	s := must(service.Open(queuesvc.New, &queuehost.Config{Path: filepath.Join(t.TempDir(), "queues.db"),
		Store: must(state.StoreOptions(t.Context(), n, log))(t), Common: frontend.Common{Accounts: auth.Development(),
			OAuth: must(auth.NewOAuth(roles, issuer.Trust()))(t), Log: slog.New(slog.DiscardHandler)}}))(t)
	t.Cleanup(func() { _ = s.Close() })
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	base := server.URL + "/" + auth.DevelopmentAccount

	getKey := func(authorization string) (int, string) {
		const format = "2006-01-02T15:04:05Z"
		now := time.Now().UTC()
		body := "<KeyInfo><Start>" + now.Add(-time.Minute).Format(format) + "</Start><Expiry>" +
			now.Add(time.Hour).Format(format) + "</Expiry></KeyInfo>"
		r := must(http.NewRequest(http.MethodPost, base+"/?restype=service&comp=userdelegationkey", strings.NewReader(body)))(
			t)
		r.Header.Set("x-ms-version", "2025-07-05")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		answer := must(http.DefaultClient.Do(r))(t)
		defer answer.Body.Close()
		return answer.StatusCode, string(must(io.ReadAll(answer.Body))(t))
	}
	if status, body := getKey(""); status != 401 {
		t.Errorf("without a token: %d %s", status, body)
	}
	status, body := getKey("Bearer " + must(issuer.Token("worker", auth.StorageAudience))(t))
	if status != 200 {
		t.Fatalf("with a token: %d %s", status, body)
	}
	var key struct {
		SignedOid, SignedTid, SignedStart, SignedExpiry, SignedService, SignedVersion, Value string
	}
	if err := xml.Unmarshal([]byte(body), &key); err != nil {
		t.Fatal(err)
	}

	const name, permissions = "orders", "raup"
	expiry := key.SignedExpiry
	message := strings.Join([]string{permissions, "", expiry, "/queue/" + auth.DevelopmentAccount + "/" + name,
		key.SignedOid, key.SignedTid,
		key.SignedStart, key.SignedExpiry, key.SignedService, key.SignedVersion, "", "", "", "", "", "", "", "2025-07-05"},
		"\n")
	mac := hmac.New(sha256.New, must(base64.StdEncoding.DecodeString(key.Value))(t))
	mac.Write([]byte(message))
	sas := url.Values{"sp": {permissions}, "se": {expiry}, "skoid": {key.SignedOid}, "sktid": {key.SignedTid},
		"skt": {key.SignedStart},
		"ske": {key.SignedExpiry}, "sks": {key.SignedService}, "skv": {key.SignedVersion}, "sv": {"2025-07-05"},
		"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
	owner := sdkClient(t, base).NewQueueClient(name)
	if _, err := owner.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.EnqueueMessage(t.Context(), "work", nil); err != nil {
		t.Fatal(err)
	}
	q := must(azqueue.NewQueueClientWithNoCredential(base+"/"+name+"?"+sas.Encode(), &azqueue.ClientOptions{
		ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}))(t)
	got := must(q.DequeueMessage(t.Context(), nil))(t)
	if len(got.Messages) != 1 || *got.Messages[0].MessageText != "work" {
		t.Errorf("got %v", got.Messages)
	}
	_, err := q.EnqueueMessage(t.Context(), "more", nil) // the signature permits it, the role does not
	wantCode(t, err, 403, "AuthorizationPermissionMismatch")
}
