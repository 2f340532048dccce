// Package functions runs a folder that was written for Azure Functions' custom handlers: a host.json, one folder
// with a function.json for each function, and a web server in any language that does the work.
// https://learn.microsoft.com/azure/azure-functions/functions-custom-handlers
//
//	host, err := functions.Load(ctx, functions.Config{Dir: "myapp"})
//	...
//	err = host.Run(ctx, listener) // until ctx is done, then drains
//
// The package reads the files, keeps the web server's process running, listens for HTTP triggers, and leaves queue,
// blob and timer triggers to the package workers, whose promises hold here as well: every message is handled at least
// once, and is deleted only after the function has answered and all of its outputs are written.
//
// The requests to a function, and the handling of its response, follow the source of the Functions host rather than its
// documentation where the two differ: docs/functions.md lists both, and what is different here.
//
// # Where to start
//
// load.go and run.go put it all together. invoke.go is the life of one invocation, with payload.go (what is sent),
// response.go (what comes back), inputs.go and outputs.go (the other bindings); it goes to the web server of a custom
// handler by handler_invoker.go, or to a language worker by language_invoker.go. triggers.go and http.go are what calls
// functions; project.go, hostfile.go and function_file.go read the files of an app.
//
// Below this package, in folders of internal, are the parts that know no host: jsonfile and settings (the files),
// jsonvalue, expression, entity and route (the values), keys (who may call), handlerproc (the process of a custom
// handler) and workerproxy (requests that a language worker takes itself).
package functions
