package frontend

import (
	"net/http"
	"slices"
	"strings"
)

const exposeHeaders = "Access-Control-Expose-Headers"

// expandExposedHeaders replaces the prefixes of a CORS rule, "x-ms-*", in the list of exposed headers by the names of
// the answer's headers that begin with them, as Azure does: browsers know only whole names. It is called when all
// headers are set.
// https://learn.microsoft.com/rest/api/storageservices/cross-origin-resource-sharing--cors--support-for-the-azure-storage-services
func expandExposedHeaders(h http.Header) {
	list := h[exposeHeaders]
	if len(list) != 1 || !strings.Contains(list[0], "*") {
		return
	}
	var names []string
	for rule := range strings.SplitSeq(list[0], ",") {
		prefix, isPrefix := strings.CutSuffix(rule, "*")
		if !isPrefix {
			names = append(names, rule)
			continue
		}
		var found []string
		for name := range h {
			if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) &&
				!strings.HasPrefix(name, "Access-Control-") {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		names = append(names, found...)
	}
	if len(names) == 0 {
		delete(h, exposeHeaders)
		return
	}
	h[exposeHeaders] = []string{strings.Join(names, ",")}
}
