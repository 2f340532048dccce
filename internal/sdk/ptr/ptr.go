// Package ptr converts between values and the pointers that the SDKs use for values that may be absent.
package ptr

// Value returns what p points to, or the zero value if p is nil.
func Value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Values returns m with pointers to its values, as the SDKs take metadata.
func Values(m map[string]string) map[string]*string {
	out := make(map[string]*string, len(m))
	for k, v := range m {
		out[k] = &v
	}
	return out
}

// Text returns a pointer to s, or nil if s is empty.
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
