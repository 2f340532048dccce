// Package nodeproc runs the nodes of a cluster as child processes, for verbs that kill them on purpose.
package nodeproc
