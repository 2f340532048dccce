// Package patterns has the programs of docs/guide.md, one for each pattern of Azure's table design guide, in folders of their own. Each one prints what its ways
// of doing something cost, as its output.txt has it; a test compares.
package patterns
