package fsck

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Error is a violated invariant: data is lost, damaged or inconsistent.
	Error Severity = "error"
	// Warning is a harmless irregularity.
	Warning Severity = "warning"
	// Note is what the folder of a node of a cluster lacks, and the node gets from the other nodes: nothing is wrong.
	Note Severity = "note"
)

// Finding is one problem.
type Finding struct {
	Severity Severity `json:"severity"`
	// Where names the file, and the position in it.
	Where string `json:"where"`
	// What describes the problem.
	What string `json:"what"`
}

// String returns the finding as one line.
func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Severity, f.Where, f.What) }

// Report is the result of a check.
type Report struct {
	// Path is the data folder.
	Path string `json:"path"`
	// Node is the name of the node of a cluster whose folder it is, "" for that of a single server. The queues of a node
	// are in the cluster's streams, of which the files are checked.
	Node string `json:"node,omitempty"`
	// Shards is the number of shards, if there are several. The totals are those of all.
	Shards int `json:"shards,omitempty"`
	// Clean means that no finding is an Error.
	Clean    bool      `json:"clean"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Notes    int       `json:"notes,omitempty"`
	Findings []Finding `json:"findings"`
	// Omitted is the number of findings beyond Options.MaxFindings.
	Omitted int `json:"omitted,omitempty"`
	// Repaired describes the changes of Options.Repair, one sentence per file.
	Repaired []string `json:"repaired,omitempty"`
	// Lost describes what Options.Repair could not keep, one sentence each.
	Lost []string `json:"lost,omitempty"`

	Tables Tables `json:"tables"`
	Blobs  Blobs  `json:"blobs"`
	Queues Queues `json:"queues"`

	Took time.Duration `json:"tookNanoseconds"`
}

// Tables has totals of the Table service.
type Tables struct {
	Tables   int `json:"tables"`
	Entities int `json:"entities"`
	// Bytes is the size of the file.
	Bytes int64 `json:"bytes"`
}

// Blobs has totals of the Blob service. Bytes is the size of all extents: live bytes, dead bytes that are not yet
// reclaimed, torn bytes after the last record of an extent, and headers.
type Blobs struct {
	Containers        int64 `json:"containers"`
	DeletedContainers int64 `json:"deletedContainers"`
	Blobs             int64 `json:"blobs"`
	Snapshots         int64 `json:"snapshots"`
	Versions          int64 `json:"versions"`
	UncommittedBlocks int64 `json:"uncommittedBlocks"`
	Extents           int   `json:"extents"`
	Bytes             int64 `json:"bytes"`
	LiveBytes         int64 `json:"liveBytes"`
	DeadBytes         int64 `json:"deadBytes"`
	TornBytes         int64 `json:"tornBytes"`
	HeaderBytes       int64 `json:"headerBytes"`
	// RemoteExtents are only in the tier of content, and were not read; RemoteBytes is their size.
	RemoteExtents int   `json:"remoteExtents,omitempty"`
	RemoteBytes   int64 `json:"remoteBytes,omitempty"`
}

// add adds the totals of a shard.
func (b *Blobs) add(o *Blobs) {
	b.Containers += o.Containers
	b.DeletedContainers += o.DeletedContainers
	b.Blobs += o.Blobs
	b.Snapshots += o.Snapshots
	b.Versions += o.Versions
	b.UncommittedBlocks += o.UncommittedBlocks
	b.Extents += o.Extents
	b.Bytes += o.Bytes
	b.LiveBytes += o.LiveBytes
	b.DeadBytes += o.DeadBytes
	b.TornBytes += o.TornBytes
	b.HeaderBytes += o.HeaderBytes
	b.RemoteExtents += o.RemoteExtents
	b.RemoteBytes += o.RemoteBytes
}

// Queues has totals of the Queue service.
type Queues struct {
	Queues   int   `json:"queues"`
	Messages int   `json:"messages"`
	Bytes    int64 `json:"bytes"`
}

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	for _, f := range r.Findings {
		fmt.Fprintln(w, f)
	}
	if r.Omitted > 0 {
		fmt.Fprintf(w, "... and %d more\n", r.Omitted)
	}
	for _, what := range r.Repaired {
		fmt.Fprintf(w, "repaired: %s\n", what)
	}
	for _, what := range r.Lost {
		fmt.Fprintf(w, "lost: %s\n", what)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "folder\t%s\n", r.Path)
	if r.Shards > 1 {
		fmt.Fprintf(t, "shards\t%d\n", r.Shards)
	}
	fmt.Fprintf(t, "tables\t%d, with %d entities; %s\n", r.Tables.Tables, r.Tables.Entities, bytesText(r.Tables.Bytes))
	b := &r.Blobs
	fmt.Fprintf(t, "blobs\t%d in %d containers and %d deleted ones, %d snapshots, %d versions, %d uncommitted blocks\n",
		b.Blobs, b.Containers, b.DeletedContainers, b.Snapshots, b.Versions, b.UncommittedBlocks)
	if b.RemoteExtents > 0 {
		fmt.Fprintf(t, "in the tier\t%s in %d extents, not read\n", bytesText(b.RemoteBytes), b.RemoteExtents)
	}
	fmt.Fprintf(t, "content\t%s in %d extents: %s live, %s dead, %s torn, %s headers\n", bytesText(b.Bytes), b.Extents,
		bytesText(b.LiveBytes), bytesText(b.DeadBytes), bytesText(b.TornBytes), bytesText(b.HeaderBytes))
	if r.Node != "" {
		fmt.Fprintf(t, "node\t%s; its queues are in the cluster's streams, whose files were checked\n", r.Node)
	} else {
		fmt.Fprintf(t, "queues\t%d, with %d messages; %s\n", r.Queues.Queues, r.Queues.Messages, bytesText(r.Queues.Bytes))
	}
	fmt.Fprintf(t, "checked in\t%s\n", r.Took.Round(time.Millisecond))
	if err := t.Flush(); err != nil {
		return err
	}
	// A folder that was repaired is clean and not complete: a script must not read only the first word.
	if r.Clean && len(r.Lost) > 0 {
		_, err := fmt.Fprintf(w, "repaired, and NOT complete: %d losses, %d warnings\n", len(r.Lost), r.Warnings)
		return err
	}
	if r.Clean {
		_, err := fmt.Fprintf(w, "clean (%d warnings)\n", r.Warnings)
		return err
	}
	_, err := fmt.Fprintf(w, "NOT clean: %d errors, %d warnings\n", r.Errors, r.Warnings)
	return err
}

func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
