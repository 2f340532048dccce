package bench

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
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

// Endpoint is the place where one service of one account answers.
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

// ParseConnectionString reads an Azure Storage connection string. Only shared keys are supported, since signing is part
// of what is measured. Where it leaves a service out, that endpoint stays zero.
func ParseConnectionString(s string) (*Stack, error) {
	c, err := connstr.Parse(s)
	if err != nil {
		return nil, err
	}
	if c.Key.Empty() {
		return nil, errors.New("connection string: needs AccountKey, requests are signed with it")
	}
	st := &Stack{Account: c.Account}
	if st.Key, err = base64.StdEncoding.DecodeString(c.Key.Reveal()); err != nil {
		return nil, err
	}
	for svc, raw := range [serviceCount]string{c.BlobEndpoint, c.QueueEndpoint, c.TableEndpoint} {
		if raw == "" {
			continue
		}
		if st.Endpoints[svc], err = parseEndpoint(raw); err != nil {
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
