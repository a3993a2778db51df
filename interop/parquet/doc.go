// Package parquet holds the tests of assay's Parquet files against the reader of
// Apache Arrow. It is a module of its own, so that what that needs stays out of
// assay's.
package parquet
