package protocol

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Numbers of fields with events, which are written behind a message: those of OrchestratorRequest, and of HistoryChunk.
const (
	PastEvents  protowire.Number = 3
	NewEvents   protowire.Number = 4
	ChunkEvents protowire.Number = 1
)

// Text returns a text as a message, and nil for none.
func Text(text *string) *wrapperspb.StringValue {
	if text == nil {
		return nil
	}
	return wrapperspb.String(*text)
}

// TextOf returns the text of a message, and nil for none.
func TextOf(v *wrapperspb.StringValue) *string {
	if v == nil {
		return nil
	}
	return &v.Value
}
