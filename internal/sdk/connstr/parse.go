package connstr

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// The published development account: every emulator serves it, and it opens nothing else.
// https://learn.microsoft.com/azure/storage/common/storage-use-azurite#well-known-storage-account-and-key
const (
	DevelopmentAccount = "devstoreaccount1"
	DevelopmentKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Development is the short connection string that names the development account on 127.0.0.1 and the usual ports.
const Development = "UseDevelopmentStorage=true"

// ErrInvalid is in the chain of every error that Parse returns.
var ErrInvalid = errors.New("invalid connection string")

// Settings is a parsed connection string, from Parse, or one to be written with Reveal.
type Settings struct {
	// Account is the account's name; empty only when the string has endpoints and a SAS but no name.
	Account string
	// Key is the account key in base64; empty when SAS is set.
	Key Secret
	// SAS is a shared access signature without its leading question mark; empty when Key is set.
	SAS Secret
	// BlobEndpoint, QueueEndpoint and TableEndpoint are absolute URLs without a trailing slash. One is empty only when
	// the string gives explicit endpoints without an account name and leaves this one out.
	BlobEndpoint, QueueEndpoint, TableEndpoint string
	// DFSEndpoint is the Data Lake endpoint, "" if the string has none.
	DFSEndpoint string
}

// fields are the names that may occur, by their lower-case form. Names match without regard to case, as in the SDKs.
var fields = map[string]bool{
	"usedevelopmentstorage": true, "developmentstorageproxyuri": true, "defaultendpointsprotocol": true,
	"accountname": true, "accountkey": true, "sharedaccesssignature": true, "endpointsuffix": true,
	"blobendpoint": true, "queueendpoint": true, "tableendpoint": true, "fileendpoint": true, "dfsendpoint": true,
	"blobsecondaryendpoint": true, "queuesecondaryendpoint": true, "tablesecondaryendpoint": true,
	"filesecondaryendpoint": true,
}

// Parse reads a connection string. An error names the field at fault and never repeats a value.
func Parse(s string) (Settings, error) {
	f, err := split(s)
	if err != nil {
		return Settings{}, err
	}
	if v, ok := f["usedevelopmentstorage"]; ok {
		return development(v, f)
	}
	return account(f)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// split cuts "Name=Value;Name=Value". Only the first '=' counts: keys and signatures hold more of them.
func split(s string) (map[string]string, error) {
	f := map[string]string{}
	for part := range strings.SplitSeq(s, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		key := strings.ToLower(name)
		switch {
		case !ok:
			// The text is not repeated: a key that was pasted alone would be in it.
			return nil, invalid("a part has no '=': expected Name=Value pairs joined by ';'")
		case !fields[key]:
			return nil, invalid("unknown field %q", name)
		case value == "":
			return nil, invalid("field %s has no value", name)
		}
		if _, twice := f[key]; twice {
			return nil, invalid("field %s is given twice", name)
		}
		f[key] = value
	}
	if len(f) == 0 {
		return nil, invalid("it is empty; for a local server use %s", Development)
	}
	return f, nil
}

func development(use string, f map[string]string) (Settings, error) {
	if !strings.EqualFold(use, "true") {
		return Settings{}, invalid("UseDevelopmentStorage can only be true")
	}
	scheme, host := "http", "127.0.0.1"
	for name, value := range f {
		switch name {
		case "usedevelopmentstorage":
		case "developmentstorageproxyuri":
			u, err := url.Parse(value)
			if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
				return Settings{}, invalid("DevelopmentStorageProxyUri is not an http or https URL")
			}
			// The proxy's port is ignored, as the SDKs do: each service has its own.
			scheme, host = u.Scheme, u.Hostname()
			if strings.Contains(host, ":") {
				host = "[" + host + "]"
			}
		default:
			return Settings{}, invalid("UseDevelopmentStorage=true cannot be combined with %s", name)
		}
	}
	at := func(port int) string {
		return scheme + "://" + host + ":" + strconv.Itoa(port) + "/" + DevelopmentAccount
	}
	return Settings{
		Account: DevelopmentAccount, Key: NewSecret(DevelopmentKey),
		BlobEndpoint: at(10000), QueueEndpoint: at(10001), TableEndpoint: at(10002),
	}, nil
}

func account(f map[string]string) (Settings, error) {
	s := Settings{
		Account: f["accountname"],
		Key:     NewSecret(f["accountkey"]),
		SAS:     NewSecret(strings.TrimPrefix(f["sharedaccesssignature"], "?")),
	}
	// With both, the SDKs differ in which one they use: requests would have other permissions than the user expects.
	switch {
	case s.Key.Empty() && s.SAS.Empty():
		return Settings{}, invalid("it has neither AccountKey nor SharedAccessSignature")
	case !s.Key.Empty() && !s.SAS.Empty():
		return Settings{}, invalid("it has both AccountKey and SharedAccessSignature")
	case !s.Key.Empty() && s.Account == "":
		return Settings{}, invalid("AccountKey needs AccountName")
	}
	if !s.Key.Empty() {
		if _, err := base64.StdEncoding.DecodeString(s.Key.Reveal()); err != nil {
			return Settings{}, invalid("AccountKey is not base64")
		}
	}
	for _, service := range []struct {
		name string
		to   *string
	}{{"blob", &s.BlobEndpoint}, {"queue", &s.QueueEndpoint}, {"table", &s.TableEndpoint}} {
		endpoint, err := endpoint(service.name, f)
		if err != nil {
			return Settings{}, err
		}
		*service.to = endpoint
	}
	// Unlike the others, it never follows from the account's name: most accounts have no Data Lake endpoint.
	if _, ok := f["dfsendpoint"]; ok {
		var err error
		if s.DFSEndpoint, err = endpoint("dfs", f); err != nil {
			return Settings{}, err
		}
	}
	if s.BlobEndpoint == "" && s.QueueEndpoint == "" && s.TableEndpoint == "" {
		return Settings{}, invalid("it names no account and no endpoint")
	}
	return s, nil
}

// endpoint returns the explicit endpoint of a service, or the one that follows from the account's name.
func endpoint(service string, f map[string]string) (string, error) {
	if explicit, ok := f[service+"endpoint"]; ok {
		u, err := url.Parse(explicit)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" {
			return "", invalid("%sEndpoint is not an http or https URL", strings.ToUpper(service[:1])+service[1:])
		}
		return strings.TrimRight(explicit, "/"), nil
	}
	name := f["accountname"]
	if name == "" {
		return "", nil
	}
	scheme := "https"
	if p, ok := f["defaultendpointsprotocol"]; ok {
		if scheme = strings.ToLower(p); scheme != "http" && scheme != "https" {
			return "", invalid("DefaultEndpointsProtocol can only be http or https")
		}
	}
	suffix := "core.windows.net"
	if e, ok := f["endpointsuffix"]; ok {
		suffix = strings.Trim(e, ".")
	}
	host := name + "." + service + "." + suffix
	for _, c := range host {
		if c != '.' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "", invalid("AccountName and EndpointSuffix do not make a host name")
		}
	}
	return scheme + "://" + host, nil
}
