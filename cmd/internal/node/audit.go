package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/ledger"
	"assay/projector"
	"assay/projector/metric"
	"assay/projector/view"
)

var (
	// ErrNoWeek means that the logger closed no such week: it is not over, held
	// no record, or is of a build before weeks were closed.
	ErrNoWeek = metric.ErrNoWeek
	// ErrUnsigned means that no checkpoint that counts covers a record yet.
	ErrUnsigned = errors.New("not covered by a checkpoint yet")
)

// AuditConfig says which week's sample to draw.
type AuditConfig struct {
	Evidence  Evidence
	Week      string // such as 2026-W48; "" is the last one that was closed
	Namespace string
	// Wanted is how many cases to draw; nil draws as many as were published.
	Wanted   *metric.Wanted
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

// StoredSample is the first audit.sampled of an operator for week and namespace.
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
	f := weekFinder{week: c.Week, namespace: c.Namespace}
	if err := f.scan(ctx, c.Evidence); err != nil {
		return nil, err
	}
	if f.closed == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoWeek, c.Week)
	}
	a := &Audit{Closed: f.closed, ClosedAt: f.closedAt, Stored: f.stored}
	wanted := c.Wanted
	if wanted == nil {
		wanted = &metric.Wanted{Success: metric.DefaultWanted, Unresolved: metric.DefaultWanted, Negative: metric.DefaultWanted}
		if f.stored != nil && len(f.stored.Sampled.Strata) == 3 {
			s := f.stored.Sampled.Strata
			wanted = &metric.Wanted{Success: s[0].Wanted, Unresolved: s[1].Wanted, Negative: s[2].Wanted}
		}
	}
	_, err := Replay(ctx, FoldConfig{Evidence: c.Evidence, To: f.closed, Progress: c.Progress, Log: c.Log}, func(s *projector.State) error {
		week, err := view.GetWeek(s, f.week)
		if err != nil {
			return fmt.Errorf("week %s: %w", f.week, err)
		}
		a.Drawn, err = metric.Sample(s, week, c.Namespace, *wanted)
		return err
	})
	return a, err
}

// weekFinder looks through the ledger for what is said of a week.
type weekFinder struct {
	week, namespace string
	latest          bool // the week was not named
	closed          ledger.Seq
	closedAt        time.Time
	stored          *StoredSample
}

func (f *weekFinder) scan(ctx context.Context, e Evidence) error {
	last, err := e.Head(ctx)
	if err != nil || last == 0 {
		return err
	}
	f.latest = f.week == ""
	closing, sampled, escaped := []byte(events.TypeWeekClosed), []byte(events.TypeAuditSampled), []byte(`\u00`)
	return e.Read(ctx, 1, last, func(_ ledger.Seq, body []byte) error {
		if bytes.Contains(body, closing) || bytes.Contains(body, sampled) || bytes.Contains(body, escaped) {
			f.add(body)
		}
		return nil
	})
}

// add takes the first record of each kind. A sample comes behind the week that
// it is of, so that the last week is known when its sample is met.
func (f *weekFinder) add(body []byte) {
	r, err := ledger.ParseRecord(body)
	if err != nil {
		return // a foreign message
	}
	ev, err := events.Decode(r.Event)
	if err != nil {
		return
	}
	switch d := ev.Data.(type) {
	case *events.WeekClosed:
		switch {
		case !strings.HasPrefix(r.Principal, "logger/"):
		case f.latest && d.Week != f.week, !f.latest && d.Week == f.week && f.closed == 0:
			f.week, f.closed, f.closedAt, f.stored = d.Week, r.Seq, r.RecordedAt, nil
		}
	case *events.AuditSampled:
		if strings.HasPrefix(r.Principal, "operator/") && d.Week == f.week && d.Namespace == f.namespace && f.stored == nil && f.closed > 0 {
			f.stored = &StoredSample{r.Seq, r.Leaf().String(), r.RecordedAt, r.Principal, d}
		}
	}
}

// Event is the audit.sampled of the drawn sample by an operator. Its id follows
// from week and namespace and its bytes from the ledger, so that publishing it
// again gives the first receipt.
func (a *Audit) Event(as string) ([]byte, error) {
	component, capture := "assay audit sample", "live"
	d := *a.Drawn
	d.Context = events.Context{Component: &component, Capture: &capture, Author: &as}
	return events.Encode(&events.Event{
		ID: events.DerivedID(d.Type(), d.Week, d.Namespace).String(), Source: "urn:assay:operator", Type: d.Type(),
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
