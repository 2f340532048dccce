package accountprops

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Blob are the settings of an account's Blob service. The zero value has everything off.
type Blob struct {
	// AccessTimes records the day on which a blob was last read.
	AccessTimes bool
	// ChangeFeed records changes of blobs in the container $blobchangefeed.
	ChangeFeed bool
	// Versioning keeps the state of a blob before each write, and before it is deleted, as a version.
	Versioning bool
	// Immutability permits immutability policies and legal holds for blobs of containers that are created from now on. It
	// needs Versioning.
	Immutability bool
	// Scopes are the encryption scopes that requests can use.
	Scopes []string
	// Expiry lets blobs have expiry times, which Azure permits on accounts with a hierarchical namespace alone.
	Expiry bool
	// Hierarchical gives the account a hierarchical namespace: its containers are trees of directories and files. It is
	// fixed once the account has a container.
	Hierarchical bool
	// ContainerDays is for how many days a deleted container can be restored, 0 to 365; 0 is never.
	ContainerDays int
}

// Validate returns an error for settings that exclude each other. The values were checked when they were set.
func (b *Blob) Validate() error {
	if b.Immutability && !b.Versioning {
		return errors.New("blob-immutability needs blob-versioning: policies and holds protect versions")
	}
	if b.Hierarchical && b.Versioning {
		return errors.New("hierarchical-namespace excludes blob-versioning")
	}
	if b.Hierarchical && b.ChangeFeed {
		return errors.New("hierarchical-namespace excludes blob-change-feed")
	}
	return nil
}

// Setting is a row of the table of settings.
type Setting struct {
	// Name is in kebab-case: the name of a flag, and of a key in files.
	Name string
	// Kind is a word for the value in help texts: "number", "list", or "" for a switch.
	Kind string
	// Usage is one sentence without a full stop.
	Usage string
	// Set parses a value; Get returns it as text that Set parses.
	Set func(*Blob, string) error
	Get func(*Blob) string
}

// BlobSettings is the table of settings.
var BlobSettings = []Setting{
	boolean("blob-access-times", "Track when blobs were last read, with a resolution of one day",
		func(b *Blob) *bool { return &b.AccessTimes }),
	boolean("blob-change-feed", "Record changes of blobs in the container $blobchangefeed",
		func(b *Blob) *bool { return &b.ChangeFeed }),
	boolean("blob-versioning", "Keep the previous state of every blob that is overwritten or deleted as a version",
		func(b *Blob) *bool { return &b.Versioning }),
	boolean("blob-immutability", "Allow immutability policies and legal holds for blobs in containers that are "+
		"created from now on; needs blob-versioning",
		func(b *Blob) *bool { return &b.Immutability }),
	boolean("blob-expiry", "Allow expiry times of blobs, as in accounts with a hierarchical namespace",
		func(b *Blob) *bool { return &b.Expiry }),
	boolean("hierarchical-namespace",
		"Data Lake Storage Gen2: directories, access control lists and atomic renames; fixed once the account has a container",
		func(b *Blob) *bool { return &b.Hierarchical }),
	{Name: "encryption-scopes", Kind: "list",
		Usage: "Encryption scopes of blobs that can be used; a scope that is left out is disabled",
		Set:   func(b *Blob, s string) (err error) { b.Scopes, err = parseScopes(s); return err },
		Get:   func(b *Blob) string { return strings.Join(b.Scopes, ",") }},
	{Name: "container-soft-delete-days", Kind: "number",
		Usage: "Retention of deleted containers: number of days in which they can be restored, up to 365; 0 " +
			"disables it",
		Set: func(b *Blob, s string) (err error) { b.ContainerDays, err = ParseNumber(s, 0, 365); return err },
		Get: func(b *Blob) string { return strconv.Itoa(b.ContainerDays) }},
}

func boolean(name, usage string, field func(*Blob) *bool) Setting {
	return Setting{Name: name, Usage: usage,
		Set: func(b *Blob, s string) (err error) { *field(b), err = ParseBool(s); return err },
		Get: func(b *Blob) string { return strconv.FormatBool(*field(b)) }}
}

// ParseBool parses a switch.
func ParseBool(s string) (bool, error) {
	v, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("%q is not true or false", s)
	}
	return v, nil
}

// ParseNumber parses a number from low to high.
func ParseNumber(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", s, low, high)
	}
	return n, nil
}

// parseScopes parses a list of encryption scopes, separated by commas. The list may be empty.
func parseScopes(s string) (list []string, err error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if err := validScope(name); err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, nil
}

// validScope checks the name of an encryption scope: 3 to 63 letters, digits and hyphens.
// https://learn.microsoft.com/azure/storage/blobs/encryption-scope-overview
func validScope(name string) error {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("%q is no name of an encryption scope: it has letters, digits and hyphens", name)
		}
	}
	if len(name) < 3 || len(name) > 63 {
		return fmt.Errorf("%q is no name of an encryption scope: it has 3 to 63 characters", name)
	}
	return nil
}
