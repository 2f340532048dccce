package authmatrix

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// sharedKey signs as a client does; it shares no code with what checks signatures.
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
func sharedKey(r *http.Request, svc wire.Service, name string, key auth.Key) string {
	h := r.Header
	if svc == wire.Table {
		resource := "/" + name + r.URL.EscapedPath()
		if comp := r.URL.Query().Get("comp"); comp != "" {
			resource += "?comp=" + comp
		}
		return sign(key, r.Method+"\n\n"+h.Get("Content-Type")+"\n"+h.Get("x-ms-date")+"\n"+resource)
	}
	var canonical []string
	for k, v := range h {
		if k = strings.ToLower(k); strings.HasPrefix(k, "x-ms-") {
			canonical = append(canonical, k+":"+strings.Join(v, ",")+"\n")
		}
	}
	slices.Sort(canonical)
	resource := "/" + name + r.URL.EscapedPath()
	var params []string
	for k, v := range r.URL.Query() {
		params = append(params, "\n"+strings.ToLower(k)+":"+strings.Join(v, ","))
	}
	slices.Sort(params)
	lines := []string{r.Method, "", "", "", "", h.Get("Content-Type"), "", "", h.Get("If-Match"), "", "", ""}
	return sign(key, strings.Join(lines, "\n")+"\n"+strings.Join(canonical, "")+resource+strings.Join(params, ""))
}

func sign(key auth.Key, message string) string {
	return base64.StdEncoding.EncodeToString(key.Sign(nil, []byte(message)))
}

// sharedKeyLite signs with the short form, for the path as sent.
func sharedKeyLite(p *wire.Request, r *http.Request, name string, key auth.Key) string {
	resource := "/" + name + p.URIPath
	if p.Query.Has("comp") {
		resource += "?comp=" + p.Query.Get("comp")
	}
	h := r.Header
	if p.Service == wire.Table {
		return sign(key, h.Get("x-ms-date")+"\n"+resource)
	}
	var canonical []string
	for k, v := range h {
		if k = strings.ToLower(k); strings.HasPrefix(k, "x-ms-") {
			canonical = append(canonical, k+":"+strings.Join(v, ",")+"\n")
		}
	}
	slices.Sort(canonical)
	return sign(key, strings.Join([]string{r.Method, h.Get("Content-MD5"), h.Get("Content-Type"), "", ""}, "\n")+strings.Join(canonical, "")+resource)
}
