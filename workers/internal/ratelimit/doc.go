// Package ratelimit limits how often the handlers of all instances of an app are called, with rows of a table that
// they share.
package ratelimit
