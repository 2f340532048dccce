package functionrpc

import _ "embed"

// Source is functionrpc.proto.
//
//go:embed functionrpc.proto
var Source []byte

// Descriptor returns the FileDescriptorProto of functionrpc.proto, which imports those of Duration and Timestamp.
func Descriptor() []byte { return []byte(file_functionrpc_proto_rawDesc) }
