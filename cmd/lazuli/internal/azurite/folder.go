package azurite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of the services in a folder.
const (
	blobFile, queueFile, tableFile = "__azurite_db_blob__.json", "__azurite_db_queue__.json",
		"__azurite_db_table__.json"
	blobExtents, queueExtents         = "__azurite_db_blob_extent__.json", "__azurite_db_queue_extent__.json"
	blobExtentFolder, queueExtentsDir = "__blobstorage__", "__queuestorage__"
)

// Is reports whether a folder has data of Azurite.
func Is(path string) bool {
	return slices.ContainsFunc([]string{blobFile, queueFile, tableFile}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(path, name))
		return err == nil
	})
}

// Folder holds the documents of a folder of Azurite. Content stays in the extents until it is imported.
type Folder struct {
	containers []containerDoc
	blobs      []blobDoc
	blocks     []blockDoc
	queues     []queueDoc
	messages   []messageDoc
	tables     []tableDoc
	entities   map[string][]entityDoc // by tableDoc.collection
	properties map[string]map[string]json.RawMessage

	blobContent, messageText extents
}

// Open reads the documents of a folder. Azurite should not be running: it writes its files every five seconds, and when
// it ends.
func Open(path string) (*Folder, error) {
	if !Is(path) {
		return nil, fmt.Errorf("%s has no data of Azurite: there is no %s, %s or %s", path, blobFile, queueFile, tableFile)
	}
	f := &Folder{entities: map[string][]entityDoc{}, properties: map[string]map[string]json.RawMessage{}}
	var blobFiles, queueFiles []extentDoc
	for _, file := range []struct {
		name string
		read func(collection string, d *json.Decoder) error
	}{
		{blobFile, func(collection string, d *json.Decoder) error {
			switch collection {
			case "$SERVICES_COLLECTION$":
				return f.decodeProperties("blob", d)
			case "$CONTAINERS_COLLECTION$":
				return decodeTo(d, &f.containers)
			case "$BLOBS_COLLECTION$":
				return decodeTo(d, &f.blobs)
			case "$BLOCKS_COLLECTION$":
				return decodeTo(d, &f.blocks)
			}
			// Collections of releases to come are left out rather than refused: the import lists what it has imported.
			return skip(d)
		}},
		{queueFile, func(collection string, d *json.Decoder) error {
			switch collection {
			case "$SERVICES_COLLECTION$":
				return f.decodeProperties("queue", d)
			case "$QUEUES_COLLECTION$":
				return decodeTo(d, &f.queues)
			case "$MESSAGES_COLLECTION$":
				return decodeTo(d, &f.messages)
			}
			return skip(d)
		}},
		{tableFile, func(collection string, d *json.Decoder) error {
			switch collection {
			case "$SERVICES_COLLECTION$":
				return f.decodeProperties("table", d)
			case "$TABLES_COLLECTION$":
				return decodeTo(d, &f.tables)
			}
			// Each table has a collection of its own, named after account and table.
			list := f.entities[collection]
			err := decodeTo(d, &list)
			f.entities[collection] = list
			return err
		}},
		{blobExtents, func(_ string, d *json.Decoder) error { return decodeTo(d, &blobFiles) }},
		{queueExtents, func(_ string, d *json.Decoder) error { return decodeTo(d, &queueFiles) }},
	} {
		// A folder of Azurite has only the files of the services that were used.
		if err := readDatabase(path, file.name, file.read); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read %s: %w", filepath.Join(path, file.name), err)
		}
	}
	// Names of extents and their files; content is read when a blob is written.
	f.blobContent = newExtents(path, blobExtentFolder, blobFiles)
	f.messageText = newExtents(path, queueExtentsDir, queueFiles)
	return f, nil
}

// Accounts returns the names of the accounts that have something in the folder.
func (f *Folder) Accounts() []string {
	names := map[string]bool{}
	for account := range f.properties {
		names[account] = true
	}
	for _, c := range f.containers {
		names[c.Account] = true
	}
	for _, q := range f.queues {
		names[q.Account] = true
	}
	for _, t := range f.tables {
		names[t.Account] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// readDatabase reads a file of LokiJS and calls read for each collection, with the decoder at the list of its
// documents.
func readDatabase(path, name string, read func(collection string, d *json.Decoder) error) error {
	file, err := os.OpenInRoot(path, name)
	if err != nil {
		return err
	}
	defer file.Close()
	d := json.NewDecoder(file)
	return members(d, func(key string) error {
		if key != "collections" {
			return skip(d)
		}
		return elements(d, func() error {
			collection := ""
			return members(d, func(key string) error {
				switch key {
				case "name": // comes before the documents
					return d.Decode(&collection)
				case "data":
					if collection == "" {
						return errors.New("a collection has no name before its data")
					}
					if err := read(collection, d); err != nil {
						return fmt.Errorf("collection %s: %w", collection, err)
					}
					return nil
				}
				return skip(d)
			})
		})
	})
}

// members calls f for each member of the object that follows; f reads the value.
func members(d *json.Decoder, f func(key string) error) error {
	return nested(d, '{', func() error {
		key, err := d.Token()
		if err != nil {
			return err
		}
		text, ok := key.(string)
		if !ok {
			return fmt.Errorf("%v is no name of a member", key)
		}
		return f(text)
	})
}

// elements calls f for each element of the array that follows; f reads it.
func elements(d *json.Decoder, f func() error) error { return nested(d, '[', f) }

func nested(d *json.Decoder, open json.Delim, f func() error) error {
	t, err := d.Token()
	if err != nil {
		return whole(err)
	}
	if t != open {
		return fmt.Errorf("%v at byte %d, want %v", t, d.InputOffset(), open)
	}
	for d.More() {
		if err := f(); err != nil {
			return whole(err)
		}
	}
	_, err = d.Token()
	return whole(err)
}

// whole replaces the error for the end of the file within a value.
func whole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends early: start Azurite on the folder and stop it, or restore the file from a copy")
	}
	return err
}

func skip(d *json.Decoder) error {
	var ignored json.RawMessage
	return d.Decode(&ignored)
}

// decodeTo appends the documents of a collection to list.
func decodeTo[T any](d *json.Decoder, list *[]T) error {
	return elements(d, func() error {
		var doc T
		if err := d.Decode(&doc); err != nil {
			return err
		}
		*list = append(*list, doc)
		return nil
	})
}

// decodeProperties reads the properties of a service by account.
func (f *Folder) decodeProperties(service string, d *json.Decoder) error {
	var list []json.RawMessage
	if err := decodeTo(d, &list); err != nil {
		return err
	}
	for _, text := range list {
		var of struct {
			Account string `json:"accountName"`
		}
		if err := json.Unmarshal(text, &of); err != nil {
			return err
		}
		if f.properties[of.Account] == nil {
			f.properties[of.Account] = map[string]json.RawMessage{}
		}
		f.properties[of.Account][service] = text
	}
	return nil
}

// extents are the files with content of a service. The folder may come from a stranger: a link that leads out of root
// is an error.
type extents struct {
	root, folder string
	paths        map[string]string // by identifier
}

func newExtents(root, folder string, list []extentDoc) extents {
	x := extents{root, folder, map[string]string{}}
	for _, e := range list {
		x.paths[e.ID] = e.Path
	}
	return x
}

// zeros is the identifier of an extent that has zeros only.
const zeros = "*ZERO*"

// open returns the content of a chunk and what closes it.
func (x extents) open(c chunk) (*io.SectionReader, io.Closer, error) {
	path, ok := x.paths[c.ID]
	if !ok {
		path = c.ID
	}
	if path != filepath.Base(path) || strings.HasPrefix(path, "..") {
		return nil, nil, fmt.Errorf("the extent's file has the name %q", path)
	}
	file, err := os.OpenInRoot(x.root, filepath.Join(x.folder, path))
	if err != nil {
		return nil, nil, err
	}
	st, err := file.Stat()
	if err == nil && (c.Offset < 0 || c.Count < 0 || c.Offset+c.Count > st.Size()) {
		err = fmt.Errorf("%s has %d bytes, and the content is %d bytes from %d", file.Name(), st.Size(), c.Count, c.Offset)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return io.NewSectionReader(file, c.Offset, c.Count), file, nil
}
