// Package tabletrigger reads the change log of a table: on one instance, to put a message for each change; in order,
// to handle the changes itself; or for a copy that keeps its own position.
package tabletrigger
