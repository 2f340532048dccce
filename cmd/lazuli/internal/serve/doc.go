// Package serve is the body of lazuli serve: it starts the services with their admin listener, roles and workflows as
// the configuration has them, and stops them. Where to start: [Run].
package serve
