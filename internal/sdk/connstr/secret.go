package connstr

import "log/slog"

const redacted = "**redacted**"

// Secret is a text that must not reach a log, an error or a terminal. Every fmt verb, encoding/json,
// encoding.TextMarshaler users and slog see "**redacted**"; an empty one shows as empty, to distinguish "not set" from
// "set".
type Secret struct{ text string }

// NewSecret wraps a text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the text itself. Its few callers are where a request is signed or a child process is given its
// settings.
func (s Secret) Reveal() string { return s.text }

// Empty reports whether there is no text.
func (s Secret) Empty() bool { return s.text == "" }

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText implements encoding.TextMarshaler, and with it encoding/json.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
