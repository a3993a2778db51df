package metric

import (
	"assay/projector"
	"assay/projector/view"
)

// Values computes metrics, without the records behind them, in the order of names; of
// the whole catalogue if there are none. Errors are those of Explain.
func Values(s *projector.State, namespace string, o Options, names ...string) ([]*Explanation, error) {
	if len(names) == 0 {
		for _, m := range Catalogue() {
			names = append(names, m.Name)
		}
	}
	out, common := make([]*Explanation, 0, len(names)), &shared{}
	for _, name := range names {
		e, err := explain(s, name, namespace, o, nil, common)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// RunsOf lists the runs whose cases count in a namespace, as those of arms do, by
// their manifests; what was imported is none of them.
func RunsOf(s *projector.State, namespace string) (all []view.Run, err error) {
	p, err := passOf(s, namespace)
	if err != nil {
		return nil, err
	}
	benches, err := p.benches()
	if err != nil {
		return nil, err
	}
	for _, ns := range benches {
		err := view.ListRuns(s, ns, func(r *view.Run) error {
			if r.Started == nil {
				return nil
			}
			imported, err := p.isImported(r.Started.Seq)
			if err == nil && !imported {
				all = append(all, *r)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// RegistrationsOf lists the pre-registrations by which the arms of a namespace are
// compared, in the order of records.
func RegistrationsOf(s *projector.State, namespace string) ([]view.Preregistration, error) {
	p, err := passOf(s, namespace)
	if err != nil {
		return nil, err
	}
	return p.registrations()
}

func passOf(s *projector.State, namespace string) (*pass, error) {
	r, err := readingOf(s, namespace)
	return &pass{reading: r}, err
}
