// Package protocol has the messages of the gRPC protocol of the Durable Task SDKs, generated from protocol.proto. The
// engine's own types for them, those of github.com/microsoft/durabletask-go, are of an older version and not public.
//
// protocol.pb.go is written by protoc with the plugin of the module google.golang.org/protobuf:
//
//	go install google.golang.org/protobuf/cmd/protoc-gen-go
//	protoc --go_out=. --go_opt=paths=source_relative protocol.proto
package protocol
