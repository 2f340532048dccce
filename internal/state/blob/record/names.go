package record

import (
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Names.
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
var (
	// ErrContainerName, ErrBlobName: a name has characters that it may not have, or a blob name too many segments.
	ErrContainerName = errors.New("blob state: invalid container name")
	ErrBlobName      = errors.New("blob state: invalid blob name")
	// ErrNameLength: a name is shorter or longer than its kind allows.
	ErrNameLength = errors.New("blob state: the length of the name is out of range")
)

// CheckContainerName checks a container's name: 3 to 63 lower-case letters, digits and hyphens, beginning and ending
// with a letter or digit, no two hyphens in a row; or one of the containers with a special meaning. It fails with
// [ErrContainerName] or [ErrNameLength].
func CheckContainerName(s string) error {
	switch s {
	case RootContainer, LogsContainer, WebContainer, ChangeFeedContainer:
		return nil
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1 && s[i-1] != '-':
		default:
			return ErrContainerName
		}
	}
	if len(s) < 3 || len(s) > 63 {
		return ErrNameLength
	}
	return nil
}

// maxBlobName is the longest blob name in UTF-16 units, which is how Azure counts characters.
const maxBlobName = 1024

// CheckBlobName checks a decoded blob name: any characters, 1 to 1024 of them, at most 254 path segments. U+0000 has no
// form in a listing and is refused. It fails with [ErrBlobName] or [ErrNameLength].
func CheckBlobName(s string) error {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return ErrBlobName
	}
	if len(s) > maxBlobName {
		units := 0
		for _, c := range s {
			units += utf16.RuneLen(c)
		}
		if units > maxBlobName {
			return ErrNameLength
		}
	}
	if strings.Count(s, "/") >= 254 {
		return ErrBlobName
	}
	return nil
}

// The containers with a special meaning.
const (
	// RootContainer holds the blobs that are addressed without a container.
	RootContainer = "$root"
	// WebContainer holds the blobs of the static website.
	WebContainer = "$web"
	// LogsContainer holds the logs of Storage Analytics; the system alone writes them.
	LogsContainer = "$logs"
	// ChangeFeedContainer holds the change feed; the system alone writes it.
	ChangeFeedContainer = "$blobchangefeed"
)
