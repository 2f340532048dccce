// Package functionrpc has the messages of the language-worker protocol of Azure Functions, generated from
// functionrpc.proto.
//
// functionrpc.pb.go is written by protoc with the plugin of the module google.golang.org/protobuf:
//
//	go install google.golang.org/protobuf/cmd/protoc-gen-go
//	protoc --go_out=. --go_opt=paths=source_relative functionrpc.proto
package functionrpc
