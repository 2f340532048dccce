// Package server runs Lazuli in one process: the data folder, the three services with their state, and a
// listener for each. The command and tests start the same stack.
//
//	s, err := server.Start(server.Config{InMemory: true})
//	defer s.Stop(ctx)
//	client, err := azqueue.NewServiceClientFromConnectionString(s.ConnectionString(), nil)
package server
