// Command gen compiles the JSON Schemas of package schema to Go code that
// validates without reflection.
//
// It implements the keywords that those schemas use and no others: an unknown
// keyword, a known one where it has no meaning here, a string without
// maxLength or an array without maxItems fails the generation, so that the
// code can never check less than the schema says.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "schema", "directory of package schema")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// outputFile is what run writes in the package's directory.
const outputFile = "validate_gen.go"

func run(dir string) error {
	code, err := generate(os.DirFS(filepath.Join(dir, "json")))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, outputFile), code, 0o644)
}

// generate compiles every *.json file of the file system; the same files give
// the same bytes.
func generate(schemas fs.FS) ([]byte, error) {
	docs, err := load(schemas)
	if err != nil {
		return nil, err
	}
	g := newGenerator(docs)
	if err := g.compile(); err != nil {
		return nil, err
	}
	return g.source()
}
