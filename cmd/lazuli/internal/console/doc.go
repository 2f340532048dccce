// Package console is what the verbs of the command share towards the person at the terminal: lists and reports with
// their JSON, the progress of long work, questions, and errors that say whose mistake they are.
package console
