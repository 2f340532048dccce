// Package nodebench measures clusters of several sizes, and of two programs, in turns on one machine.
//
// Nodes on one machine share its disk and its processors, and a rate says more about that than about the cluster. So
// each node has a disk of its own whose syncs all take the same time (package fusedisk), and a share of a processor,
// which the kernel enforces for the group of processes (cgroups) of which it is the only one. As long as the machine
// has as much to give, what else runs on it changes little.
//
// Where to start: [Run].
package nodebench
