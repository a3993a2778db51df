// Command assay-hook is `assay hook CLIENT` as a program of its own: it links
// little, so that an agent waits a few milliseconds for it and not for all that
// assay can do. It always ends with 0.
package main

import (
	"os"

	"assay/cmd/internal/hooks"
)

func main() { hooks.Main(os.Args[1:], os.Stdin, os.Stderr) }
