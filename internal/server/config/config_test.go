package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/test/prose"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// load runs Load as the command does. file, if not "", is a configuration file's text.
func load(t *testing.T, args, environ []string, file string) (*Result, error) {
	t.Helper()
	fs := pflag.NewFlagSet("lazuli", pflag.ContinueOnError)
	AddFlags(fs)
	if file != "" {
		path := filepath.Join(t.TempDir(), "lazuli.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	return Load(Sources{Flags: fs, Environ: environ})
}

// parse returns the flags that args set.
func parse(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("lazuli", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func mustLoad(t *testing.T, args, environ []string, file string) *Result {
	t.Helper()
	r, err := load(t, args, environ, file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDefaults(t *testing.T) {
	r := mustLoad(t, nil, nil, "")
	want := "lazuli-data 127.0.0.1:10000 127.0.0.1:10001 127.0.0.1:10002 127.0.0.1:10003 sync"
	got := fmt.Sprint(r.Location, " ", r.Blob.Address(), " ", r.Queue.Address(), " ", r.Table.Address(), " ",
		r.Admin.Address(), " ", r.Durability)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(r.Accounts) != 1 || r.Accounts[0].Name != auth.DevelopmentAccount {
		t.Errorf("got accounts %v", r.Accounts)
	}
	if len(r.Notes) != 0 {
		t.Errorf("got notes %q", r.Notes)
	}
}

func TestPrecedence(t *testing.T) {
	file := "blob-port: 1\nqueue-port: 1001\ntable-port: 1002\n"
	env := []string{"LAZULI_BLOB_PORT=2", "LAZULI_QUEUE_PORT=2001", "LAZULI_TABLE_PORT="}
	r := mustLoad(t, []string{"--blob-port", "3"}, env, file)
	if r.Blob.Port != 3 || r.Queue.Port != 2001 || r.Table.Port != 1002 || r.Admin.Port != 10003 {
		t.Errorf("got ports %d %d %d %d, want flag 3, environment 2001, file 1002, default 10003",
			r.Blob.Port, r.Queue.Port, r.Table.Port, r.Admin.Port)
	}
}

// Every option is set by flag, variable and file alike, and reads back as it was set.
func TestEveryOptionFromEverySource(t *testing.T) {
	values := map[string]string{ // where the kind does not say
		"location": "somewhere", "services": "blob,table", "durability": "relaxed", "shards": "4", "accounts": "abc:a2V5",
		"admin-allow-host": "a.example,b", "function-host": "127.0.0.1:7072,[::1]:7073",
		"admin-ui": "read-only", "nats-listen": "127.0.0.1:4222",
		"durable-listen": "127.0.0.1:5001", "durable-hubs": "one,two",
		"admin-token": "0123456789abcdef", "roles": "archive,log-storage", "archive-to": "folder:x",
		"large-entity-schedule": "0 0 * * * *", "log-storage-flush-bytes": "9", "log-storage-slot": "10m0s",
		"search-index-fields": "Name:text", "search-index-folder": "x", "table-index-by": "Town", "table-index-kind": "lists",
		"nats-replicas": "1", "log-level": "warn", "log-format": "json", "oauth": "dev", "max-connections": "5",
		"max-requests": "6", "container-soft-delete-days": "7", "encryption-scopes": "one,two",
		"allow-copy-source": "a.example,*.b.example",
		"backup-to":         "place", "backup-keep": "5",
		"archive": "archive", "archive-spool": "100", "archive-keep": "1h0m0s", "archive-base": "2h0m0s",
		"content-tier": "tier", "content-cache": "100",
	}
	skip := map[string]bool{"debug": true, // sets two others; TestAzurite has it
		"cert": true, "key": true, "pwd": true, "require-https": true, "oauth-issuer": true, "oauth-keys": true,
		"oauth-audiences": true, "oauth-roles": true, "oauth-groups": true,
		"durable-account": true, "durable-token": true, "backup-token": true, "backup-connection-string": true,
		"backup-hold-writes":    true,
		"content-tier-key-file": true, "content-tier-connection-string": true,
		"archive-key-file": true, "archive-connection-string": true, "archive-fence": true, "standby-of": true,
		"test-clock": true, "roles-account": true, "allow-private-copy-source": true, "allow-event-host": true,
		"allow-private-event-host": true, "blob-immutability": true, "nats-replicas": true, "nats-url": true,
		"nats-credentials": true, "nats-ca": true, "nats-cert": true, "nats-key": true, "nats-monitor": true,
		"nats-unproven": true, "nats-services": true,
		// bound to each other
		"cluster-node": true, "cluster-front": true, "cluster-listen": true, "cluster-peers": true,
		"cluster-copies": true, "cluster-secret-file": true, "cluster-ca": true,
		"cluster-cert": true, "cluster-key": true}
	for _, g := range groups {
		for i := range g.options {
			o := &g.options[i]
			if skip[o.name] {
				continue
			}
			v, ok := values[o.name]
			if !ok {
				v = map[string]string{"": "true", "port": "4321", "time": "7s", "address": "127.0.0.9", "file": "f", "name": "some",
					"table": "Some"}[o.kind]
			}
			want := strings.Replace(strings.Replace(v, "a2V5", "**redacted**", 1), "0123456789abcdef", "**redacted**", 1)
			check := func(source string, r *Result, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s by %s: %v", o.name, source, err)
				} else if got := o.get(&r.Config); got != want {
					t.Errorf("%s by %s: got %q, want %q", o.name, source, got, want)
				}
			}
			if !o.noFlag && !o.rare {
				r, err := load(t, []string{"--" + o.name + "=" + v}, nil, "")
				check("flag", r, err)
				r, err = load(t, []string{"--" + camel(o.name) + "=" + v}, nil, "")
				check("camelCase flag", r, err)
			}
			r, err := load(t, nil, []string{o.env() + "=" + v}, "")
			check("environment", r, err)
			file := o.name + ": " + v + "\n"
			if role, key := o.section(); role != "" {
				file = "roles:\n  " + role + ":\n    " + key + ": " + v + "\n"
			}
			r, err = load(t, nil, nil, file)
			check("file", r, err)
			if err == nil { // what is printed is a file that says the same
				again, err := load(t, nil, nil, r.Print())
				if !strings.Contains(want, redacted) {
					check("printed file", again, err)
				} else if err != nil {
					t.Errorf("%s: the printed file is refused: %v", o.name, err)
				}
			}
		}
	}
}

// The command lines of Azurite's documentation run as they are, or are refused with a reason.
func TestAzurite(t *testing.T) {
	r := mustLoad(t, []string{"--silent", "--location", "/data", "--debug", "/data/debug.log", "--loose",
		"--skipApiVersionCheck",
		"--disableTelemetry", "--blobHost", "0.0.0.0", "--blobPort", "1", "--queuePort=2", "--tablePort", "3",
		"--blobKeepAliveTimeout", "5"}, nil, "")
	if !r.Silent || r.Location != "/data" || r.LogFile != "/data/debug.log" || r.LogLevel.String() != "DEBUG" ||
		r.Blob.Address() != "0.0.0.0:1" || r.Queue.Address() != "127.0.0.1:2" || r.Table.Port != 3 ||
		r.Blob.KeepAlive != 5*time.Second {
		t.Errorf("got %+v", r.Config)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "--loose") {
		t.Errorf("got notes %q, want one on --loose", r.Notes)
	}
	r = mustLoad(t, []string{"-s", "-l", "/data", "-d", "x.log", "-L"}, nil, "")
	if !r.Silent || r.Location != "/data" || r.LogFile != "x.log" {
		t.Errorf("short flags: got %+v", r.Config)
	}
	if r = mustLoad(t, []string{"--inMemoryPersistence"}, []string{"AZURITE_SKIP_API_VERSION_CHECK=true"},
		""); !r.InMemory || len(r.Notes) > 0 {
		t.Errorf("got %+v", r)
	}
	r = mustLoad(t, nil, []string{"AZURITE_ACCOUNTS=first1:a2V5;second2:a2V5:a2V5;"}, "")
	if got := formatAccounts(r.Accounts); got != "first1:**redacted**;second2:**redacted**:**redacted**" {
		t.Errorf("got accounts %s", got)
	}
	r = mustLoad(t, nil, []string{"LAZULI_ACCOUNTS=own:a2V5", "AZURITE_ACCOUNTS=other:a2V5"}, "")
	if r.Accounts[0].Name != "own" {
		t.Errorf("got account %s: LAZULI_ACCOUNTS must win", r.Accounts[0].Name)
	}
}

func TestErrorsNameTheOption(t *testing.T) {
	for _, tc := range []struct {
		name      string
		args, env []string
		file      string
		want      string
	}{
		{name: "archive in the data folder", args: []string{"--location", "data", "--archive", "./data/archive"},
			want: "archive ./data/archive is in the data folder"},
		{name: "archive that is the data folder", args: []string{"--location", "data", "--archive", "x/../data"},
			want: "archive x/../data is in the data folder"},
		{name: "backups in the data folder", args: []string{"--location", "data", "--backup-to", "data/b"},
			want: "backup-to data/b is in the data folder"},
		{name: "fence of a cluster with shards", args: []string{"--archive", "place", "--archive-fence", "--shards", "4",
			"--cluster-node", "n1", "--cluster-listen", "127.0.0.1:6201", "--cluster-peers",
			"n1=127.0.0.1:6201,n2=127.0.0.1:6202,n3=127.0.0.1:6203"},
			want: "shards 4 cannot be used with archive-fence in a cluster"},
		{name: "standby with shards", args: []string{"--standby-of", "place", "--shards", "4"},
			want: "shards 4 cannot be used with standby-of"},
		{name: "connection string of a bucket", args: []string{"--archive", "s3://b/x"},
			env:  []string{"LAZULI_ARCHIVE_CONNECTION_STRING=UseDevelopmentStorage=true"},
			want: "a bucket of S3 has no connection string"},
		{name: "scheme of a place", args: []string{"--archive", "gs://b/x"}, want: "gs is not supported"},
		{name: "unknown flag", args: []string{"--blob-prot", "1"}, want: "unknown flag: --blob-prot"},
		{name: "port out of range", args: []string{"--blob-port", "65536"},
			want: `--blob-port: "65536" is not a number from 0 to 65535`},
		{name: "port in words", env: []string{"LAZULI_QUEUE_PORT=many"},
			want: `environment variable LAZULI_QUEUE_PORT: "many" is not a number`},
		{name: "host with port", args: []string{"--blobHost", "127.0.0.1:1"}, want: "--blob-host:"},
		{name: "a service twice", args: []string{"--services", "blob,blob"}, want: "--services: blob is named twice"},
		{name: "empty location", args: []string{"--location="}, want: "--location: the value is empty"},
		{name: "empty configuration file", args: []string{"--config="}, want: "--config: the value is empty"},
		{name: "durability", file: "durability: maybe\n",
			want: `lazuli.yaml:1: durability: "maybe" is not one of sync, relaxed`},
		{name: "unknown key", file: "# first\nblob-prot: 1\n", want: `lazuli.yaml:2: unknown option "blob-prot"`},
		{name: "key given twice", file: "silent: true\nsilent: false\n", want: "silent"},
		{name: "key given twice, two spellings", file: "blob-port: 1\nblobPort: 2\n",
			want: "lazuli.yaml:2: blob-port is given twice"},
		{name: "mapping as value", file: "blob-port:\n  a: 1\n", want: "lazuli.yaml:1: blob-port: want a single value"},
		{name: "no value", file: "blob-port:\n", want: "lazuli.yaml:1: blob-port: want a single value"},
		{name: "file with a list", file: "- blob-port\n", want: "want lines of the form"},
		{name: "not YAML", file: "a: [\n", want: "configuration file"},
		{name: "two documents", file: "silent: true\n---\nsilent: true\n", want: "more than one document"},
		{name: "no such file", env: []string{"LAZULI_CONFIG=/nonexistent/lazuli.yaml"}, want: "/nonexistent/lazuli.yaml"},
		{name: "equal ports", args: []string{"--blob-port", "5", "--table-port", "5"},
			want: "blob-port and table-port are both 5"},
		{name: "equal ports on overlapping hosts",
			args: []string{"--blob-host", "0.0.0.0", "--blob-port", "5", "--table-port", "5"},
			want: "blob-port and table-port are both 5"},
		{name: "memory and location", args: []string{"--in-memory", "--location", "x"},
			want: "location and in-memory cannot both be set"},
		{name: "contradiction", args: []string{"--strict-api-version", "--skipApiVersionCheck"}, want: "contradict"},
		{name: "oauth", args: []string{"--oauth", "strict"}, want: "--oauth:"},
		{name: "oauth without admin listener", args: []string{"--oauth", "dev", "--no-admin"}, want: "no-admin"},
		{name: "oauth with roles in the network",
			args: []string{"--oauth", "dev", "--admin-host", "0.0.0.0", "--oauth-roles", "*:Storage Blob Data Reader:*"},
			want: "not a loopback address"},
		{name: "oauth with a secret in the network", args: []string{"--oauth", "dev", "--admin-host", "192.0.2.1"},
			env: []string{"LAZULI_ACCOUNTS=" + auth.DevelopmentAccount + ":a2V5"}, want: "not a loopback address"},
		{name: "test clock without admin listener", args: []string{"--test-clock", "--in-memory", "--no-admin"},
			want: "no-admin"},
		{name: "test clock of a data folder", args: []string{"--test-clock"}, want: "needs in-memory"},
		{name: "resets without admin listener", args: []string{"--admin-state", "--no-admin"}, want: "no-admin"},
		{name: "resets of secret accounts in the network",
			args: []string{"--admin-state", "--admin-host", "0.0.0.0", "--accounts-file", "x"}, want: "not a loopback address"},
		{name: "issuer without roles", args: []string{"--oauth-issuer", "https://login.example/t"},
			want: "oauth-issuer needs oauth-roles"},
		{name: "issuer over http", args: []string{"--oauth-issuer", "http://login.example/t", "--oauth-roles",
			"*:Storage Blob Data Reader:*"}, want: "oauth-issuer:"},
		{name: "roles without issuer", args: []string{"--oauth-roles", "*:Storage Blob Data Reader:*"},
			want: "set oauth or oauth-issuer"},
		{name: "groups without the issuer", args: []string{"--oauth-groups", "me:developers"},
			want: "oauth-groups is about the tokens of oauth dev"},
		{name: "groups without a client", args: []string{"--oauth", "dev", "--oauth-groups", "developers"},
			want: "entry 1 is not of the form"},
		{name: "an empty group", args: []string{"--oauth", "dev", "--oauth-groups", "me:a,"},
			want: "entry 1 is not of the form"},
		{name: "groups twice", args: []string{"--oauth", "dev", "--oauth-groups", "me:a;me:b"}, want: "me is given twice"},
		{name: "unknown role", args: []string{"--oauth", "dev", "--oauth-roles", "*:King:*"},
			want: `--oauth-roles: role "King" is not known`},
		{name: "role without scope", args: []string{"--oauth", "dev", "--oauth-roles", "*:Storage Blob Data Reader"},
			want: "role 1 is not of the form"},
		{name: "keys without issuer", args: []string{"--oauth-keys", "https://login.example/keys"}, want: "set oauth-issuer"},
		{name: "cert alone", args: []string{"--cert", "x.pem"}, want: "cert and key go together"},
		{name: "policies without versions", args: []string{"--blob-immutability"},
			want: "blob-immutability needs blob-versioning"},
		{name: "too many days", args: []string{"--container-soft-delete-days", "366"}, want: "not a number from 0 to 365"},
		{name: "https without certificate", args: []string{"--require-https"}, want: "require-https needs a certificate"},
		{name: "two kinds of accounts", args: []string{"--accounts-file", "x"}, env: []string{"LAZULI_ACCOUNTS=abc:a2V5"},
			want: "accounts and accounts-file cannot both be set"},
		{name: "AZURITE_DB", env: []string{"AZURITE_DB=mysql://u:p@h/d"},
			want: "AZURITE_DB: metadata in an SQL database is not implemented"},
		{name: "accounts without key", env: []string{"AZURITE_ACCOUNTS=abc"},
			want: "AZURITE_ACCOUNTS: account 1: want name:key1[:key2]"},
		{name: "account key not base64", env: []string{"AZURITE_ACCOUNTS=abc:!!"}, want: "account abc, key 1"},
		{name: "account name", env: []string{"LAZULI_ACCOUNTS=Abc:a2V5"}, want: "LAZULI_ACCOUNTS: account name"},
		{name: "account given twice", env: []string{"LAZULI_ACCOUNTS=abc:a2V5;abc:a2V5"}, want: "given twice"},
		{name: "account in the file", file: "accounts:\n  - name: abc\n    key: x\n", want: `unknown key "key"`},
		{name: "setting of an account that there is not", env: []string{"LAZULI_ACCOUNTS=abc:a2V5 blob-version=true"},
			want: "LAZULI_ACCOUNTS: account 1: account abc: unknown setting blob-version: use one of"},
		{name: "a key for a setting", env: []string{"LAZULI_ACCOUNTS=abc:YWJj a2V5"}, want: "setting 1 is not of the form"},
		{name: "setting of an account given twice",
			file: "accounts:\n  - name: abc\n    keys: [a2V5]\n    blob-versioning: true\n    blobVersioning: false\n",
			want: "account 1: blob-versioning is given twice"},
		{name: "value of an account's setting",
			file: "accounts:\n  - name: abc\n    keys: [a2V5]\n    container-soft-delete-days: 400\n",
			want: `account 1: container-soft-delete-days: "400" is not a number from 0 to 365`},
		{name: "list of an account's setting",
			file: "accounts:\n  - name: abc\n    keys: [a2V5]\n    blob-versioning: {a: b}\n",
			want: `account 1: blob-versioning: want a single value`},
		{name: "scope's name", args: []string{"--encryption-scopes", "one,a b"},
			want: `--encryption-scopes: "a b" is no name of an encryption scope`},
		{name: "policies without versions", args: []string{"--blob-immutability"},
			want: "blob-immutability needs blob-versioning"},
		{name: "an account's policies without versions", env: []string{"LAZULI_ACCOUNTS=abc:a2V5 blob-immutability=true"},
			want: "accounts: account abc: blob-immutability needs blob-versioning"},
		{name: "the process's policies without the account's versions",
			args: []string{"--blob-versioning", "--blob-immutability"},
			env:  []string{"LAZULI_ACCOUNTS=abc:a2V5 blob-versioning=false"},
			want: "accounts: account abc: blob-immutability needs blob-versioning"},
		{name: "replicas alone", args: []string{"--nats-replicas", "3"}, want: "set nats-url"},
		{name: "listen and url", args: []string{"--nats-url", "nats://x", "--nats-listen", ":4222"}, want: "nats-listen"},
		{name: "time", args: []string{"--shutdown-timeout", "soon"}, want: "--shutdown-timeout"},
		{name: "negative time", args: []string{"--shutdown-timeout=-1s"}, want: "--shutdown-timeout"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := load(t, tc.args, tc.env, tc.file)
			if err == nil {
				t.Fatalf("accepted: %+v", r.Config)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %q, want it to say %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "a2V5") {
				t.Errorf("the error shows a key: %q", err)
			}
		})
	}
}

// Options that only make sense together.
func TestSecurityFromFile(t *testing.T) {
	r := mustLoad(t, nil, nil, `cert: c.pem
key: k.pem
require-https: true
oauth-issuer: https://login.example/tenant/v2.0
oauth-keys: https://login.example/keys
oauth-audiences: [api://one, api://two]
oauth-roles:
  - "*:Storage Blob Data Reader:shop"
  - "app1:Storage Queue Data Contributor:shop/orders"
`)
	want := OAuth{Issuer: "https://login.example/tenant/v2.0", Keys: "https://login.example/keys",
		Audiences: []string{"api://one", "api://two"},
		Roles: []auth.Assignment{{Principal: "*", Role: "Storage Blob Data Reader", Scope: "shop"},
			{Principal: "app1", Role: "Storage Queue Data Contributor", Scope: "shop/orders"}}}
	if !reflect.DeepEqual(r.OAuth, want) || r.Cert != "c.pem" || r.Key != "k.pem" || !r.RequireHTTPS {
		t.Errorf("got %+v", r.Config)
	}
	for _, name := range []string{"oauth-audiences", "oauth-roles"} {
		again := Default()
		o := lookup(name)
		if err := o.set(&again, o.get(&r.Config)); err != nil || o.get(&again) != o.get(&r.Config) {
			t.Errorf("%s does not read back: %v", name, err)
		}
	}
}

func TestGroups(t *testing.T) {
	want := []Membership{{"me", []string{"developers", "AAAAAAAA-0000-0000-0000-000000000001"}},
		{"you", []string{"testers"}}}
	const text = "me:developers,AAAAAAAA-0000-0000-0000-000000000001;you:testers"
	for name, r := range map[string]*Result{
		"flag": mustLoad(t, []string{"--oauth", "dev", "--oauth-groups", text}, nil, ""),
		"file": mustLoad(t, nil, nil, "oauth: dev\noauth-groups:\n  - me:developers, "+
			"AAAAAAAA-0000-0000-0000-000000000001\n  - you:testers\n"),
	} {
		if !reflect.DeepEqual(r.OAuth.Groups, want) || lookup("oauth-groups").get(&r.Config) != text {
			t.Errorf("%s: %+v", name, r.OAuth.Groups)
		}
	}
}

func TestAccountsInFile(t *testing.T) {
	r := mustLoad(t, nil, nil, "accounts:\n  - name: first1\n    keys: [a2V5, a2V5]\n  - name: second2\n    keys:\n    "+
		"  - a2V5\n")
	if got := formatAccounts(r.Accounts); got != "first1:**redacted**:**redacted**;second2:**redacted**" {
		t.Errorf("got %s", got)
	}
}

// Accounts have settings of their own, by file and variable alike.
func TestSettingsOfAccounts(t *testing.T) {
	const want = "first1:**redacted** blob-versioning=true encryption-scopes=one,two " +
		"container-soft-delete-days=7;second2:**redacted**;third3:**redacted** blob-change-feed=false encryption-scopes="
	for source, r := range map[string]*Result{
		"file": mustLoad(t, nil, nil, "accounts:\n  - name: first1\n    keys: [a2V5]\n    container-soft-delete-days: 7\n "+
			"   blob-versioning: true\n    encryption-scopes: [one, two]\n"+
			"  - name: second2\n    keys: [a2V5]\n  - name: third3\n    keys: [a2V5]\n    blobChangeFeed: false\n    "+
			"encryption-scopes: []\n"),
		"environment": mustLoad(t, nil,
			[]string{"LAZULI_ACCOUNTS=first1:a2V5 blob-versioning=true encryption-scopes=one,two " +
				"container-soft-delete-days=7; second2:a2V5; third3:a2V5: blob-change-feed=false encryption-scopes="}, ""),
	} {
		if got := formatAccounts(r.Accounts); got != want {
			t.Errorf("%s: got %s", source, got)
		}
	}
	r := mustLoad(t, []string{"--blob-versioning"}, []string{"LAZULI_ACCOUNTS=abc:a2V5 blob-immutability=true"}, "")
	if !r.BlobSettings.Versioning || r.BlobSettings.Immutability {
		t.Errorf("an account's settings are the process's: %+v", r.BlobSettings)
	}
}

// An image sets the folder; who runs it may still ask for memory.
func TestInMemoryOverARemoterLocation(t *testing.T) {
	r := mustLoad(t, []string{"--in-memory"}, []string{"LAZULI_LOCATION=/data"}, "")
	if !r.InMemory {
		t.Error("not in memory")
	}
}

func TestUnknownVariablesAreNoted(t *testing.T) {
	r := mustLoad(t, nil, []string{"LAZULI_BLOB_PROT=1", "LAZULI_SERVICE_HOST=10.0.0.1",
		"LAZULI_PORT=tcp://10.0.0.1:10000",
		"LAZULI_PORT_10000_TCP_ADDR=10.0.0.1", "OTHER=1"}, "")
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "LAZULI_BLOB_PROT") {
		t.Errorf("got %q, want a note on LAZULI_BLOB_PROT alone", r.Notes)
	}
	r = mustLoad(t, nil, []string{"LAZULI_BLOBPORT=1"}, "")
	if len(r.Notes) != 1 || !strings.HasSuffix(r.Notes[0], "did you mean LAZULI_BLOB_PORT?") {
		t.Errorf("got %q", r.Notes)
	}
}

func TestKeysAreNeverPrinted(t *testing.T) {
	r := mustLoad(t, nil, []string{"LAZULI_ACCOUNTS=abc:c2VjcmV0"}, "")
	for _, text := range []string{r.Print(), fmt.Sprintf("%v %+v %#v", r.Config, r.Config, r.Config),
		fmt.Sprint(r.Accounts)} {
		if strings.Contains(text, "c2VjcmV0") ||
			strings.Contains(strings.ReplaceAll(text, "cluster-secret-file", ""), "secret") {
			t.Errorf("a key is printed: %s", text)
		}
	}
}

// What Print writes is a configuration file with the same meaning.
func TestPrintReadsBack(t *testing.T) {
	first := mustLoad(t, []string{"--blob-port", "0", "--nats-listen", "127.0.0.1:4222", "--log-level", "debug"}, nil, "")
	text := regexp.MustCompile(`(?m)^accounts: .*$`).ReplaceAllString(first.Print(), "")
	text = regexp.MustCompile(`(?m)^[a-z-]+: ""$`).ReplaceAllString(text, "") // unset
	second := mustLoad(t, nil, nil, text)
	if second.Blob != first.Blob || !reflect.DeepEqual(second.NATS, first.NATS) || second.LogLevel != first.LogLevel ||
		second.ShutdownTimeout != first.ShutdownTimeout {
		t.Errorf("got %+v, want %+v", second.Config, first.Config)
	}
	if !strings.Contains(first.Print(), "blob-port: 0") || !strings.Contains(first.Print(), "# flag") {
		t.Errorf("got %s", first.Print())
	}
}

func TestExposed(t *testing.T) {
	for _, tc := range []struct {
		args, env []string
		want      string
	}{
		{nil, nil, ""},
		{[]string{"--host", "localhost"}, nil, ""},
		{[]string{"--host", "::1"}, nil, ""},
		{[]string{"--host", "0.0.0.0"}, nil, "blob, queue, table"},
		{[]string{"--blob-host", "10.0.0.1"}, nil, "blob"},
		// as in a container
		{[]string{"--host", "0.0.0.0", "--admin-host", "0.0.0.0", "--oauth", "dev"}, nil, "blob, queue, table"},
		{[]string{"--host", "0.0.0.0"}, []string{"LAZULI_ACCOUNTS=" + auth.DevelopmentAccount + ":a2V5"}, ""},
		{[]string{"--host", "0.0.0.0"}, []string{"LAZULI_ACCOUNTS=abc:a2V5"}, ""},
	} {
		if got := mustLoad(t, tc.args, tc.env, "").Exposed(); got != tc.want {
			t.Errorf("%q %q: got %q, want %q", tc.args, tc.env, got, tc.want)
		}
	}
}

// Only where no other machine can subscribe are webhooks on this machine allowed without a list.
func TestWebhooksOnThisMachine(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want bool
	}{
		{nil, true},
		{[]string{"--host", "::1", "--admin-host", "localhost"}, true},
		{[]string{"--host", "0.0.0.0"}, false},
		{[]string{"--queue-host", "10.0.0.1"}, false},
		{[]string{"--admin-host", "0.0.0.0"}, false},
		{[]string{"--services", "queue", "--queue-host", "10.0.0.1"}, false},
	} {
		if got := mustLoad(t, append(tc.args, "--events"), nil, "").EventHosts.ThisMachine; got != tc.want {
			t.Errorf("%q: %v, want %v", tc.args, got, tc.want)
		}
	}
}

func TestKebab(t *testing.T) {
	for in, want := range map[string]string{"blobPort": "blob-port", "blob-port": "blob-port",
		"disableProductStyleUrl": "disable-product-style-url",
		"BlobPort":               "blob-port", "blob-Port": "blob-port", "": ""} {
		if got := kebab(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// docs/configuration.md holds the tables of Reference between two marks. -update writes them.
func TestReferencePageIsCurrent(t *testing.T) {
	const page = "../../../docs/configuration.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- generated: options -->\n", "<!-- end of options -->"
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its marks %q and %q", page, begin, end)
	}
	want := head + begin + "\n" + prose.Wrap(Reference()) + "\n" + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not current: run go generate ./internal/server/config", page)
	}
}
