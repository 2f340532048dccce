package peering

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// Formats are versions of the format in which nodes exchange and replicate data.
type Formats struct{ Oldest, Newest int }

// Supported are the formats that this program understands. It writes that of the cluster ([Site.Format]), which rises
// by decision alone ([Site.Raise]): until then each node can go back to the release before.
//
//	1  the first one
//	2  a cluster may be a converted one; other clusters do not need it
//	3  logs may have holds, for which the writes of all nodes wait
//	4  records of logs may name a predecessor whose place was not known when they were written
//	5  nodes may have a fence ([Config.Fence]), which a release before does not compare
//	6  a copy of a shard may move to another node, with records in the log of its blobs
//	7  a cluster whose nodes have a part of the shards may get further nodes, and lose nodes
//	8  such a cluster may replace a node that is lost, without its help
//
// Only tests change the variable, before anything else, to act as another release.
var Supported = Formats{Oldest: 1, Newest: 8}

// ConvertedFormat is the first format that knows converted clusters.
const ConvertedFormat = 2

// HoldFormat is the first format in which logs may have holds.
const HoldFormat = 3

// FlightFormat is the first format in which a node may append to a log before the append before that is acknowledged.
const FlightFormat = 4

// FenceFormat is the first format in which every node compares [Config.Fence].
const FenceFormat = 5

// MoveFormat is the first format in which a copy of a shard can move.
const MoveFormat = 6

// JoinFormat is the first format in which nodes join and leave a cluster whose nodes have a part of the shards: a
// release before refuses a layout with other nodes.
const JoinFormat = 7

// LostFormat is the first format in which a node may be lost ([Layout.Lost]): a release before would wait for it, and
// take it back.
const LostFormat = 8

// Hello holds what a node says about itself when it connects to another one.
type Hello struct {
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	Process     string `json:"process"` // random for each process
	Cluster     string `json:"cluster"`
	State       State  `json:"state"` // when the process started
	// Format is the newest format that the program understands, and Oldest the format of its cluster, which others have
	// to understand.
	Format int `json:"format"`
	Oldest int `json:"oldest"`
	// Shards is the number of shards of its folder; 0 is one.
	Shards int `json:"shards,omitempty"`
	// Fence is [Config.Fence] of the node.
	Fence string `json:"fence,omitempty"`
	// Members has the incarnations that the node accepts, by name.
	Members map[string]string `json:"members,omitempty"`
	// Removed has the incarnations that it refuses because they were removed, by name, at most maxRemoved of each, the
	// last one last.
	Removed map[string][]string `json:"removed,omitempty"`
}

// maxRemoved bounds the number of removed incarnations of a node in a Hello.
const maxRemoved = 8

// maxHello bounds the length of an encoded Hello.
const maxHello = 8 << 10

// encode returns the hello as text without special characters.
func (h *Hello) encode() string {
	text, err := json.Marshal(h)
	if err != nil {
		panic("peering: a hello cannot be encoded: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

var errNoHello = errors.New("it is not a Lazuli node")

// decodeHello parses what [Hello.encode] returns.
func decodeHello(text string) (Hello, error) {
	var h Hello
	if len(text) > maxHello {
		return h, errNoHello
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return h, errNoHello
	}
	if !validName().MatchString(h.Node) || h.Incarnation == "" || h.Cluster == "" {
		return h, errNoHello
	}
	return h, nil
}

// compareFences returns an error if a node that connects asks something else before it acknowledges a write: it could
// acknowledge one with the majority of this cluster.
func compareFences(have, own string) error {
	switch {
	case have == own:
		return nil
	case own == "":
		return errors.New("it has archive-fence, and this node has not: set archive-fence and the same archive on all nodes")
	case have == "":
		return errors.New("it has no archive-fence, and this node has: set archive-fence and the same archive on all nodes")
	}
	return errors.New("it has archive-fence with another archive: set the same archive on all nodes, by the same name")
}

// checkFormats returns an error if this program does not understand what the other node writes, or the other one does
// not understand own, the format that this node writes.
func (h *Hello) checkFormats(own int) error {
	switch {
	case h.Oldest > Supported.Newest:
		return fmt.Errorf("it needs format %d of the cluster's data or newer, and this program supports formats up to %d: "+
			"update this node", h.Oldest, Supported.Newest)
	case h.Format < own:
		return fmt.Errorf("it supports formats of the cluster's data up to %d, and this cluster needs %d or newer: update "+
			"that node", h.Format, own)
	}
	return nil
}
