// Package searchproc starts the program lazuli-search, which has an index of the search-index role, and talks to it.
// So the libraries of the index are in a program of their own, for those who search, and damaged files of an index
// cannot end the server.
//
// The role runs in the process that starts the program: it follows the table, and passes what changed. The program
// reads its [Settings] from standard input, answers with [Started] on standard output, and then serves HTTP on a
// loopback address, to callers with the token of the settings:
//
//	GET  /progress  the follow.Progress of the index
//	POST /restart   begins a new index, with a follow.Progress
//	POST /apply     a Step
//	POST /build, /update (a tables.Key), /repair: the methods of searchapi.Keeper
//	GET  /search, /search/verify, POST /search/rebuild: as searchindex.NewHandler
//
// It ends when its standard input ends, as it does when this process is killed. If the program ends, the next call
// starts it again.
package searchproc
