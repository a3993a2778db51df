package resolver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/events"
	"assay/ledger"
	"assay/resolver/criterion"
)

// ErrEvidence means that what a resolution rests on, a segment or a registry,
// cannot be read: nothing can be said of it, nor of what follows.
var ErrEvidence = errors.New("evidence cannot be read")

// ReplayConfig is what a replay reads. It knows nothing of a running resolver.
type ReplayConfig struct {
	// Read calls fn for the record bodies from from to to, both included.
	Read func(ctx context.Context, from, to ledger.Seq, fn func(seq ledger.Seq, body []byte) error) error
	// Last is the ledger's last record: what was written up to it is compared.
	Last ledger.Seq
	// To is the last record that is folded; 0 is Last.
	To ledger.Seq
	// Blobs holds segments and registries.
	Blobs Blobs
	// Registry judges what no stored event pins.
	Registry *criterion.Registry
	// Progress, unless nil, is told of each record folded.
	Progress func(done, total ledger.Seq)
}

// Replayed is how the stored resolutions and amendments compare with those that
// the ledger and its segments call for.
type Replayed struct {
	Seq         ledger.Seq   `json:"seq"` // last record folded
	Resolutions int          `json:"resolutions"`
	Amendments  int          `json:"amendments"`
	SameBytes   int          `json:"same_bytes"` // of both
	Differences []Difference `json:"differences"`
	// Others were made by another engine and are not comparable.
	Others []Stored `json:"other_engines"`
	// Pending are called for, but not written yet, and neither is anything that
	// this engine calls for at a later record: the resolver lags behind.
	Pending int `json:"pending"`
}

// Compared is how many stored events were held against recomputed ones.
func (r *Replayed) Compared() int { return r.Resolutions + r.Amendments }

// Difference is one field in which a stored event is not what the ledger calls
// for; an empty side has no such event.
type Difference struct {
	Principal  string     `json:"principal,omitzero"` // whose prediction; "" of a stored event that nothing calls for
	PredID     string     `json:"pred_id"`
	Seq        ledger.Seq `json:"seq,omitzero"` // of the stored event
	Field      string     `json:"field"`        // event, verdict, reason, digest or bytes
	Stored     string     `json:"stored"`
	Recomputed string     `json:"recomputed"`
}

// Stored names a stored event.
type Stored struct {
	PredID string     `json:"pred_id"`
	Seq    ledger.Seq `json:"seq"`
	Engine string     `json:"engine"`
}

// outcome is what of a resolution or amendment is compared.
type outcome struct {
	id, typ, predID         string
	verdict, reason, digest string
	engine                  string
	cut                     ledger.Seq
	resolver                events.ResolverIdentity
	source                  string
	sum                     ledger.Hash // of the event's bytes
}

// outcomeOf is false for an event of another type, and for one that was imported.
func outcomeOf(raw []byte) (outcome, bool) {
	ev, err := events.DecodeEnvelope(raw)
	if err != nil || ev.Type != events.TypePredictionResolved && ev.Type != events.TypePredictionResolutionAmended {
		return outcome{}, false
	}
	if ev, err = events.Decode(raw); err != nil || ev.Data.Common().IsImported() {
		return outcome{}, false
	}
	o := outcome{id: ev.ID, typ: ev.Type, source: ev.Source, sum: sha256.Sum256(raw)}
	switch d := ev.Data.(type) {
	case *events.PredictionResolved:
		o.predID, o.verdict, o.reason, o.digest = d.PredID, d.Verdict, text(d.Reason), d.Evidence.Digest
		o.engine, o.cut, o.resolver = d.Engine, ledger.Seq(d.CutSeq), d.Resolver
	case *events.PredictionResolutionAmended:
		o.predID, o.verdict, o.reason, o.digest = d.PredID, d.Verdict, text(d.Reason), d.Evidence.Digest
		o.engine, o.cut, o.resolver = d.Engine, ledger.Seq(d.CutSeq), d.Resolver
	default:
		return outcome{}, false
	}
	return o, true
}

// stored is an outcome in the ledger.
type stored struct {
	outcome
	seq  ledger.Seq
	seen bool // the replay called for it
}

// replay is a Replay under way.
type replay struct {
	cfg     ReplayConfig
	out     Replayed
	news    news
	stored  map[string]*stored
	order   []*stored  // by record
	reached ledger.Seq // last cut of what this engine stored
	missing []Emission // called for and not stored, since the last that is
}

// Replay folds the ledger again, finds each resolution and amendment by its id and
// compares verdict, reason and digest of the evidence, and then the bytes, as the
// resolver that wrote it would write them. It reads the ledger twice. The error
// is ErrBroken for records that do not follow each other, and ErrEvidence.
func Replay(ctx context.Context, cfg ReplayConfig) (Replayed, error) {
	if cfg.To == 0 || cfg.To > cfg.Last {
		cfg.To = cfg.Last
	}
	r := &replay{
		cfg: cfg, news: newNews(), stored: make(map[string]*stored),
		out: Replayed{Seq: cfg.To, Differences: []Difference{}, Others: []Stored{}},
	}
	if err := cfg.read(ctx, cfg.Last, r.learn); err != nil {
		return r.out, err
	}
	who, source := events.ResolverIdentity{Kind: byTelemetry}, DefaultSource
	if len(r.order) > 0 {
		who, source = r.order[0].resolver, r.order[0].source
	}
	_, err := cfg.fold(ctx, MachineConfig{
		Resolver: who, Source: source, Pinned: r.news.pinned,
		IsFinal: func(id string) bool { return r.stored[id] != nil && r.stored[id].engine != Engine },
	}, r.news.foreign, r.compare)
	if err != nil {
		return r.out, err
	}
	r.finish()
	return r.out, nil
}

// Fold is the machine behind the last record of cfg, built from ledger and blobs
// alone. Nothing is compared; what is final is not evaluated again.
func Fold(ctx context.Context, cfg ReplayConfig) (*Machine, error) {
	news := newNews()
	err := cfg.read(ctx, cfg.Last, func(_ ledger.Seq, body []byte) error {
		news.learn(body)
		return nil
	})
	if err != nil {
		return nil, err
	}
	cfg.To = cfg.Last
	return cfg.fold(ctx, MachineConfig{Source: DefaultSource, Pinned: news.pinned, IsFinal: news.isFinal}, news.foreign, func(Emission) error { return nil })
}

// read reads from record 1 to to.
func (c *ReplayConfig) read(ctx context.Context, to ledger.Seq, fn func(ledger.Seq, []byte) error) error {
	if to == 0 {
		return nil
	}
	return c.Read(ctx, 1, to, fn)
}

// learn collects what is stored.
func (r *replay) learn(seq ledger.Seq, body []byte) error {
	r.news.learn(body)
	rec, err := ledger.ParseRecord(body)
	if err != nil || role(rec) != "resolver" {
		return nil
	}
	if o, ok := outcomeOf(rec.Event); ok && r.stored[o.id] == nil {
		r.stored[o.id] = &stored{outcome: o, seq: seq}
		r.order = append(r.order, r.stored[o.id])
		if o.engine == Engine && o.cut > r.reached {
			r.reached = o.cut
		}
	}
	return nil
}

// fold builds a machine and hands on what it emits, checking every link.
func (c *ReplayConfig) fold(ctx context.Context, mc MachineConfig, foreign map[ledger.Seq]bool, emitted func(Emission) error) (*Machine, error) {
	mc.Registry, mc.Registries, mc.Segments = c.Registry, registriesIn(c.Blobs), BlobSegments{c.Blobs}
	m := NewMachine(mc)
	var head ledger.Hash
	var at ledger.Seq
	err := c.read(ctx, c.To, func(seq ledger.Seq, body []byte) error {
		if at++; seq != at {
			return fmt.Errorf("%w: record %d after %d", ErrBroken, seq, at-1)
		}
		rec, err := ledger.ParseRecord(body)
		if !foreign[seq] {
			switch {
			case err != nil:
				return fmt.Errorf("%w: record %d: %w", ErrBroken, seq, err)
			case rec.Seq != seq || rec.Prev != head:
				return fmt.Errorf("%w: record %d does not follow its predecessor", ErrBroken, seq)
			}
			emissions, err := m.Apply(rec)
			if err != nil {
				return fmt.Errorf("%w: record %d: %w", ErrEvidence, seq, err)
			}
			for _, e := range emissions {
				if err := emitted(e); err != nil {
					return err
				}
			}
		}
		head = ledger.Leaf(body)
		if c.Progress != nil {
			c.Progress(seq, c.To)
		}
		return nil
	})
	if err == nil && at != c.To {
		err = fmt.Errorf("%w: it ends at %d", ErrBroken, at)
	}
	return m, err
}

// compare holds an emission against the stored event of its id. What was called
// for before a stored event was written before it, for a resolver writes in
// order: it is missing. What comes after the last one may still be written.
func (r *replay) compare(e Emission) error {
	want, ok := outcomeOf(e.Event)
	if !ok {
		return nil // an arming
	}
	have := r.stored[e.ID]
	if have == nil {
		r.missing = append(r.missing, e)
		return nil
	}
	for _, e := range r.missing {
		r.lacks(e)
	}
	r.missing = nil
	have.seen = true
	if have.typ == events.TypePredictionResolved {
		r.out.Resolutions++
	} else {
		r.out.Amendments++
	}
	same := true
	for _, f := range []struct{ field, stored, recomputed string }{
		{"verdict", have.verdict, want.verdict}, {"reason", have.reason, want.reason}, {"digest", have.digest, want.digest},
	} {
		if f.stored != f.recomputed {
			same = false
			r.differ(Difference{e.Principal, e.PredID, have.seq, f.field, f.stored, f.recomputed})
		}
	}
	raw, err := writtenBy(e.Event, have.resolver, have.source)
	if err != nil {
		return err
	}
	switch {
	case sha256.Sum256(raw) == have.sum:
		r.out.SameBytes++
	case same:
		r.differ(Difference{e.Principal, e.PredID, have.seq, "bytes", have.sum.String(), hexSHA256(raw)})
	}
	return nil
}

func (r *replay) differ(d Difference) { r.out.Differences = append(r.out.Differences, d) }

// lacks says that an emission is not stored and never will be.
func (r *replay) lacks(e Emission) {
	o, _ := outcomeOf(e.Event)
	r.differ(Difference{Principal: e.Principal, PredID: e.PredID, Field: "event", Recomputed: o.typ + " " + o.verdict})
}

// finish tells what may still be written from what was left out, though something
// of a later record is stored behind the end of the fold, and looks for stored
// events that nothing called for.
func (r *replay) finish() {
	for _, e := range r.missing {
		if e.Cut < r.reached {
			r.lacks(e)
		} else {
			r.out.Pending++
		}
	}
	for _, s := range r.order {
		switch {
		case s.engine != Engine:
			r.out.Others = append(r.out.Others, Stored{PredID: s.predID, Seq: s.seq, Engine: s.engine})
		case !s.seen && s.cut <= r.cfg.To:
			r.differ(Difference{PredID: s.predID, Seq: s.seq, Field: "event", Stored: s.typ + " " + s.verdict})
		}
	}
	slices.SortStableFunc(r.out.Differences, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.PredID, b.PredID), cmp.Compare(a.Seq, b.Seq))
	})
}

// writtenBy is the event as another resolver writes it.
func writtenBy(raw []byte, who events.ResolverIdentity, source string) ([]byte, error) {
	ev, err := events.Decode(raw)
	if err != nil {
		return nil, err
	}
	ev.Source = source
	switch d := ev.Data.(type) {
	case *events.PredictionResolved:
		d.Resolver.ID, d.Resolver.Key = who.ID, who.Key
	case *events.PredictionResolutionAmended:
		d.Resolver.ID, d.Resolver.Key = who.ID, who.Key
	}
	return events.Encode(ev)
}

// registriesIn reads registries that are kept by their hash.
func registriesIn(blobs Blobs) func(sha256 string) (*criterion.Registry, error) {
	return func(sha string) (*criterion.Registry, error) {
		raw, err := blobs.Get(sha)
		if err != nil {
			return nil, err
		}
		return criterion.ParseRegistry(raw)
	}
}
