// Package server runs Lazuli inside a program: the Blob, Queue and Table services with their data folder, on listeners
// of their own. The example has its storage and its workers in one process.
//
//	s, err := server.Start(ctx, server.Config{Location: "data"})
//	defer s.Stop(ctx)
//	client, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionString(), nil)
//
// A server writes to disk before it acknowledges, survives kill -9, and can be a node of a cluster ([Cluster]).
// Accounts have keys and settings of their own ([Account]), bearer tokens need an [Issuer]. Tests use package
// lazulitest, which adds assertions and a clock.
package server
