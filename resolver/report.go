package resolver

import (
	"fmt"
	"slices"
	"strings"

	"assay/events"
	"assay/ledger"
)

// report is an operator's word on a prediction. It is no instrument: it counts
// only where telemetry leaves the prediction unknown.
type report struct {
	seq     ledger.Seq
	leaf    ledger.Hash
	who     string
	verdict string
	kind    string // byOperator or bySandbox
}

// report takes an outcome that names a prediction. While that is open the report
// waits; a void prediction stays void. Of several reports of one verdict the
// first counts, so that there are two at most.
func (m *Machine) report(rec ledger.Record, d *events.OutcomeRecorded, c cut) error {
	if d.PredID == nil || d.PredPrincipal == nil || d.Verdict == nil || rec.Principal == *d.PredPrincipal {
		return nil
	}
	key := predKey{*d.PredPrincipal, *d.PredID}
	p := m.preds[key]
	if p == nil {
		if n, ok := m.past.find(key); ok {
			p = m.past.get(n)
		}
	}
	if p == nil || slices.ContainsFunc(p.reports, func(r report) bool { return r.verdict == *d.Verdict }) {
		return nil
	}
	r := report{rec.Seq, rec.Leaf(), rec.Principal, *d.Verdict, byOperator}
	if d.Source == "sandbox" {
		r.kind = bySandbox
	}
	p.reports = append(p.reports, r)
	if p.state != Settled {
		return nil
	}
	if err := m.applyReports(p, c); err != nil {
		return err
	}
	m.past.put(p)
	return nil
}

// reported is what the reports come to: two that contradict each other leave the
// prediction unresolved.
func (p *prediction) reported() ruling {
	if len(p.reports) > 1 {
		return ruling{Unresolved, "sources_conflict", byOperator}
	}
	return ruling{verdict: p.reports[0].verdict, kind: p.reports[0].kind}
}

// applyReports amends a settled prediction by what was reported, unless telemetry
// has decided it.
func (m *Machine) applyReports(p *prediction, c cut) error {
	if len(p.reports) == 0 || p.ruling.kind == byTelemetry && p.ruling.verdict != Unresolved {
		return nil
	}
	if now := p.reported(); now != p.ruling {
		return m.amendByReport(p, c, now)
	}
	return nil
}

// reportEvidence names the records of the reports, and digests them as
// "outcome <leaf>\n" each.
func (p *prediction) reportEvidence() events.ResolutionEvidence {
	ev := events.ResolutionEvidence{Refs: []string{}}
	var digest, summary strings.Builder
	for i, r := range p.reports {
		ev.Outcomes = append(ev.Outcomes, uint64(r.seq))
		fmt.Fprintf(&digest, "outcome %s\n", r.leaf)
		if i > 0 {
			summary.WriteString("; ")
		}
		fmt.Fprintf(&summary, "%s reported %s in record %d", r.who, r.verdict, r.seq)
	}
	ev.Digest, ev.Summary = hexSHA256([]byte(digest.String())), summary.String()
	return ev
}
