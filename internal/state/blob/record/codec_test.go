package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Strings of a texts stay as they are when the bytes that they were made of change, and when more are made.
func TestTexts(t *testing.T) {
	t.Parallel()
	var made Texts
	var got, want []string
	v := make([]byte, 0, 2*textsChunk)
	for i := range 2000 {
		v = fmt.Append(v[:0], "text ", i)
		if i%500 == 0 {
			v = append(v, bytes.Repeat([]byte{'x'}, textsChunk+i)...)
		}
		got, want = append(got, made.Copy(v)), append(want, strings.Clone(string(v)))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("text %d is %.20q, want %.20q", i, got[i], want[i])
		}
	}
}
