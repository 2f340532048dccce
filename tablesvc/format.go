package tablesvc

import (
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// format is the form of an answer.
type format struct {
	atom bool
	// metadata is the level of JSON.
	metadata entity.Metadata
}

// The versions that introduced or removed formats.
// https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations
const (
	versionJSON   wire.Version = 20130815 // the first with JSON
	versionNoAtom wire.Version = 20151211 // the first without Atom
	// versionNoDash is the first in which property names have no dashes.
	versionNoDash wire.Version = 20090414
	// versionUpsert is the first with Insert Or Replace, Insert Or Merge, $select and Prefer.
	versionUpsert wire.Version = 20110818
)

// defaultFormat returns the format for a request that does not ask for one.
func defaultFormat(v wire.Version) format {
	if v < versionNoAtom {
		return format{atom: true}
	}
	return format{metadata: entity.MinimalMetadata}
}

// acceptedFormat returns the first supported format in $format or, without it, in Accept.
func acceptedFormat(v wire.Version, query, accept string) (format, error) {
	wanted := query
	if wanted == "" {
		wanted = accept
	}
	switch wanted { // the form that the SDKs send
	case "application/json;odata=minimalmetadata":
		return checkFormat(v, format{metadata: entity.MinimalMetadata})
	case "application/json;odata=nometadata":
		return checkFormat(v, format{metadata: entity.NoMetadata})
	case "", "*/*":
		return defaultFormat(v), nil
	}
	err := error(errMediaType)
	for item := range strings.SplitSeq(wanted, ",") {
		f, known, itemErr := formatOf(v, strings.TrimSpace(item))
		switch {
		case !known:
			continue
		case itemErr == nil:
			itemErr = versionAllows(v, f)
		}
		if itemErr == nil {
			return f, nil
		}
		err = itemErr
	}
	return format{}, err
}

func checkFormat(v wire.Version, f format) (format, error) { return f, versionAllows(v, f) }

func versionAllows(v wire.Version, f format) error {
	switch {
	case f.atom && v >= versionNoAtom:
		return errAtomFormat
	case !f.atom && v < versionJSON:
		return errJSONFormat
	}
	return nil
}

// formatOf parses one media type. known is false if the service does not have the format.
func formatOf(v wire.Version, mediaType string) (f format, known bool, err error) {
	base, params := wire.MediaType(mediaType)
	switch base {
	case "*/*", "application/*":
		return defaultFormat(v), true, nil
	case "application/atom+xml", "application/xml", "text/xml", "atom":
		return format{atom: true}, true, nil
	case "application/json", "json":
		switch strings.ToLower(wire.MediaParameter(params, "odata")) {
		case "", "minimalmetadata":
			return format{metadata: entity.MinimalMetadata}, true, nil
		case "nometadata":
			return format{metadata: entity.NoMetadata}, true, nil
		case "fullmetadata":
			return format{metadata: entity.FullMetadata}, true, nil
		case "verbose":
			return f, true, errVerboseJSON
		}
	}
	return f, false, nil
}

// contentType returns the media type of an answer. kind is the kind of an Atom document, "entry" or "feed".
func (f format) contentType(kind string) string {
	if f.atom {
		if kind == "" {
			return "application/xml;charset=utf-8"
		}
		return "application/atom+xml;type=" + kind + ";charset=utf-8"
	}
	switch f.metadata {
	case entity.NoMetadata:
		return "application/json;odata=nometadata;streaming=true;charset=utf-8"
	case entity.MinimalMetadata:
		return "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
	}
	return "application/json;odata=fullmetadata;streaming=true;charset=utf-8"
}

// atomBody reports whether a request's body is Atom, by its Content-Type.
func atomBody(v wire.Version, contentType string) (bool, error) {
	if contentType == "application/json" { // the form that the SDKs send
		return false, versionAllows(v, format{})
	}
	if contentType == "" {
		return v < versionNoAtom, nil
	}
	f, known, err := formatOf(v, contentType)
	switch {
	case !known || foreignCharset(contentType):
		return false, errMediaType
	case err != nil:
		return false, err
	}
	return f.atom, versionAllows(v, f)
}

// foreignCharset reports whether a media type names an unsupported encoding of text.
func foreignCharset(mediaType string) bool {
	_, params := wire.MediaType(mediaType)
	switch strings.ToLower(wire.MediaParameter(params, "charset")) {
	case "", "utf-8", "utf8", "us-ascii":
		return false
	}
	return true
}
