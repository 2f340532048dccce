package backup_test

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
)

// An address that is not that of a container of the account is refused before anything is sent, with what is wrong.
func TestContainerAddresses(t *testing.T) {
	t.Parallel()
	const local = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5;" +
		"BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1"
	const azure = "DefaultEndpointsProtocol=https;AccountName=team;AccountKey=a2V5;EndpointSuffix=core.windows.net"
	for _, c := range []struct{ address, account, want string }{
		{"http://127.0.0.1:10000/devstoreaccount1/backups", local, ""},
		{"http://127.0.0.1:10000/devstoreaccount1/backups/", local, ""},
		{"https://team.blob.core.windows.net/backups", azure, ""},
		{"https://other.blob.core.windows.net/backups?sv=2021-12-02&sig=x", azure, ""},
		{"http://127.0.0.1:10000/devstoreaccount1", local, "is not the URL of a container"},
		{"http://127.0.0.1:10000/devstoreaccount1/a/b", local, "is not the URL of a container"},
		{"https://team.blob.core.windows.net", azure, "is not the URL of a container"},
		{"https://other.blob.core.windows.net/backups", azure, "another account than the connection string"},
		{"http://127.0.0.1:10001/devstoreaccount1/backups", local, "another account than the connection string"},
		{"https://team.blob.core.windows.net/backups", "nonsense", "connection string"},
		{"https://%zz/backups", azure, "does not parse"},
	} {
		place, err := backup.Open(c.address, c.account)
		switch {
		case c.want == "" && (err != nil || strings.Contains(place.String(), "sig=")):
			t.Errorf("%s: %v, %v", c.address, place, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.address, err, c.want)
		}
	}
}
