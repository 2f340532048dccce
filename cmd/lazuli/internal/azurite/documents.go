package azurite

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// chunk is the place where content is.
type chunk struct {
	ID            string
	Offset, Count int64
}

type extentDoc struct{ ID, Path string }

// meta has the times that LokiJS notes.
type meta struct {
	Created int64 // milliseconds since 1970
}

// created returns the zero time if it is not known.
func (m meta) created() time.Time {
	if m.Created == 0 {
		return time.Time{}
	}
	return time.UnixMilli(m.Created).UTC()
}

type containerDoc struct {
	Account    string `json:"accountName"`
	Name       string
	Metadata   map[string]string
	ACL        []policyDoc `json:"containerAcl"`
	Properties struct {
		LastModified              time.Time
		PublicAccess              string
		LeaseState, LeaseDuration string
	}
	LeaseID string
	Meta    meta
}

// policyDoc is a stored access policy. Times are text, as the client wrote them.
type policyDoc struct {
	ID           string
	AccessPolicy struct{ Start, Expiry, Permission string }
}

// times returns the start and the expiry, or nil for those that are absent.
func (p policyDoc) times() (start, expiry *time.Time, err error) {
	for _, t := range []struct {
		text string
		to   **time.Time
	}{{p.AccessPolicy.Start, &start}, {p.AccessPolicy.Expiry, &expiry}} {
		if t.text == "" {
			continue
		}
		v, err := parseTime(t.text)
		if err != nil {
			return nil, nil, fmt.Errorf("access policy %s: %w", p.ID, err)
		}
		*t.to = &v
	}
	return start, expiry, nil
}

// parseTime reads a time in the forms that access policies can have.
func parseTime(text string) (t time.Time, err error) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04Z", "2006-01-02"} {
		if t, err = time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return t, err
}

type blobDoc struct {
	Account    string `json:"accountName"`
	Container  string `json:"containerName"`
	Name       string
	Snapshot   string
	Deleted    bool
	Committed  bool `json:"isCommitted"`
	Metadata   map[string]string
	Properties struct {
		CreationTime, LastModified                                                      time.Time
		ContentLength                                                                   int64
		ContentType, ContentEncoding, ContentLanguage, ContentDisposition, CacheControl string
		ContentMD5                                                                      buffer
		BlobType, AccessTier                                                            string
		AccessTierInferred, IsSealed                                                    bool
		BlobSequenceNumber                                                              int64
		LeaseState, LeaseDuration                                                       string
	}
	LeaseID string
	Tags    struct {
		Set []struct{ Key, Value string } `json:"blobTagSet"`
	} `json:"blobTags"`

	Content *chunk     `json:"persistency"`            // of a block blob that was written by one request
	Blocks  []blockDoc `json:"committedBlocksInOrder"` // of other block blobs, and of append blobs
	Pages   []struct {
		Start, End int64 // of the first and the last byte
		Content    chunk `json:"persistency"`
	} `json:"pageRangesInOrder"`
}

type blockDoc struct {
	Account   string `json:"accountName"`
	Container string `json:"containerName"`
	Blob      string `json:"blobName"`
	Name      string // in base64
	Size      int64
	Content   chunk `json:"persistency"`
}

// buffer is a Buffer of Node.js, or a Uint8Array, as JSON.
type buffer []byte

// UnmarshalJSON implements json.Unmarshaler. It leaves the buffer empty for a form that it does not know.
func (b *buffer) UnmarshalJSON(text []byte) error {
	var node struct{ Data []byte } // a list of numbers
	if json.Unmarshal(text, &node) == nil && node.Data != nil {
		*b = node.Data
		return nil
	}
	var array map[string]uint8
	if json.Unmarshal(text, &array) != nil {
		return nil
	}
	out := make([]byte, len(array))
	for i := range out {
		c, ok := array[strconv.Itoa(i)]
		if !ok {
			return nil
		}
		out[i] = c
	}
	*b = out
	return nil
}

type queueDoc struct {
	Account  string `json:"accountName"`
	Name     string
	Metadata map[string]string
	ACL      []policyDoc `json:"queueAcl"`
	Meta     meta
}

type messageDoc struct {
	Account  string    `json:"accountName"`
	Queue    string    `json:"queueName"`
	Inserted time.Time `json:"insertionTime"`
	Expires  time.Time `json:"expirationTime"`
	Visible  instant   `json:"timeNextVisible"`
	Content  chunk     `json:"persistency"`
}

// instant is a time as text, or in milliseconds since 1970.
type instant struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (i *instant) UnmarshalJSON(text []byte) error {
	var ms int64
	if json.Unmarshal(text, &ms) == nil {
		i.Time = time.UnixMilli(ms).UTC()
		return nil
	}
	return json.Unmarshal(text, &i.Time)
}

type tableDoc struct {
	Account string
	Name    string      `json:"table"`
	ACL     []policyDoc `json:"tableAcl"`
	Meta    meta
}

// collection is the name of the collection with the table's entities.
func (t tableDoc) collection() string { return t.Account + "$" + t.Name }

type entityDoc struct {
	PartitionKey, RowKey string
	Properties           map[string]json.RawMessage `json:"properties"`
	Modified             time.Time                  `json:"lastModifiedTime"`
}
