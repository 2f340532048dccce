// Package server runs Lazuli in one process: the data folder, the three services with their state, and a
// listener for each. The command and tests start the same stack, and so can any program: the example has its storage
// and its workers in one process.
//
//	s, err := server.Start(server.Config{InMemory: true})
//	defer s.Stop(ctx)
//	client, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionString(), nil)
package server
