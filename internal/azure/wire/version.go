package wire

import "slices"

// Version is a service version, the value of x-ms-version, as the number yyyymmdd, so that versions compare with <.
// The zero value means no version.
type Version int

// Versions at which the behaviour of several services changes. Versions of one service are constants of that service.
const (
	V20090919 Version = 20090919 // the first version with the Shared Key form still in use
	V20120212 Version = 20120212
	V20130815 Version = 20130815 // JSON for tables, CORS
	V20150221 Version = 20150221 // an empty Content-Length is signed as "", not "0"
	V20170729 Version = 20170729 // x-ms-error-code
	V20191212 Version = 20191212 // anonymous requests to private resources are answered 401 with a challenge
	V20240804 Version = 20240804 // an account SAS for other resource types is refused with those that it would need
)

// known lists the published service versions, oldest first.
// https://learn.microsoft.com/rest/api/storageservices/previous-azure-storage-service-versions
var known = []Version{
	20080827, 20081026, 20090414, 20090717, 20090919, 20110818, 20120212, 20120919, 20130815, 20140214, 20150221,
	20150405, 20150708, 20151211, 20160531, 20161019, 20170417, 20170729, 20171109, 20180328, 20180617, 20181109,
	20190202, 20190707, 20191010, 20191212, 20200210, 20200408, 20200612, 20200804, 20201002, 20201206, 20210212,
	20210410, 20210608, 20210806, 20211004, 20211202, 20221102, 20230103, 20230503, 20230803, 20231103, 20240204,
	20240504, 20240804, 20241104, 20250105, 20250505, 20250705, 20251105, 20260206, 20260406, 20260606, 20261006,
	// Not on that page. The Azure SDK for Go sends it from azblob 1.8.1 on, and it differs in nothing there; other SDKs
	// withdrew it before a release, and some accounts of Azure refuse it:
	// https://github.com/Azure/azure-sdk-for-go/issues/27543
	20261206,
}

// LatestVersion returns the newest supported version. Requests with later versions are served as this one.
func LatestVersion() Version { return known[len(known)-1] }

// Known reports whether v is a published version.
func (v Version) Known() bool {
	_, ok := slices.BinarySearch(known, v)
	return ok
}

// String returns the wire form, "2021-12-02", or "" for the zero Version.
func (v Version) String() string {
	if v == 0 {
		return ""
	}
	var b [10]byte
	for i, n := 9, int(v); i >= 0; i-- {
		if i == 4 || i == 7 {
			b[i] = '-'
			continue
		}
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return string(b[:])
}

// ParseVersion parses the wire form yyyy-mm-dd. ok is false unless s is a plausible date.
func ParseVersion(s string) (v Version, ok bool) {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return 0, false
	}
	for i := range len(s) {
		if i == 4 || i == 7 {
			continue
		}
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		v = v*10 + Version(s[i]-'0')
	}
	month, day := v/100%100, v%100
	return v, v >= 2008_01_01 && month >= 1 && month <= 12 && day >= 1 && day <= 31
}
