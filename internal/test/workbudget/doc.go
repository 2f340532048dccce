// Package workbudget lets tests and fuzz targets of parsers fail when a parser takes more processor time or memory than its input
// justifies, as one does whose work grows with the square of the input.
package workbudget
