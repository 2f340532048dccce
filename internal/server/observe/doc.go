// Package observe reports what the services do: [Metrics] counts requests for Prometheus, [RequestLog] logs each
// request at debug level. Package traces, below it, sends OpenTelemetry traces. Nothing leaves the process unless its
// environment names an endpoint for traces; metrics are read from the admin listener.
package observe
