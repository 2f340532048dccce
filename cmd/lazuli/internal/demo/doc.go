// Package demo shows the built-in roles and patterns at work on real records while their process is killed under them,
// and checks afterwards that no record was lost.
//
// Package eventual is one demonstration. It loads records into a table of its own, asks for the old ones to be archived
// through a queue, and runs the worker as a process of its own, which a fault plan kills with SIGKILL at a named step.
// Then it starts the worker again, lets it finish, and takes a [rig.Census] of both tables: every record must be in
// exactly one, the right one, with its content unchanged. It does so for every step in turn.
//
// A pattern is a package below, which says how its items are loaded, worked on and counted, with the mistakes that a
// program without the pattern makes: eventual, index, large, logdata, outbox, search, lake, orders, and design for
// those that need no role. What they have in common is beside them: package rig runs the rounds, package lesson the
// class with the mistakes, package story tells what happens to one item. Here are the lists of all, and the tests,
// which run the workers of all patterns from one binary.
//
// The demonstration itself is on trial too: its tests run it with a worker that does the steps in the wrong order, and
// demand that it notices.
package demo
