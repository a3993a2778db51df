//go:build !race

package crash

// buildFlags are those of the binary under test.
var buildFlags []string
