package metric

import "assay/projector"

// Stale counts the pages of a namespace that may add something else than is kept,
// and all of them; false where nothing is kept.
func Stale(s *projector.State, namespace string) (stale, all int, ok bool, err error) {
	r, err := readingOf(s, namespace)
	if err != nil {
		return 0, 0, false, err
	}
	b, err := openBooks(r)
	if err != nil || b == nil {
		return 0, 0, false, err
	}
	for _, l := range listings(units()) {
		some, _, err := b.stale(l)
		if err != nil {
			return 0, 0, false, err
		}
		each, err := l.Pages(s, b.namespace)
		if err != nil {
			return 0, 0, false, err
		}
		stale, all = stale+len(some), all+len(each)
	}
	return stale, all, true, nil
}

// Afresh is Compute without what is kept.
func Afresh(s *projector.State, namespace string) (*Score, error) {
	r, err := readingOf(s, namespace)
	if err != nil {
		return nil, err
	}
	var total sums
	if err := addScore(r, &total); err != nil {
		return nil, err
	}
	return r.score(&total)
}

// KeepAll is Keep for namespaces of any size.
func KeepAll(k *projector.Keeping) error { return keeper{units: units(), least: 1}.keep(k) }
