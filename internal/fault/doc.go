// Package fault gives names to the moments at which a program may be made to fail.
//
// Code that acts in several steps names the moment before and after each effect:
//
//	var afterCopy = fault.Declare("archive/after-copy")
//	...
//	if err := fault.Point(afterCopy); err != nil {
//		return err
//	}
//
// With no plan in force a point costs one atomic load. A test puts a [Plan] in force with [Activate]; a process that is
// started to be killed reads its plan from a text ([ParsePlan]), which its command takes from the environment variable
// [EnvVar]. A plan can return an error, wait, panic, exit, or kill its own process with SIGKILL: the last leaves no
// deferred call, flush or signal handler a chance, as a power cut or the kernel's out-of-memory killer would.
//
// [Points] lists the names that the program declares, so that a harness can visit every one of them and notices when
// a new one appears.
package fault
