// Package accountverb has the verbs of `lazuli account`, for the accounts of an accounts file and for those of a running
// server.
package accountverb
