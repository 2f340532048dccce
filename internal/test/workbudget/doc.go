// Package workbudget lets tests and fuzz targets of parsers fail if a parser uses more processor time or memory than
// its input justifies, such as one whose work grows with the square of the input.
package workbudget
