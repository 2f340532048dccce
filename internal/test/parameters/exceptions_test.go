package parameters

import "strings"

// refusal is a request of an operation that is not served, and what answers it.
type refusal struct {
	request request
	status  int
	code    string
}

// refused are the operations that are not served.
var refused = map[string]refusal{
	"blob Container.Rename": {req("PUT /box?restype=container&comp=rename", "x-ms-source-container-name: other"), 400,
		"HierarchicalNamespaceNotEnabled"},
}

const (
	inJSON      = "the service answers in JSON or XML, whatever Accept says"
	inXML       = "the service answers in XML, whatever Accept says"
	byContent   = "the operation decides what its body is, whatever Content-Type says"
	transport   = "the length of the body is a matter of HTTP"
	alone       = "recorded: the algorithm alone, without key and hash, is ignored"
	initial     = "the value is the default"
	noneDeleted = "a list by hierarchy has no snapshots, and only those are soft-deleted in the scene; the flat list " +
		"has one"
	ofDeletion  = "the SDK shares a type: false says nothing where nothing is deleted; true is refused"
	otherFormat = "Parquet has no settings, and Arrow is no format of the content: elements of other formats than Type " +
		"are ignored"
	contentHeaders = "recorded: a rename leaves the headers of the content as they are"
	ofReads        = "the specification gives all changes the answer of a read; recorded without"
	structured     = "the scene has no structured body; TestStructuredBodies has one"
	oneRequest     = "a change of a tree takes one request"
	noBody         = "the answer has no body in that form"
)

// exceptions are the parameters and values that need not matter, with the reason. Their names are "service operation
// parameter", "service parameter" or "parameter", with a value behind it where the reason is about that value alone.
var exceptions = map[string]string{
	"blob element HourMetrics>RetentionPolicy>AllowPermanentDelete false":              ofDeletion,
	"blob element MinuteMetrics>RetentionPolicy>AllowPermanentDelete false":            ofDeletion,
	"blob element Logging>RetentionPolicy>AllowPermanentDelete false":                  ofDeletion,
	"blob element InputSerialization>Format>ArrowConfiguration>Schema>Field>Name":      otherFormat,
	"blob element InputSerialization>Format>ArrowConfiguration>Schema>Field>Precision": otherFormat,
	"blob element InputSerialization>Format>ArrowConfiguration>Schema>Field>Scale":     otherFormat,
	"blob element InputSerialization>Format>ArrowConfiguration>Schema>Field>Type":      otherFormat,
	"blob element InputSerialization>Format>ParquetTextConfiguration":                  otherFormat,
	"blob element OutputSerialization>Format>ParquetTextConfiguration":                 otherFormat,
	"header Content-Length":                                    transport,
	"header x-ms-encryption-algorithm AES256":                  alone,
	"header x-ms-source-encryption-algorithm AES256":           alone,
	"blob header Accept":                                       inXML,
	"dfs header Accept":                                        inJSON,
	"dfs Path.Create header x-ms-expiry-option NeverExpire":    initial,
	"dfs Path.Create query mode posix":                         initial,
	"dfs Path.Create (rename) query mode posix":                initial,
	"dfs Path.Create (rename) query resource file":             "the source is a file",
	"dfs Path.Create (rename) header x-ms-cache-control":       contentHeaders,
	"dfs Path.Create (rename) header x-ms-content-disposition": contentHeaders,
	"dfs Path.Create (rename) header x-ms-content-encoding":    contentHeaders,
	"dfs Path.Create (rename) header x-ms-content-language":    contentHeaders,
	"dfs Path.Create (rename) header x-ms-content-type":        contentHeaders,
	"queue header Accept":                                      inXML,
	"table Service.GetProperties header Accept":                inXML,
	"table Service.GetStatistics header Accept":                inXML,
	"table Service.SetProperties header Accept":                inXML,
	"table Table.GetAccessPolicy header Accept":                inXML,
	"table Table.SetAccessPolicy header Accept":                inXML,
	"blob header Content-Type application/xml":                 byContent,
	"blob header Content-Type application/octet-stream":        byContent,
	"blob Service.ListContainersSegment query include system": "the account has no container of " +
		"the system; TestListSystemContainers has one",
	"blob Container.ListBlobHierarchySegment query include deleted":                 noneDeleted,
	"blob Container.ListBlobHierarchySegmentApacheArrow query include deleted":      noneDeleted,
	"blob header x-ms-copy-source-tag-option REPLACE":                               initial,
	"blob Blob.SetImmutabilityPolicy header x-ms-immutability-policy-mode Unlocked": initial,
	"blob header x-ms-rehydrate-priority Standard":                                  initial,
	"table header Prefer bogus": "RFC 7240: a preference that the " +
		"server does not know is ignored",
	"blob Service.FilterBlobs query include none":   initial,
	"blob Container.FilterBlobs query include none": initial,
	"table header DataServiceVersion": "the versions 1.0 to 3.0 say the " +
		"same to this service; what Azure answers to others is not known",
	"table query $format application/json;odata=nometadata": "the scene asks for that form in " +
		"Accept",
	"table Table.DeleteEntity query $format": noBody,
	"table Table.UpdateEntity query $format": noBody,
	"table Table.MergeEntity query $format":  noBody,
}

// unanswered are the headers that no answer has, with the reason, by "service operation header" or "service header".
var unanswered = map[string]string{
	"dfs Path.Create X-Ms-Continuation":           oneRequest,
	"dfs Path.Delete X-Ms-Continuation":           oneRequest + "; TestLakeFlatAccount has the pages of a flat account",
	"dfs Path.GetProperties Content-Range":        "no answer to HEAD has a range",
	"dfs Path.AppendData X-Ms-Structured-Body":    structured,
	"dfs Path.Read X-Ms-Request-Server-Encrypted": "a read says x-ms-server-encrypted",
	"dfs FileSystem.ListPaths Etag":               "recorded without",
	"dfs FileSystem.ListPaths Last-Modified":      "recorded without",
	"dfs Path.Update X-Ms-Properties":             ofReads,
	"dfs Path.Update Content-Range":               ofReads,
	"dfs Path.Update Content-Md5":                 ofReads,
	"dfs Path.Update Content-Language":            ofReads,
	"dfs Path.Update Content-Encoding":            ofReads,
	"dfs Path.Update Content-Disposition":         ofReads,
	"dfs Path.Update Cache-Control":               ofReads,
	"dfs Path.Update X-Ms-Structured-Body":        structured,
	"dfs Path.Update Accept-Ranges":               ofReads,
}

// exception returns why a parameter, or its value, need not matter; "" if it must. It notes in used which entry says
// so.
func exception(used map[string]bool, operation, parameter string) string {
	service, _, _ := strings.Cut(operation, " ")
	for _, name := range []string{operation + " " + parameter, service + " " + parameter, parameter} {
		if why := exceptions[name]; why != "" {
			used[name] = true
			return why
		}
	}
	return ""
}
