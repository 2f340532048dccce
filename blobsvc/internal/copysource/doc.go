// Package copysource copies from sources outside this process.
//
// A [Fetcher] reads a source as Azure does: with a GET, without following redirects, and only from hosts that the
// configuration allows. The operations that read their source before they answer use it directly. Copy Blob and
// Incremental Copy Blob answer before their source is read: a [Copier] completes such pending copies in the background,
// and continues them after a restart. Package state records the progress of each copy.
//
// Sources in this process are not handled by this package: package state reads or references them.
package copysource
