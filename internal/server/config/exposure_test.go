package config

import (
	"strings"
	"testing"
)

// opens has every option: what it opens to callers without an account's key, or "" for nothing. A new option needs an
// entry here, and, if it opens something, a row in doors.
var opens = map[string]string{
	"admin-ui": "dashboard", "admin-state": "/admin", "faults": "/admin/faults", "test-clock": "/admin/clock",
	"pprof": "/debug/pprof", "events": "/admin/events", "managed-accounts": "/admin/accounts",
	"roles": "/workers, /search", "cluster-node": "/admin/cluster", "oauth": "/oauth, forged tokens",
	"nats-listen": "NATS", "durable": "gRPC",

	// Addresses and credentials of what has a row.
	"admin-host": "", "admin-port": "", "no-admin": "", "admin-allow-host": "", "admin-token": "", "durable-listen": "",
	"durable-token": "", "durable-hub": "", "durable-hubs": "", "durable-account": "",
	"oauth-issuer": "", "oauth-keys": "", "oauth-audiences": "", "oauth-roles": "", "oauth-groups": "",
	"roles-account": "", "function-host": "",

	// The services need keys, the nodes of a cluster its secret (package peering has that rule).
	"services": "", "host": "", "blob-host": "", "dfs-host": "", "dfs-port": "", "blob-port": "",
	"blob-keep-alive-timeout": "", "queue-host": "", "queue-port": "", "queue-keep-alive-timeout": "",
	"table-host": "", "table-port": "", "table-keep-alive-timeout": "", "accounts": "", "accounts-file": "",
	"strict-api-version": "", "disable-product-style-url": "",
	"cert": "", "key": "", "pwd": "", "require-https": "", "cluster-listen": "", "cluster-peers": "", "cluster-front": "",
	"cluster-copies": "", "cluster-secret-file": "", "cluster-ca": "", "cluster-cert": "", "cluster-key": "",

	// Calls to others have lists of hosts of their own (package egress).
	"allow-copy-source": "", "allow-private-copy-source": "", "allow-event-host": "", "allow-private-event-host": "",
	"nats-url": "", "nats-credentials": "", "nats-ca": "",
	"nats-cert": "", "nats-key": "", "nats-monitor": "", "nats-unproven": "", "nats-services": "", "nats-replicas": "",

	// The path of backups asks for a token, or is open to callers on this machine alone (internal/server/admin).
	"backup-token": "", "backup-to": "", "backup-every": "", "backup-keep": "", "backup-keep-for": "",
	"backup-connection-string": "", "backup-hold-writes": "", "archive": "", "archive-keep": "", "archive-base": "",
	"archive-spool": "", "archive-every": "", "archive-fence": "", "standby-of": "",
	"archive-key-file": "", "archive-connection-string": "",
	"content-tier": "", "content-cache": "", "content-tier-key-file": "", "content-tier-connection-string": "",

	"location": "", "in-memory": "", "seed": "", "durability": "", "shards": "", "max-connections": "", "max-requests": "",
	"shutdown-timeout": "", "silent": "", "log-level": "", "log-format": "",
	"log-file": "", "debug": "",
}

func init() {
	for _, o := range blobOptions() {
		opens[o.name] = ""
	}
	for _, o := range roleOptions[2:] {
		opens[o.name] = ""
	}
}

func TestEveryOptionIsClassified(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, d := range doors {
		rows[d.option] = true
	}
	for _, g := range groups {
		for _, o := range g.options {
			what, known := opens[o.name]
			switch {
			case !known:
				t.Errorf("%s is not in the table of options: say what it opens", o.name)
			case what != "" && !rows[o.name]:
				t.Errorf("%s opens %s and has no row in doors", o.name, what)
			case what == "" && rows[o.name]:
				t.Errorf("%s has a row in doors and opens nothing", o.name)
			}
		}
	}
}

func TestWhatIsOpenToOthers(t *testing.T) {
	t.Parallel()
	const secret, token, published = "LAZULI_ACCOUNTS=shop:a2V5", "LAZULI_ADMIN_TOKEN=0123456789abcdef",
		"LAZULI_SILENT=true"
	wide := "--admin-host=0.0.0.0"
	for _, tc := range []struct {
		args    []string
		env     string
		refused string // "" for accepted
	}{
		{[]string{wide}, secret, ""},
		{[]string{wide, "--admin-ui=on"}, secret, "admin-ui"},
		{[]string{wide, "--admin-ui=read-only"}, secret, "ssh -L 10003:127.0.0.1:10003"},
		{[]string{wide, "--admin-ui=on"}, secret + " " + token, ""},
		{[]string{wide, "--admin-ui=on"}, published, ""},
		{[]string{"--admin-ui=on"}, secret, ""},
		{[]string{wide, "--admin-state"}, secret, "admin-state"},
		{[]string{wide, "--faults"}, secret, "faults"},
		{[]string{wide, "--faults"}, published, ""},
		{[]string{"--faults", "--admin-host=::1"}, secret, ""},
		{[]string{"--faults", "--admin-host=::"}, secret, "faults"},
		{[]string{"--faults", "--admin-host=intranet.example"}, secret, "faults"},
		{[]string{wide, "--pprof"}, secret, "pprof"},
		{[]string{wide, "--test-clock", "--in-memory"}, secret, "test-clock"},
		{[]string{wide, "--roles=archive"}, secret, ""}, // with a token
		{[]string{wide, "--events"}, secret, ""},
		{[]string{wide, "--oauth=dev"}, secret + " " + token, "oauth"}, // SDKs ask for tokens without one
		{[]string{wide, "--oauth=dev"}, published, ""},
		{[]string{"--oauth=dev"}, secret, ""},
		{[]string{wide, "--oauth=dev", "--oauth-roles=*:Storage Blob Data Reader:*"}, published, "oauth"},
		{[]string{"--host=0.0.0.0", "--oauth=basic"}, secret, "oauth"},
		{[]string{"--blob-host=0.0.0.0", "--services=queue", "--oauth=basic"}, secret, "not served"},
		{[]string{"--host=0.0.0.0", "--oauth=basic"}, published, ""},
		{[]string{"--nats-listen=0.0.0.0:4222"}, secret, "nats-listen"},
		{[]string{"--nats-listen=:4222"}, secret, "nats-listen"},
		{[]string{"--nats-listen=0.0.0.0:4222"}, published, ""},
		{[]string{"--nats-listen=127.0.0.1:4222"}, secret, ""},
		{[]string{"--durable", "--durable-listen=0.0.0.0:4001"}, published, ""}, // The hubs are in its account.
		{[]string{"--durable", "--durable-listen=0.0.0.0:4001"}, secret, "durable"},
		{[]string{"--durable", "--durable-listen=:4001"}, secret, "durable"},
		{[]string{"--durable", "--durable-listen=0.0.0.0:4001"}, secret + " LAZULI_DURABLE_TOKEN=x", ""},
		{[]string{"--durable"}, secret, ""},
		{[]string{wide, "--managed-accounts"}, published, ""}, // with a token
		// Accounts with secret keys may be added.
		{[]string{"--managed-accounts", wide, "--admin-ui=on"}, published, "admin-ui"},
		{[]string{"--managed-accounts", "--durable", "--durable-listen=0.0.0.0:4001"}, published, "durable"},
		{[]string{"--managed-accounts", "--no-admin"}, published, "no-admin"},
	} {
		_, err := load(t, tc.args, strings.Fields(tc.env), "")
		if tc.refused == "" && err != nil || tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)) {
			t.Errorf("%q with %s: %v, want %q", tc.args, tc.env, err, tc.refused)
		}
	}
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	guard := func(args []string, env ...string) (string, bool) {
		r := mustLoad(t, args, env, "")
		return r.GuardAdmin()
	}
	if token, made := guard(nil); token != "" || made {
		t.Errorf("the published account: %q", token)
	}
	one, made := guard(nil, "LAZULI_ACCOUNTS=shop:a2V5")
	two, _ := guard([]string{"--accounts-file=x"})
	if len(one) != 32 || !made || one == two {
		t.Errorf("accounts with a secret key: %q, %q", one, two)
	}
	if token, made := guard(nil, "LAZULI_ACCOUNTS=shop:a2V5",
		"LAZULI_ADMIN_TOKEN=0123456789abcdef"); token != "0123456789abcdef" || made {
		t.Errorf("a token that is set: %q", token)
	}
	if token, _ := guard([]string{"--no-admin"}, "LAZULI_ACCOUNTS=shop:a2V5"); token != "" {
		t.Errorf("without a listener: %q", token)
	}
	for _, tc := range []struct{ env, args string }{{"LAZULI_ADMIN_TOKEN=short", "--silent"},
		{"LAZULI_ADMIN_TOKEN=0123456789 abcdef", "--silent"}, {"LAZULI_ADMIN_TOKEN=0123456789abcdef", "--no-admin"}} {
		if _, err := load(t, []string{tc.args}, []string{tc.env}, ""); err == nil ||
			strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s %s: %v", tc.env, tc.args, err)
		}
	}
}
