package auth

import (
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// form selects a variant of the string to sign: clients and versions differ.
type form struct {
	// lite is Shared Key Lite, and Shared Key before version 2009-09-19, which is the same text.
	lite bool
	// zeroLength signs an empty body's length as "0", as before version 2015-02-21.
	zeroLength bool
	// skipEmpty omits headers without a value, as before version 2016-05-31.
	skipEmpty bool
	// weighted sorts header names as [compareWeighted] does.
	weighted bool
	// squeeze replaces runs of blanks in header values by one space.
	squeeze bool
	// primary signs the path of a secondary endpoint in path style as that of the primary: /account, not
	// /account-secondary.
	primary bool
	// bare signs a part of the query without "=" as the value of a parameter without a name.
	bare bool
	// names are the names of the signed headers in the form's order; nil if they have not been sorted yet.
	names []string
}

// maxFormBytes is the maximum total length in bytes of the further strings that are tried for one request, so that one
// with many headers and a wrong signature costs little. Typical strings have about one KiB.
const maxFormBytes = 256 << 10

// Versions at which the string to sign of Shared Key changes.
const sharedKey20160531 wire.Version = 20160531 // headers without a value are signed

// usualForm returns the form in the reference for the request's version. A request without a version counts as
// one of the newest version.
func usualForm(r *wire.Request, lite bool) form {
	v := r.Version
	if v == 0 {
		return form{lite: lite}
	}
	return form{
		lite:       lite || v < wire.V20090919 && r.Service != wire.Table,
		zeroLength: v < wire.V20150221,
		skipEmpty:  v < sharedKey20160531,
	}
}

// otherForm tries the other strings that Azure accepts for the same request, and reports whether one matches the
// signature:
//   - the secondary endpoint's resource begins with account-secondary in the reference, while most SDKs sign the
//     account's own name;
//   - some SDKs sort header names by bytes, others by the weights that Azure's servers use;
//   - in path style, SDKs before version 12 sign the path of the secondary as that of the primary:
//     https://github.com/Azure/azure-storage-net/blob/master/Lib/Common/Core/Util/NavigationHelper.cs
//   - a part of the query without "=" ("comp=page&update") is a name without a value in the SDKs that parse it by
//     themselves, and a value without a name for .NET:
//     https://learn.microsoft.com/dotnet/api/system.web.httputility.parsequerystring
//   - the reference collapses white space in header values, the SDKs do not;
//   - without x-ms-version, the older forms.
//
// Most requests have no other form. fits also returns the length of the string
// that it tried as well.
func otherForm(r *wire.Request, usual form, fits func(owner string, f form) (fits bool, length int)) bool {
	forms := []form{usual}
	if r.Version == 0 {
		old := form{zeroLength: true, skipEmpty: true, lite: usual.lite}
		forms = append(forms, old)
		if !usual.lite && r.Service != wire.Table {
			forms = append(forms, form{lite: true, skipEmpty: true})
		}
	}
	if r.Service != wire.Table { // whose forms sign no headers
		// The names are sorted once for all forms that have their order.
		names := signedNames(nil, r.HTTP.Header, compareFold)
		for i := range forms {
			forms[i].names = names
		}
		// This step and the following ones double the list: range takes the list as it is before the first append, so that
		// the forms that are added are not visited.
		if sortsDifferently(names) {
			names = slices.Clone(names)
			slices.SortFunc(names, compareWeighted)
			for _, f := range forms {
				f.weighted, f.names = true, names
				forms = append(forms, f)
			}
		}
		if hasRunsOfBlanks(r.HTTP.Header) {
			for _, f := range forms {
				f.squeeze = true
				forms = append(forms, f)
			}
		}
	}
	if r.Service != wire.Table && hasBarePart(r) { // the forms of tables sign comp alone
		for _, f := range forms {
			f.bare = true
			forms = append(forms, f)
		}
	}
	if r.Secondary && strings.HasPrefix(r.URIPath, "/"+r.Account+secondarySuffix) {
		for _, f := range forms {
			f.primary = true
			forms = append(forms, f)
		}
	}
	tried := 0
	for i, f := range forms {
		for _, owner := range [...]string{r.Account, r.Account + secondarySuffix} {
			// The first form with the name of the account is the usual one, which has failed already. The path of the primary
			// goes with the name of the primary alone.
			if owner == r.Account && i == 0 || owner != r.Account && (!r.Secondary || f.primary) {
				continue
			}
			ok, length := fits(owner, f)
			if tried += length; ok || tried > maxFormBytes {
				return ok
			}
		}
	}
	return false
}

const signedPrefix = "X-Ms-"

// secondarySuffix is what the name of the secondary endpoint has after that of the account.
const secondarySuffix = "-secondary"

// hasBarePart reports whether a part of the query has no "=".
func hasBarePart(r *wire.Request) bool {
	for part := range strings.SplitSeq(r.HTTP.URL.RawQuery, "&") {
		if part != "" && !strings.Contains(part, "=") {
			return true
		}
	}
	return false
}

// namelessParts returns the query with its parts without "=" as values of a parameter without a name. A part with "="
// and no value is not one of them.
func namelessParts(r *wire.Request) wire.Query {
	q := slices.Clone(r.Query)
	i := 0
	for part := range strings.SplitSeq(r.HTTP.URL.RawQuery, "&") {
		if part == "" {
			continue
		}
		if i < len(q) && !strings.Contains(part, "=") {
			// The name in the query is in lower case already, the value keeps its own.
			bare, _ := wire.ParseQuery("=" + part)
			q[i] = bare[0]
		}
		i++
	}
	return q
}

// hasRunsOfBlanks reports whether the value of a signed header has white space that the reference collapses.
func hasRunsOfBlanks(h map[string][]string) bool {
	for name, values := range h {
		if !strings.HasPrefix(name, signedPrefix) {
			continue
		}
		for _, v := range values {
			if strings.Contains(v, "  ") || strings.IndexByte(v, '\t') >= 0 {
				return true
			}
		}
	}
	return false
}

// sortsDifferently reports whether names, which are sorted by their bytes, have another order by weight.
func sortsDifferently(names []string) bool {
	for i := 1; i < len(names); i++ {
		if compareWeighted(names[i-1], names[i]) > 0 {
			return true
		}
	}
	return false
}

// compareWeighted orders header names as Azure's servers and the Python and JavaScript SDKs do: a word sort, in which
// hyphens are compared last, underscores sort before digits, and digits before letters.
func compareWeighted(a, b string) int {
	// Hyphens decide only between names that are otherwise the same, so that the first pass skips them.
	i, j := 0, 0
	for {
		for i < len(a) && a[i] == '-' {
			i++
		}
		for j < len(b) && b[j] == '-' {
			j++
		}
		if i == len(a) || j == len(b) {
			break
		}
		if x, y := weight(a[i]), weight(b[j]); x != y {
			return x - y
		}
		i, j = i+1, j+1
	}
	if left, right := len(a)-i, len(b)-j; left != right {
		return left - right
	}
	for k := range min(len(a), len(b)) {
		if (a[k] == '-') != (b[k] == '-') { // the same letters: the earlier hyphen comes later
			if a[k] == '-' {
				return 1
			}
			return -1
		}
	}
	return len(a) - len(b)
}

func weight(c byte) int {
	if c = lower(c); c == '_' {
		return 1
	}
	return int(c)
}
