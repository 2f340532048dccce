// Package searchindex is the role that keeps a full-text index in step with a table, as Azure's table design guide does
// with Azure Search. It searches with words, phrases, ranges and facets, which the Table service cannot do. The index
// is made by bleve, in a local folder.
//
//	index, err := searchindex.Open(searchindex.Config{
//		Storage: storage, Table: "Employees", Folder: "employees-index",
//		Fields:  []searchindex.Field{{Name: "Name", Type: searchindex.Text}, {Name: "Town", Type: searchindex.Keyword}},
//	})
//	index.Register(app, "search-index")           // on Lazuli, by the table's changes
//	index.RegisterQueue(app, "search-index-keys") // elsewhere: a program puts a Message for each entity that it changes
//	result, err := index.Search(ctx, searchindex.Query{Text: `+Name:ada -Town:London`, Highlight: true})
//
// [FieldsOf] takes the fields from the tags of a struct. [NewHandler] serves searches over HTTP.
//
// # Correctness
//
// The index is a copy of the table's data. The folder belongs to one process at a time, which locks it.
//
// With [Index.Register], each batch of changes is written together with the position in the table's change log that it
// reaches, in one atomic and durable write. So the index always contains exactly the changes up to its position, and
// continues from there after a crash.
//
// With [Index.RegisterQueue], a message has an entity's key. Messages of one batch are handled together: the role reads
// the entities as they are now, then writes them. One batch is written at a time, so a late or repeated message cannot
// bring back an old state. A program puts the message before it changes the entity, with a delay, so that it is not
// lost if the program stops in between. [Index.Repair] corrects what other programs changed without a message.
//
// # Rebuilding
//
// A new index is made beside the current one, from a reading of the whole table, which continues where it was
// interrupted. It replaces the current one when it is complete; until then, searches use the current one. This happens
// when the fields or the table of the folder change, when the change log no longer has the index's position (after one
// week or one million changes), when the table was created again, when the stored index cannot be opened, and after
// [Index.Rebuild].
package searchindex
