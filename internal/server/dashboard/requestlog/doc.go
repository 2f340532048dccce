// Package requestlog keeps the latest requests and the rates of the last minutes, in bounded memory. It tells what a
// runtime sends of its own accord from what a program asked for, and follows a unit of work through the requests.
package requestlog
