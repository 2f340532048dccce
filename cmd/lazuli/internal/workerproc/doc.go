// Package workerproc has what the processes share that run workers: the built-in roles, the log, traces, and the admin
// listener. lazuli serve, worker and func start build on it.
package workerproc
