package main

import (
	"net/url"
	"strings"
)

// account is the account of a connection string.
type account struct {
	name, key string
	endpoints map[string]string // "blob" to "127.0.0.1:10000"
}

func parseConnection(s string) account {
	a := account{endpoints: map[string]string{}}
	for field := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "AccountName":
			a.name = value
		case "AccountKey":
			a.key = value
		default:
			if service, ok := strings.CutSuffix(name, "Endpoint"); ok {
				if u, err := url.Parse(value); err == nil {
					a.endpoints[strings.ToLower(service)] = u.Host
				}
			}
		}
	}
	return a
}

// environment returns the variables that the examples read.
func (a account) environment() []string {
	connection := "DefaultEndpointsProtocol=https;AccountName=" + a.name + ";AccountKey=" + a.key +
		";EndpointSuffix=core.windows.net"
	return []string{
		"AZURE_STORAGE_ACCOUNT_NAME=" + a.name, "AZURE_STORAGE_ACCOUNT_KEY=" + a.key,
		"AZURE_STORAGE_PRIMARY_ACCOUNT_KEY=" + a.key,
		"AZURE_STORAGE_CONNECTION_STRING=" + connection,
		"TABLES_STORAGE_ACCOUNT_NAME=" + a.name, "TABLES_PRIMARY_STORAGE_ACCOUNT_KEY=" + a.key,
		"TABLES_STORAGE_ENDPOINT_SUFFIX=core.windows.net",
		"AZURE_TABLES_CONNECTION_STRING=" + connection,
	}
}
