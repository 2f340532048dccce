package sidecar

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzUnknown: any fields that a newer client sends are skipped, or read as far as they are whole.
func FuzzUnknown(f *testing.F) {
	f.Add(protowire.AppendString(protowire.AppendTag(nil, createTraceContext, protowire.BytesType), "parent"))
	f.Add([]byte{0x4b, 0x4b, 0x4b})
	f.Fuzz(func(t *testing.T, fields []byte) {
		defer workbudget.Default.Start(t, len(fields))()
		if content, ok := unknown(fields, createTraceContext); ok {
			_, _ = unknown(content, traceParent)
		}
	})
}
