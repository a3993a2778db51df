package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/audit"
	"assay/projector/metric"
	"assay/projector/view"
)

var (
	// ErrNoWeek means that the logger closed no such week: it is not over, held
	// no record, or is of a build before weeks were closed.
	ErrNoWeek = metric.ErrNoWeek
	// ErrUnsigned means that no checkpoint that counts covers a record yet.
	ErrUnsigned = errors.New("not covered by a checkpoint yet")
	// ErrNotSampled means that no operator published a sample of the week.
	ErrNotSampled = errors.New("nothing was sampled")
)

// AuditConfig says which week's sample to draw.
type AuditConfig struct {
	Evidence  Evidence
	Week      string // such as 2026-W48; "" is the last one that was closed
	Namespace string
	Set       string // of metric.Sets
	// Wanted is how many cases to draw of which strata; nil draws as many as were
	// published, else as many as the set has by default.
	Wanted   []metric.Wanted
	Progress func(done, total ledger.Seq)
	Log      zerolog.Logger
}

// Audit is a week's sample as the ledger up to the week's end says it must be,
// beside the one that was published.
type Audit struct {
	Drawn    *events.AuditSampled
	Closed   ledger.Seq // record that closed the week
	ClosedAt time.Time
	Stored   *StoredSample // nil when none was published
}

// StoredSample is the first audit.sampled of an operator for week, namespace and set.
type StoredSample struct {
	Seq        ledger.Seq
	Leaf       string
	RecordedAt time.Time
	Principal  string
	Sampled    *events.AuditSampled
}

// Differences names what the stored sample has otherwise; empty when it holds.
func (a *Audit) Differences() (out []string) {
	want, got := *a.Drawn, *a.Stored.Sampled
	for _, f := range []struct {
		name      string
		want, got any
	}{
		{"method", want.Method, got.Method}, {"seed", want.Seed, got.Seed}, {"closed_seq", want.ClosedSeq, got.ClosedSeq},
		{"number of strata", len(want.Strata), len(got.Strata)},
	} {
		if f.want != f.got {
			out = append(out, fmt.Sprintf("%s is %v, the ledger says %v", f.name, f.got, f.want))
		}
	}
	for i := range min(len(want.Strata), len(got.Strata)) {
		if !reflect.DeepEqual(want.Strata[i], got.Strata[i]) {
			out = append(out, fmt.Sprintf("stratum %d is %+v, the ledger says %+v", i+1, got.Strata[i], want.Strata[i]))
		}
	}
	return out
}

// DrawAudit reads the ledger for the record that closed the week and for a
// published sample, rebuilds the views up to that record, and draws. It is
// ErrNoWeek when the week was not closed.
func DrawAudit(ctx context.Context, c AuditConfig) (*Audit, error) {
	f, err := scanAudits(ctx, &c)
	if err != nil {
		return nil, err
	}
	a := &Audit{Closed: f.closed, ClosedAt: f.closedAt, Stored: f.stored(c.Set)}
	wanted := c.Wanted
	if wanted == nil {
		wanted = metric.WantedOf(c.Set)
		if a.Stored != nil {
			for i := range wanted {
				for _, st := range a.Stored.Sampled.Strata {
					if st.Stratum == wanted[i].Stratum {
						wanted[i].Cases = st.Wanted
					}
				}
			}
		}
	}
	err = c.replay(ctx, f.closed, func(s *projector.State) error {
		week, err := view.GetWeek(s, f.week)
		if err != nil {
			return fmt.Errorf("week %s: %w", f.week, err)
		}
		a.Drawn, err = metric.Sample(s, week, c.Namespace, c.Set, wanted)
		return err
	})
	return a, err
}

// replay folds the ledger up to where the week was closed.
func (c *AuditConfig) replay(ctx context.Context, closed ledger.Seq, inspect func(*projector.State) error) error {
	_, err := Replay(ctx, FoldConfig{Evidence: c.Evidence, To: closed, Progress: c.Progress, Log: c.Log}, inspect)
	return err
}

// Labels are a published sample and all labels of the ledger that may be of its cases.
type Labels struct {
	StoredSample
	// Labels are those of operators that were not imported, in the order of records,
	// each with the stratum in which the sample that it names drew the thing.
	Labels []view.Label
}

// ReadLabels reads the ledger for a published sample and its labels. It is
// ErrNotSampled when the week has no sample.
func ReadLabels(ctx context.Context, c AuditConfig) (*Labels, error) {
	f, err := scanAudits(ctx, &c)
	if err != nil {
		return nil, err
	}
	if stored := f.stored(c.Set); stored != nil {
		return &Labels{*stored, f.drawn()}, nil
	}
	return nil, fmt.Errorf("%w of the %s of %s in %s", ErrNotSampled, c.Set, f.week, c.Namespace)
}

// ReadAllLabels is ReadLabels for every set that was sampled of the week, in the order
// of metric.Sets.
func ReadAllLabels(ctx context.Context, c AuditConfig) ([]*Labels, error) {
	f, err := scanAudits(ctx, &c)
	if err != nil {
		return nil, err
	}
	var out []*Labels
	labels := f.drawn()
	for _, set := range metric.Sets() {
		if stored := f.stored(set); stored != nil {
			out = append(out, &Labels{*stored, labels})
		}
	}
	if len(out) == 0 {
		err = fmt.Errorf("%w of %s in %s", ErrNotSampled, f.week, c.Namespace)
	}
	return out, err
}

// ReadCases rebuilds the views up to where the sampled week was closed and reads the
// cases as they were known there.
func ReadCases(ctx context.Context, c AuditConfig, sample *events.AuditSampled) (cases []audit.Case, err error) {
	err = c.replay(ctx, ledger.Seq(sample.ClosedSeq), func(s *projector.State) (err error) {
		cases, err = audit.Cases(s, sample)
		return err
	})
	return cases, err
}

// auditScan looks through the ledger for what is said of weeks, samples and labels.
type auditScan struct {
	namespace string
	week      string
	latest    bool // the week was not named
	closed    ledger.Seq
	closedAt  time.Time
	over      map[string]bool // weeks that were closed
	samples   []*StoredSample // of the namespace: of a week and set the first behind its end
	labels    []view.Label
}

// scanAudits is ErrNoWeek when the week was not closed.
func scanAudits(ctx context.Context, c *AuditConfig) (*auditScan, error) {
	f := &auditScan{namespace: c.Namespace, week: c.Week, latest: c.Week == "", over: map[string]bool{}}
	last, err := c.Evidence.Head(ctx)
	if err == nil && last > 0 {
		err = f.scan(ctx, c.Evidence, last)
	}
	if err == nil && f.closed == 0 {
		err = fmt.Errorf("%w: %s", ErrNoWeek, cmp.Or(c.Week, "no week of it is over"))
	}
	return f, err
}

func (f *auditScan) scan(ctx context.Context, e Evidence, last ledger.Seq) error {
	var wanted [][]byte
	for _, typ := range []string{events.TypeWeekClosed, events.TypeAuditSampled, events.TypeAuditLabelled, events.TypeOpportunityLabelled, `\u00`} {
		wanted = append(wanted, []byte(typ))
	}
	return e.Read(ctx, 1, last, func(_ ledger.Seq, body []byte) error {
		for _, w := range wanted {
			if bytes.Contains(body, w) {
				f.add(body)
				break
			}
		}
		return nil
	})
}

// add takes the first record of each kind. What was imported is no sample, no label.
func (f *auditScan) add(body []byte) {
	r, err := ledger.ParseRecord(body)
	if err != nil {
		return // a foreign message
	}
	ev, err := events.Decode(r.Event)
	if err != nil {
		return
	}
	operator := strings.HasPrefix(r.Principal, "operator/")
	if ev.Data.Common().IsImported() {
		return
	}
	switch d := ev.Data.(type) {
	case *events.WeekClosed:
		if !strings.HasPrefix(r.Principal, "logger/") {
			return
		}
		f.over[d.Week] = true
		if f.latest && d.Week != f.week || !f.latest && d.Week == f.week && f.closed == 0 {
			f.week, f.closed, f.closedAt = d.Week, r.Seq, r.RecordedAt
		}
	case *events.AuditSampled:
		same := func(s *StoredSample) bool {
			return s.Sampled.Week == d.Week && metric.SetOf(s.Sampled) == metric.SetOf(d)
		}
		if operator && d.Namespace == f.namespace && f.over[d.Week] && !slices.ContainsFunc(f.samples, same) {
			f.samples = append(f.samples, &StoredSample{r.Seq, r.Leaf().String(), r.RecordedAt, r.Principal, d})
		}
	default:
		if l, ok := view.LabelOf(d); ok && operator {
			l.Type, l.EventID, l.Seq, l.RecordedAt, l.Principal, l.RecordedIn = ev.Type, ev.ID, r.Seq, r.RecordedAt, r.Principal, r.Namespace
			f.labels = append(f.labels, l)
		}
	}
}

// stored is the week's sample of a set; nil when none was published.
func (f *auditScan) stored(set string) *StoredSample {
	for _, s := range f.samples {
		if s.Sampled.Week == f.week && metric.SetOf(s.Sampled) == set {
			return s
		}
	}
	return nil
}

// drawn are the labels of things that a sample of the namespace drew.
func (f *auditScan) drawn() (out []view.Label) {
	for _, l := range f.labels {
		for _, s := range f.samples {
			if l.SampleSeq != nil && ledger.Seq(*l.SampleSeq) == s.Seq {
				l.DrawnStratum = view.StratumOf(s.Sampled, &l)
			}
		}
		if l.DrawnStratum != "" {
			out = append(out, l)
		}
	}
	return out
}

// Event is the audit.sampled of the drawn sample by an operator. Its id follows
// from week, namespace and set, and its bytes from the ledger, so that publishing it
// again gives the first receipt.
func (a *Audit) Event(as string) ([]byte, error) {
	component, capture := "assay audit sample", "live"
	d, parts := *a.Drawn, []string{a.Drawn.Type(), a.Drawn.Week, a.Drawn.Namespace}
	if d.Set != nil {
		parts = append(parts, *d.Set)
	}
	d.Context = events.Context{Component: &component, Capture: &capture, Author: &as}
	return events.Encode(&events.Event{
		ID: events.DerivedID(parts...).String(), Source: "urn:assay:operator", Type: d.Type(),
		Time: events.FormatTime(a.ClosedAt), DataSchema: events.DataSchema(d.Type(), 1), Version: 1, Data: &d,
	})
}

// CheckSigned is ErrUnsigned unless the checkpoint that counts on a directory
// covers the record.
func CheckSigned(dir Dir, seq ledger.Seq) error {
	policy, err := LoadPolicy(dir)
	if err != nil {
		return err
	}
	cp, err := counting(dir, policy)
	if err == nil && cp.Size < uint64(seq) {
		err = fmt.Errorf("record %d is %w (the one that counts has %d)", seq, ErrUnsigned, cp.Size)
	}
	return err
}
