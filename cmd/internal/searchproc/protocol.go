package searchproc

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/lazuli-storage/lazuli/workers/follow"
)

// Program is the name of the program that has the index.
const Program = "lazuli-search"

// Settings are the first line that the program reads from its standard input, in JSON.
type Settings struct {
	// Version is the version of this process, which must be the program's.
	Version string
	// Token authorizes callers of the program, and the program at Tables.
	Token string
	// Folder has the index. Table and Fields say what it indexes, in the form of searchindex.ParseFields; without them
	// the stored index is opened.
	Folder, Table, Fields string
	// Tables is an address that forwards to the account's tables; or ConnectionString names the account. Without either,
	// the index answers searches alone.
	Tables, ConnectionString string
	// Wait limits the wait for a folder that is in use.
	Wait time.Duration
	// Faults is a plan in the form of package fault.
	Faults string
}

// Started is the line that the program writes to its standard output, in JSON, when it serves or has failed.
type Started struct {
	// Address has the host and port that it listens on.
	Address string `json:",omitempty"`
	// Error says why it does not; Kind is which error that is.
	Error string `json:",omitempty"`
	Kind  string `json:",omitempty"`
}

// The kinds of errors of a start.
const (
	KindUsage   = "usage"    // wrong settings
	KindNoIndex = "no index" // the folder has none
	KindInUse   = "in use"   // another process has the folder open
)

// Errors of [Open].
var (
	// ErrProgram means that the program is not installed, or is one of another version.
	ErrProgram = errors.New("the program " + Program + " is missing")
	// ErrSettings means that the table, the fields or the folder are wrong.
	ErrSettings = errors.New("wrong settings of the index")
	// ErrNoIndex means that the folder has no index.
	ErrNoIndex = errors.New("the folder has no index")
	// ErrEnded means that the program ended while it was started.
	ErrEnded = errors.New("the program ended")
	// ErrInUse means that another process has the folder open.
	ErrInUse = errors.New("the folder of the index is in use")
)

// Step has the changes that POST /apply stores in one transaction.
type Step struct {
	Changes  []Change
	Progress follow.Progress
}

// Change is the state of an entity after a change: its JSON, or nothing if it was deleted.
type Change struct {
	PartitionKey, RowKey string
	Entity               json.RawMessage `json:",omitempty"`
}

// Repaired is the answer to POST /repair.
type Repaired struct{ Documents int }

// Failure is the body of an answer with another status than 200.
type Failure struct {
	Error string `json:"error"`
	// Restarted means follow.ErrRestarted.
	Restarted bool `json:"restarted,omitempty"`
}
