// Package demo shows the built-in roles at work on real records while their process is killed under them, and checks
// afterwards that no record was lost.
//
// [Archive] is one demonstration. It loads records into a table of its own, asks for the old ones to be archived
// through a queue, and runs the worker as a process of its own, which a fault plan kills with SIGKILL at a named step.
// Then it starts the worker again, lets it finish, and takes a [census] of both tables: every record must be in exactly
// one, the right one, with its content unchanged. It does so for every step in turn.
//
// The demonstration itself is on trial too: its tests run it with a worker that does the steps in the wrong order, and
// demand that it notices.
package demo
