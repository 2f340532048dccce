// Package parquet reads columns of Parquet files, in bounded memory for any content of the file.
//
// # Concepts
//
// [Open] reads a file's footer: the columns, in the order of the schema, and where the row groups are described. [File.Next] reads
// one row group's description at a time, and [Reader] hands out the values of one column, across row groups. Only what is read is
// decoded, value by value: a reader holds one page and one dictionary.
//
// # Limits
//
// Files are written by anybody. Each number in one is held against what is there before memory is taken for it: lists of the
// footer against its bytes, pages against the file, decoded values against the page. What a file may still claim honestly, such as
// a page of 64 MiB that zeros were compressed into, is counted against a [Budget]. A file within all limits can be of many more rows
// than it has bytes, since repetitions take no place: reading it takes time, but no memory.
//
// # What it is not
//
// It reads no repeated columns, nothing that is encrypted, no column indexes, Bloom filters or statistics, and neither
// LZO, nor the old framing of LZ4, nor the bit-packed levels that were given up in 2013.
//
// https://github.com/apache/parquet-format
package parquet
