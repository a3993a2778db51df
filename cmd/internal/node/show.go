package node

import (
	"errors"
	"fmt"

	"assay/internal/kv"
	"assay/projector"
	"assay/projector/view"
)

// Show finds what an identifier names (view.Find); ErrNotFound when the views
// know nothing of it.
func Show(s *projector.State, ref string) (view.Found, error) {
	f, err := view.Find(s, ref)
	if err == nil && f.Empty() {
		err = fmt.Errorf("%w: %q names no event, claim, prediction, experiment, opportunity, tool call, set of hypotheses, query or canary here", ErrNotFound, ref)
	}
	return f, err
}

// ShowShadow reads a claim's shadow case; ErrNotFound when there is no claim.
func ShowShadow(s *projector.State, namespace, claimID string) (*view.ShadowCase, error) {
	c, err := view.GetShadowCase(s, namespace, claimID)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, fmt.Errorf("%w: %q is no claim of %s", ErrNotFound, claimID, namespace)
	}
	return c, err
}
