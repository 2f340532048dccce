package connstr

import "strings"

// Reveal writes the settings back as a connection string with its secret in the clear, in the form that every Azure SDK
// reads.
func (s Settings) Reveal() string { return s.format(Secret.Reveal) }

// String is Reveal with the secret redacted.
func (s Settings) String() string { return s.format(Secret.String) }

// GoString keeps %#v from walking into the fields.
func (s Settings) GoString() string { return s.String() }

func (s Settings) format(show func(Secret) string) string {
	var b strings.Builder
	add := func(name, value string) {
		if value == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(';')
		}
		b.WriteString(name + "=" + value)
	}
	if endpoint := s.BlobEndpoint + s.QueueEndpoint + s.TableEndpoint; strings.HasPrefix(endpoint, "http://") {
		add("DefaultEndpointsProtocol", "http")
	} else {
		add("DefaultEndpointsProtocol", "https")
	}
	add("AccountName", s.Account)
	add("AccountKey", show(s.Key))
	add("BlobEndpoint", s.BlobEndpoint)
	add("QueueEndpoint", s.QueueEndpoint)
	add("TableEndpoint", s.TableEndpoint)
	add("DfsEndpoint", s.DFSEndpoint)
	add("SharedAccessSignature", show(s.SAS))
	return b.String()
}
