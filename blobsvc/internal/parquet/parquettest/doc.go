// Package parquettest tests package parquet with files that another implementation writes. The tests are in a folder of
// their own because `go mod tidy` of a program also downloads what the tests of the imported packages need: here 42 MB
// for each program that imports lazulitest.
package parquettest
