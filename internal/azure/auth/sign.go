package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// SASVersion is the default version of tokens that [Token.Sign] returns.
const SASVersion = "2021-12-02"

// Sign completes a token and returns it as a URL's query string. For an account SAS (Services and ResourceTypes
// are set) svc and resource are ignored; for a service SAS resource is the container, the container and blob
// joined by a slash, the queue or the table. Invalid fields are an error.
func (t Token) Sign(account string, key Key, svc wire.Service, resource string) (string, error) {
	if t.VersionText == "" {
		t.VersionText = SASVersion
	}
	var ok bool
	if t.Version, ok = wire.ParseVersion(t.VersionText); !ok || t.Version < sas20150405 {
		return "", fmt.Errorf("version %q is not a service version from 2015-04-05 on", t.VersionText)
	}
	if err := t.check(); err != nil {
		return "", err
	}
	canonical := ""
	if !t.AccountSAS() {
		prefix := "/" + svc.String() + "/" + account + "/"
		if svc == wire.Table {
			// tn keeps the case of the name; the string to sign wants lower case.
			t.TableName = resource
			resource = strings.ToLower(resource)
		}
		if svc == wire.Blob && t.Resource == "" {
			if t.Resource = "c"; strings.Contains(resource, "/") {
				t.Resource = "b"
			}
		}
		if resource == "" {
			return "", errors.New("a service SAS needs the name of its resource")
		}
		canonical = prefix + resource
	}
	message := t.appendStringToSign(nil, svc, account, canonical)
	t.Signature = base64.StdEncoding.EncodeToString(key.Sign(nil, message))
	return t.encode(), nil
}

func (t *Token) check() error {
	if t.AccountSAS() {
		switch {
		case t.Services == "" || !within(t.Services, "bqtf"):
			return fmt.Errorf("services %q must be letters of bqt", t.Services)
		case t.ResourceTypes == "" || !within(t.ResourceTypes, "sco"):
			return fmt.Errorf("resource types %q must be letters of sco", t.ResourceTypes)
		case t.Policy != "":
			return errors.New("only a service SAS can name a stored access policy")
		}
	}
	if t.Policy == "" && (t.Permissions == "" || t.Expiry == "") {
		return errors.New("a token needs permissions and an expiry, of its own or of a stored access policy")
	}
	if !within(t.Permissions, "rawdxyltfmeopicu") {
		return fmt.Errorf("permissions %q are not letters of SAS permissions", t.Permissions)
	}
	if t.StartRK != "" && t.StartPK == "" || t.EndRK != "" && t.EndPK == "" {
		return errors.New("a row key is a bound within a partition: give the partition key too")
	}
	for name, s := range map[string]string{"start": t.Start, "expiry": t.Expiry} {
		if _, ok := wire.ParseISO(s); s != "" && !ok {
			return fmt.Errorf("%s %q is not a UTC time of ISO 8601", name, s)
		}
	}
	switch t.Protocol {
	case "", "https", "https,http":
	default:
		return fmt.Errorf("protocol %q must be https or https,http", t.Protocol)
	}
	low, high, isRange := strings.Cut(t.IP, "-")
	if !isRange {
		high = low
	}
	for _, s := range []string{low, high} {
		if _, err := netip.ParseAddr(s); t.IP != "" && err != nil {
			return fmt.Errorf("addresses %q are not an IP address or a range of two", t.IP)
		}
	}
	// The fields are lines of the string to sign: a line feed in one would make a part of it pass for the next.
	for _, s := range []string{t.Policy, t.StartPK, t.StartRK, t.EndPK, t.EndRK, t.CacheControl, t.ContentDisposition,
		t.ContentEncoding, t.ContentLanguage, t.ContentType} {
		if !plain(s) {
			return errors.New("a field has control characters")
		}
	}
	return nil
}

func within(s, letters string) bool { return strings.Trim(s, letters) == "" }

// encode encodes the token's parameters that have a value.
func (t *Token) encode() string {
	var b strings.Builder
	for _, p := range [...]struct{ name, value string }{
		{"sv", t.VersionText}, {"ss", t.Services}, {"srt", t.ResourceTypes}, {"sr", t.Resource}, {"sdd", t.Depth},
		{"tn", t.TableName},
		{"si", t.Policy}, {"sp", t.Permissions}, {"st", t.Start}, {"se", t.Expiry}, {"sip", t.IP}, {"spr", t.Protocol},
		{"ses", t.Scope},
		{"spk", t.StartPK}, {"srk", t.StartRK}, {"epk", t.EndPK}, {"erk", t.EndRK},
		{"rscc", t.CacheControl}, {"rscd", t.ContentDisposition}, {"rsce", t.ContentEncoding}, {"rscl", t.ContentLanguage},
		{"rsct", t.ContentType},
		{"sig", t.Signature},
	} {
		if p.value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.name + "=" + url.QueryEscape(p.value))
	}
	return b.String()
}
