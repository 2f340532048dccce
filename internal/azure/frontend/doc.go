// Package frontend serves one storage service over HTTP: it reads a request once, finds out who sends it, picks the
// operation from the service's operations table, checks that the caller may call it, runs its handler, and renders
// whatever error comes back. What every call needs is composed here, in [Frontend.ServeHTTP], in that order.
//
// A service brings four things: its [Operation] rows, a Resolve function that turns a path into the typed value its
// handlers work on, a renderer for errors, and its state. An operation's row is the only place that knows the
// operation's name, method, resource level, comp and restype, and the permission it needs.
//
//	operations := []frontend.Operation[*Service, *call]{
//		// Create Queue makes a queue.
//		{Name: "CreateQueue", Method: http.MethodPut, On: onQueue, Needs: ..., Do: (*Service).createQueue},
//	}
package frontend
