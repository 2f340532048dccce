// Package chaos tests a Lazuli server by killing it under load, again and again, and comparing what it kept with a
// model: the body of `lazuli chaos`.
//
// # Model
//
// Each client owns its keys: a partition of a table, a container, a queue. It sends one request at a time, so its model
// of them is exact. Clients also write keys that all of them share, for which any value is right that no acknowledged
// later write replaced. A request that was in progress when the process died has happened or not; both are right, and
// the model then adopts what the server has.
//
// # Rounds
//
// A round starts the server on the data folder, compares everything with the model, applies load for a random time, and
// ends the process: by SIGKILL, by SIGTERM, or stopped for a moment and then killed. Some processes are killed while
// they start. From time to time `lazuli fsck` checks a copy of the folder. With damage, bits of copies are flipped as
// well: a server on such a copy may refuse to start or answer an error; what it answers otherwise is what was written,
// or fsck finds the damage.
//
// # Limits
//
// A killed process leaves to the operating system what it wrote, synced or not, so a missing sync is not found here:
// crash images in the tests of the storage packages do that. The seed repeats the choices of a run, not the moments at
// which a process is killed.
package chaos
