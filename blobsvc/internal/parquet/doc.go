// Package parquet reads columns of Parquet files. Its memory is limited whatever the file contains.
//
// # Concepts
//
// [Open] reads a file's footer: the columns, in the order of the schema, and the position of the row groups'
// descriptions. [File.Next] reads the description of one row group at a time. A [Reader] returns the values of one
// column, across row groups. Values are decoded one at a time: a reader holds one page and one dictionary.
//
// # Limits
//
// Files are not trusted. Each length in a file is checked before memory is allocated for it: lists of the
// footer against the footer's size, pages against the file, decoded values against the page. What a valid file may
// contain, such as a page of 64 MiB that compresses to a few bytes, is charged to a [Budget]. A file within all limits
// can have far more rows than bytes, since runs of one value need no space: reading it takes time, but no memory.
//
// # What it is not
//
// It does not read repeated columns, encrypted files, column indexes, Bloom filters, statistics,
// LZO, the old framing of LZ4, or bit-packed levels, which are deprecated since 2013.
//
// https://github.com/apache/parquet-format
package parquet
