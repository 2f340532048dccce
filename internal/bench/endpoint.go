package bench

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Service is one of the three storage services.
type Service int

// The services, in the order of Azurite's ports.
const (
	Blob Service = iota
	Queue
	Table
	serviceCount
)

func (s Service) String() string { return [...]string{"blob", "queue", "table"}[s] }

// The development account, the same in every Azure Storage emulator:
// https://learn.microsoft.com/azure/storage/common/storage-connect-azurite
const (
	devAccount = "devstoreaccount1"
	devKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Endpoint is where one service of one account answers.
type Endpoint struct {
	Addr string // host:port to dial
	Host string // Host header
	Base string // escaped path before the resource, such as "/devstoreaccount1"; empty for host-style URLs
	TLS  bool
}

// Stack is one account with its three services.
type Stack struct {
	Account   string
	Key       []byte
	Endpoints [serviceCount]Endpoint
}

// ParseConnectionString reads an Azure Storage connection string: UseDevelopmentStorage=true, explicit endpoints as
// Azurite prints them, or AccountName with EndpointSuffix for Azure itself. Only shared keys are supported.
// https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
func ParseConnectionString(s string) (*Stack, error) {
	fields := map[string]string{}
	for part := range strings.SplitSeq(s, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, found := strings.Cut(part, "=")
		if !found {
			return nil, fmt.Errorf("connection string: %q is not name=value", name)
		}
		fields[strings.ToLower(name)] = value
	}
	if strings.EqualFold(fields["usedevelopmentstorage"], "true") {
		return devStack(fields["developmentstorageproxyuri"])
	}
	st := &Stack{Account: fields["accountname"]}
	if st.Account == "" {
		return nil, errors.New("connection string: AccountName is missing")
	}
	key, err := base64.StdEncoding.DecodeString(fields["accountkey"])
	if err != nil || len(key) == 0 {
		return nil, errors.New("connection string: AccountKey is missing or not base64")
	}
	st.Key = key
	scheme, suffix := fields["defaultendpointsprotocol"], fields["endpointsuffix"]
	if scheme == "" {
		scheme = "https"
	}
	if suffix == "" {
		suffix = "core.windows.net"
	}
	for svc := range serviceCount {
		raw := fields[svc.String()+"endpoint"]
		if raw == "" {
			raw = scheme + "://" + st.Account + "." + svc.String() + "." + suffix
		}
		if st.Endpoints[svc], err = parseEndpoint(raw); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// devStack is the well-known account on the emulator's default ports.
func devStack(proxy string) (*Stack, error) {
	if proxy == "" {
		proxy = "http://127.0.0.1"
	}
	return localStack(strings.TrimSuffix(proxy, "/"), [serviceCount]int{10000, 10001, 10002})
}

// localStack is the development account with path-style URLs on the given ports of origin ("http://127.0.0.1").
func localStack(origin string, ports [serviceCount]int) (*Stack, error) {
	key, err := base64.StdEncoding.DecodeString(devKey)
	if err != nil {
		return nil, err
	}
	st := &Stack{Account: devAccount, Key: key}
	for svc, port := range ports {
		if st.Endpoints[svc], err = parseEndpoint(fmt.Sprintf("%s:%d/%s", origin, port, devAccount)); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func parseEndpoint(raw string) (Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Endpoint{}, fmt.Errorf("endpoint %q is not an http or https URL", raw)
	}
	e := Endpoint{Addr: u.Host, Host: u.Host, Base: strings.TrimSuffix(u.EscapedPath(), "/"), TLS: u.Scheme == "https"}
	if u.Port() == "" {
		e.Addr += map[bool]string{false: ":80", true: ":443"}[e.TLS]
	}
	return e, nil
}
