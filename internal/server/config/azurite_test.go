package config

import (
	"strings"
	"testing"
)

// What depends on several options of Azurite's.
func TestAzuriteCombinations(t *testing.T) {
	t.Parallel()
	const secret = "LAZULI_ACCOUNTS=shop:c2VjcmV0"
	for _, c := range []struct {
		args, environ string
		refused       string // "" if it is accepted
	}{
		{"--oauth basic", "", ""},
		{"--oauth basic --host 0.0.0.0", "", ""},
		{"--oauth basic", secret, ""},
		{"--oauth basic --host 0.0.0.0", secret, "forged tokens"},
		{"--oauth basic --host 0.0.0.0 --blob-host 127.0.0.1 --services blob", secret, ""},
		{"--oauth basic --oauth-issuer https://x ", "", "cannot be used with oauth-issuer"},
		{"--oauth most", "", "dev"},
		{"--cert x.pfx --pwd sesame", "", ""},
		{"--cert x.P12", "", ""},
		{"--cert x.pem --pwd sesame", "", ""},
		{"--cert x.pfx --key y.pem --pwd sesame", "", "contains its key"},
		{"--cert x.pem", "", "go together"},
		{"--pwd sesame", "", "set cert"},
		{"--services queue,table --queue-port 10000", "", ""},
		{"--services queue,file", "", "file"},
		{"--services queue --blob-port 10000", "", "--blob-port: the blob service is not served"},
		{"--services queue --blob-versioning", "", "--blob-versioning: the blob service is not served"},
		{"--services queue", "LAZULI_BLOB_PORT=10000", ""},
		{"--services blob --blob-port 10003", "", "both 10003"},
	} {
		var environ []string
		if c.environ != "" {
			environ = append(environ, c.environ)
		}
		r, err := load(t, strings.Fields(c.args), environ, "")
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.args, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want an error saying %q", c.args, err, c.refused)
		case err == nil && strings.Contains(r.Print(), "sesame"):
			t.Errorf("%s: printed with the password:\n%s", c.args, r.Print())
		}
	}
}

// A program for one service serves it alone, and keeps its data apart from those of the others.
func TestOneServicePrograms(t *testing.T) {
	t.Parallel()
	r, err := Load(Sources{Service: "queue", Environ: []string{"LAZULI_LOCATION=/data"}})
	if err != nil || !r.Serves("queue") || r.Serves("blob") || r.Location != "/data/queue" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Load(Sources{Service: "queue", Environ: []string{"LAZULI_SERVICES=blob"}}); err == nil {
		t.Error("it was told to serve another service")
	}
	for _, flag := range []string{"--blob-port", "--table-port"} {
		if _, err := Load(Sources{Service: "queue", Flags: parse(t, flag, "0")}); err == nil ||
			!strings.Contains(err.Error(), "service is not served") {
			t.Errorf("%s of azurite-queue: %v", flag, err)
		}
	}
}
