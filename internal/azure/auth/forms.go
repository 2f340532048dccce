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
		names := signedNames(nil, r.HTTP.Header, compareFold)
		for i := range forms {
			forms[i].names = names
		}
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
	tried := 0
	for i, f := range forms {
		for _, owner := range [...]string{r.Account, r.Account + "-secondary"} {
			if owner == r.Account && i == 0 || owner != r.Account && !r.Secondary {
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
