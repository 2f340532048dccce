// Package server assembles Lazuli in one process: the data folder, the three services with their state, and a listener
// for each. The command, lazulitest and the public package server start the same server.
//
// The folders below it are the parts of a server that the assembly uses, or that the command starts on top of it.
package server
