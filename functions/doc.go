// Package functions runs function apps that were written for Azure Functions: a host.json with functions in code, which
// a language worker runs ([LanguageWorkers]), or with a folder and a function.json for each function and a custom
// handler, which is a web server in any language.
// https://learn.microsoft.com/azure/azure-functions/functions-custom-handlers
//
//	host, err := functions.Load(ctx, functions.Config{Dir: "myapp"})
//	...
//	err = host.Run(ctx, listener) // until ctx is done, then drains
//
// The package reads the files, keeps the process of the worker or handler running, listens for HTTP triggers, and
// leaves queue, blob and timer triggers to the package workers, whose promises hold here as well: every message is
// handled at least once, and is deleted only after the function has answered and all of its outputs are written.
//
// The requests to a function, and the handling of its response, follow the source of the Functions host rather than its
// documentation where the two differ: docs/functions.md lists both, and the differences here.
//
// # Where to start
//
// load.go and run.go put it all together. invoke.go is the life of one invocation, with payload.go (what is sent),
// response.go (what comes back), inputs.go and outputs.go (the other bindings); it goes to the web server of a custom
// handler by handler_invoker.go, or to a language worker by language_invoker.go. triggers.go and http.go call
// functions; project.go, hostfile.go and function_file.go read the files of an app.
//
// Below this package, in folders of internal, are the parts that know no host: jsonfile and settings (the files),
// jsonvalue, expression, entity and route (the values), keys (who may call), handlerproc (the process of a custom
// handler) and workerproxy (requests that a language worker takes itself).
package functions
