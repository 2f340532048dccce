package main

import (
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// An error of a service is printed on one line; a server that cannot be reached is reported without delay.
func TestFailuresOfStorageVerbs(t *testing.T) {
	lazuli := lazulitest.Start(t)
	absent := "AccountName=" + connstr.DevelopmentAccount + ";AccountKey=" + connstr.DevelopmentKey
	for _, service := range []string{"Blob", "Queue", "Table"} {
		absent += ";" + service + "Endpoint=http://127.0.0.1:1/" + connstr.DevelopmentAccount
	}
	const refused = "connect: connection refused; is Lazuli running there? To use another account, set " +
		"--connection-string or $LAZULI_CONNECTION_STRING"
	for _, tt := range []struct{ account, args, want string }{
		{lazuli.ConnectionString(), "queue|peek|nothing", "404 QueueNotFound: The specified queue does not exist."},
		{lazuli.ConnectionString(), "table|query|Nothing", "404 TableNotFound: The table specified does not exist."},
		{absent, "queue|ls", refused},
		{absent, "table|ls", refused},
		{absent, "logs|query|--service|blob", refused},
		{absent, "workers|--admin-port|1",
			"connect: connection refused; is it running? Its address is set by --admin-host and --admin-port"},
	} {
		t.Setenv(connstr.Variable, tt.account)
		var stderr strings.Builder
		m := Main{Args: strings.Split(tt.args, "|"), Stdout: new(strings.Builder), Stderr: &stderr}
		code := m.Run(t.Context())
		if got := stderr.String(); code != exitFailure || strings.Count(got, "\n") != 1 ||
			!strings.HasSuffix(got, tt.want+"\n") {
			t.Errorf("%s: exit code %d, %q; want %d and one line that ends with %q", tt.args, code, got, exitFailure, tt.want)
		}
	}
}
