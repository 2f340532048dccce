// Package devcert makes certificates for development: a local certificate authority, and a certificate of it for the
// names under which Lazuli is reached on one machine. It also loads a certificate for a server, again when its files
// change.
//
// The authority's certificate goes into the trust of programs or of the machine; its key stays in one file, readable
// by its owner alone. The authority may sign for local names and addresses only, as its certificate says: a
// thief of the key cannot make certificates for public host names.
package devcert
