package azurehosts

import (
	"net/url"
	"strings"
)

// Account is the account of a connection string.
type Account struct {
	Name, Key string
	Endpoints map[string]string // "blob" to "127.0.0.1:10000"
	TLS       bool              // of the endpoints
}

// ParseConnection parses a connection string.
func ParseConnection(s string) Account {
	a := Account{Endpoints: map[string]string{}}
	for field := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "AccountName":
			a.Name = value
		case "AccountKey":
			a.Key = value
		default:
			if service, ok := strings.CutSuffix(name, "Endpoint"); ok {
				if u, err := url.Parse(value); err == nil {
					a.Endpoints[strings.ToLower(service)] = u.Host
					a.TLS = u.Scheme == "https"
				}
			}
		}
	}
	return a
}

// Environment returns the variables that the examples read.
func (a Account) Environment() []string {
	connection := "DefaultEndpointsProtocol=https;AccountName=" + a.Name + ";AccountKey=" + a.Key +
		";EndpointSuffix=core.windows.net"
	return []string{
		"AZURE_STORAGE_ACCOUNT_NAME=" + a.Name, "AZURE_STORAGE_ACCOUNT_KEY=" + a.Key,
		"AZURE_STORAGE_PRIMARY_ACCOUNT_KEY=" + a.Key,
		"AZURE_STORAGE_CONNECTION_STRING=" + connection,
		"TABLES_STORAGE_ACCOUNT_NAME=" + a.Name, "TABLES_PRIMARY_STORAGE_ACCOUNT_KEY=" + a.Key,
		"TABLES_STORAGE_ENDPOINT_SUFFIX=core.windows.net",
		"AZURE_TABLES_CONNECTION_STRING=" + connection,
	}
}
