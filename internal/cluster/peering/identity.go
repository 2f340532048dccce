package peering

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// identityFile is the name of the file with the identity, in Config.Dir.
const identityFile = "node.json"

// identityVersion is the version of the file's format. Files of version 1 have no checksum. A file whose table of hosts
// has changed has version movedVersion, one that knows of lost nodes lostVersion, and others identityVersion, so that
// an earlier release can read them.
const (
	identityVersion = movedVersion - 1
	movedVersion    = 3
	lostVersion     = 4
)

// State holds what a node is in its cluster.
type State string

// The states of a node, in their order.
const (
	// Founding: the node made up the cluster's ID, and has not seen a majority yet.
	Founding State = "founding"
	// Joining: the node took the cluster's ID from a peer, and has not caught up yet.
	Joining State = "joining"
	// Member: the node has been part of a majority.
	Member State = "member"
	// Fronting: the process is a front-end, which has no data and becomes nothing else.
	Fronting State = "front-end"
)

// Identity holds what a data folder says about its node.
type Identity struct {
	Version     int    `json:"version"`
	Cluster     string `json:"cluster"` // ID of the cluster; "" until the node has one
	Node        string `json:"node"`
	Incarnation string `json:"incarnation"`
	State       State  `json:"state"`
	// Members has the incarnations of the nodes that were accepted, by name.
	Members map[string]string `json:"members"`
	// Removed has the incarnations that were removed from the cluster, by name; they are not accepted again.
	Removed map[string][]string `json:"removed,omitempty"`
	// Format is the format of the cluster's data, see [Supported]. A node that joins has 0 until it knows that of a
	// member.
	Format int `json:"format,omitempty"`
	// Hosts says which nodes have a shard. It is nil where all nodes have all of them.
	Hosts *shardmap.Hosts `json:"hosts,omitempty"`
	// Layout holds the table of hosts as moves have changed it, see [Layout]; nil before the first move.
	Layout *Layout `json:"layout,omitempty"`
	// Arriving is the number of the move for which this node has begun a folder of a shard; 0 for none.
	Arriving uint64 `json:"arriving,omitempty"`
	// Seed is set on the node of a converted cluster whose folder has the data of a single server, until the logs have it.
	Seed bool `json:"seed,omitempty"`
	// Sum is the checksum of the other fields: a node must not take another state, or forget who was removed, because a
	// bit has changed.
	Sum string `json:"sum,omitempty"`
}

// sum returns the SHA-256 of all fields but Sum.
func (id Identity) sum() string {
	id.Sum = ""
	text, _ := json.Marshal(id) // texts and maps of texts
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ErrNoIdentity means that a folder does not belong to a node of a cluster.
var ErrNoIdentity = errors.New("the folder belongs to no cluster")

// ReadIdentity reads the identity from a folder. It returns [ErrNoIdentity] if the folder has none.
func ReadIdentity(dir string) (Identity, error) {
	path := filepath.Join(dir, identityFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Identity{}, ErrNoIdentity
	}
	if err != nil {
		return Identity{}, err
	}
	return parseIdentity(path, text)
}

func parseIdentity(path string, text []byte) (id Identity, err error) {
	err = json.Unmarshal(text, &id)
	whole := id.Version == 1 || id.Version > lostVersion || id.Version > 1 && id.Sum == id.sum()
	if err != nil || !whole || id.Node == "" || id.Incarnation == "" {
		return Identity{}, fmt.Errorf("%s is damaged; remove this node from the cluster with `lazuli cluster leave` on "+
			"another node, and start it with an empty folder", path)
	}
	if id.Version > lostVersion {
		return Identity{}, fmt.Errorf(
			"%s has format %d, and this program supports formats up to %d; use the newer release that wrote it", path,
			id.Version, lostVersion)
	}
	if id.Members == nil {
		id.Members = map[string]string{}
	}
	return id, nil
}

// write stores the identity durably.
func (id *Identity) write(dir string) error {
	id.Version = identityVersion
	if id.Layout != nil {
		id.Version = movedVersion
		if len(id.Layout.Lost)+len(id.Layout.Removed) > 0 {
			id.Version = lostVersion
		}
	}
	id.Sum = id.sum()
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return secretfile.Write(filepath.Join(dir, identityFile), append(text, '\n'))
}

// newToken returns a random text of n lower-case letters and digits.
func newToken(n int) string { return strings.ToLower(rand.Text()[:n]) }
