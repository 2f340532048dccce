// Package queuesvc is the Queue service: queues and their messages, as an [http.Handler] with its data folder. Clients
// are those of Azure: the Azure SDKs, or package workers.
//
//	service, err := queuesvc.New(queuesvc.Config{Folder: "data"})
//	defer service.Close()
//	err = http.ListenAndServe("127.0.0.1:10001", service.Handler())
//
// A write is on disk before it is acknowledged. Requests name the account in the path, or as the first label of the
// host's name. Package server runs all three services in one folder, with settings for each account, bearer tokens,
// metrics, backups and clusters; package lazulitest runs them in tests. docs/queue.md lists what works and what differs
// from Azure.
//
// # Where to start in the source
//
// operations.go is the index: one row per operation, under its name in the reference, with its handler. Handlers are in
// service_level.go (listing, service properties, statistics, preflight), queue.go (queues, their metadata and access
// policies), messages.go (putting, getting, peeking, clearing) and message.go (updating and deleting one). names.go
// parses paths, body.go parses a message from XML, params.go parses query parameters, errors.go lists the errors. The
// queues are in internal/state/queue.
//
// https://learn.microsoft.com/rest/api/storageservices/queue-service-rest-api
package queuesvc
