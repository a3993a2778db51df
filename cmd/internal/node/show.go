package node

import (
	"fmt"

	"assay/projector"
	"assay/projector/view"
)

// Show finds what an event, claim, prediction, experiment, opportunity or tool
// call id names; ErrNotFound when the views know nothing of it.
func Show(s *projector.State, ref string) (view.Found, error) {
	f, err := view.Find(s, ref)
	if err == nil && f.Empty() {
		err = fmt.Errorf("%w: %q names no event, claim, prediction, experiment, opportunity or tool call here", ErrNotFound, ref)
	}
	return f, err
}
