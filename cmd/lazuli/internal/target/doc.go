// Package target has the flags by which a verb finds what it works on: the storage account or the task hub of a
// connection string, the admin listener of a running process, or a data folder. It also offers their names to shells.
package target
