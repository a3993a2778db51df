// Package witness holds the tests of assay's witness and client against an
// independent implementation of the same formats. It is a module of its own, so
// that what they need stays out of assay's; `go mod tidy -e` keeps its go.mod,
// since the tests of a dependency need a module that the proxy does not have.
package witness
