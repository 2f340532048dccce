// Package frontend serves one storage service over HTTP: it parses a request once, authenticates the caller, picks the
// operation from the service's operations table, checks that the caller may call it, runs its handler, and renders the
// error if there is one. [Frontend.ServeHTTP] does this in that order for every request.
//
// A service brings four things: its [Operation] rows, a Resolve function that turns a path into the typed value its
// handlers work on, a renderer for errors, and its state. Only the row of an operation has the operation's name,
// method, resource level, comp, restype and the permission that it needs.
//
//	operations := []frontend.Operation[*Service, *call]{
//		// Create Queue creates a queue.
//		{Name: "CreateQueue", Method: http.MethodPut, On: onQueue, Needs: ..., Do: (*Service).createQueue},
//	}
package frontend
