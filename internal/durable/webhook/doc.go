// Package webhook serves the HTTP management API of Durable Functions for one hub: starting, querying, steering and
// purging instances below /runtime/webhooks/durabletask/.
//
//	mux.Handle(webhook.Path, webhook.New(webhook.Options{Client: engine.WaitClient, Hub: "Orders"}))
//
// Paths, parameters, status codes and bodies are those of
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api. There is no authentication:
// serve it on loopback, or put a handler around it that checks who calls.
package webhook
