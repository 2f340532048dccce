// Package patterns has the programs of docs/patterns.md, one folder for each pattern of Azure's table design guide.
// Each one prints what its ways of doing something cost, as its output.txt has it; a test compares.
package patterns
