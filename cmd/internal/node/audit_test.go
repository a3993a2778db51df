package node

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"assay/events"
	"assay/events/eventstest"
	"assay/events/publish"
	"assay/ledger"
	"assay/ledger/logger"
	"assay/projector/ledgertest"
	"assay/projector/metric"
	"assay/schema"
)

// auditBook is a ledger with two closed weeks, each with successes.
func auditBook() *ledgertest.Ledger {
	l := ledgertest.New()
	for week, id := range []string{"2026-W39", "2026-W40"} {
		start := l.Now()
		for i := range 15 {
			claim := fmt.Sprintf("claim-%d-%d", week, i)
			l.Put("agent/piper", "production", &events.ClaimRecorded{ClaimID: claim, Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: "x"}})
			l.Put("operator/op", "production", &events.FixRechecked{ClaimID: claim, Result: "confirmed", Source: "instrument", Direct: true})
		}
		l.Put("agent/piper", "production", &events.WeekClosed{Week: id, Zone: "UTC", Start: events.FormatTime(start), End: events.FormatTime(l.Now())}) // forged
		l.Put("logger/main", "production", &events.WeekClosed{Week: id, Zone: "UTC", Start: events.FormatTime(start), End: events.FormatTime(l.Now())})
	}
	return l
}

func draw(t *testing.T, l *ledgertest.Ledger, week string, wanted []metric.Wanted) *Audit {
	t.Helper()
	a, err := DrawAudit(t.Context(), AuditConfig{Evidence: bookEvidence{l}, Week: week, Namespace: "production", Set: metric.SetOutcomes, Wanted: wanted, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestDrawAudit(t *testing.T) {
	l := auditBook()
	for _, week := range []string{"2026-W38", "2026-W41"} {
		_, err := DrawAudit(t.Context(), AuditConfig{Evidence: bookEvidence{l}, Week: week, Namespace: "production", Set: metric.SetOutcomes})
		if !errors.Is(err, ErrNoWeek) {
			t.Errorf("%s: %v", week, err)
		}
	}
	if _, err := DrawAudit(t.Context(), AuditConfig{Evidence: bookEvidence{ledgertest.New()}, Namespace: "production", Set: metric.SetOutcomes}); !errors.Is(err, ErrNoWeek) {
		t.Errorf("an empty ledger: %v", err)
	}
	last, first := draw(t, l, "", nil), draw(t, l, "2026-W39", nil)
	if last.Drawn.Week != "2026-W40" || last.Closed != 64 || first.Closed != 32 || first.Stored != nil {
		t.Errorf("%+v, %+v", last, first)
	}
	for _, a := range []*Audit{last, first} {
		if s := a.Drawn.Strata[0]; s.Population != 15 || len(s.Cases) != 10 || s.Wanted != 10 {
			t.Errorf("%+v", s)
		}
	}
	raw, err := first.Event("operator/main")
	if err != nil {
		t.Fatal(err)
	}
	if _, fault := schema.Check(raw); fault != nil {
		t.Fatalf("%v in %s", fault, raw)
	}
	if again, err := draw(t, l, "2026-W39", nil).Event("operator/main"); err != nil || !bytes.Equal(raw, again) {
		t.Errorf("drawn again\n%s\nfirst\n%s", again, raw)
	}
}

func TestAuditIsComparedWithTheFirst(t *testing.T) {
	wanted := []metric.Wanted{{Stratum: "apparent_success", Cases: 3}, {Stratum: "unresolved", Cases: 1}, {Stratum: "detector_negative", Cases: 1}}
	for _, c := range []struct {
		name string
		put  func(l *ledgertest.Ledger, event string)
		want string // "" for a match, "-" for nothing to compare
	}{
		{"published", func(l *ledgertest.Ledger, event string) { l.PutEvent("operator/main", "production", []byte(event)) }, ""},
		{"by another operator", func(l *ledgertest.Ledger, event string) {
			l.PutEvent("operator/two", "production", []byte(event))
		}, ""},
		{"in other letters", func(l *ledgertest.Ledger, event string) {
			l.PutEvent("operator/main", "production", []byte(strings.Replace(event, `"type":"audit.sampled"`, `"type":"audit\u002esampled"`, 1)))
		}, ""},
		{"by an agent", func(l *ledgertest.Ledger, event string) { l.PutEvent("agent/piper", "production", []byte(event)) }, "-"},
		{"of another namespace", func(l *ledgertest.Ledger, event string) {
			l.PutEvent("operator/main", "production", []byte(strings.Replace(event, `"namespace":"production"`, `"namespace":"shadow"`, 1)))
		}, "-"},
		{"another population", func(l *ledgertest.Ledger, event string) {
			l.PutEvent("operator/main", "production", []byte(strings.Replace(event, `"population":15`, `"population":3`, 1)))
			l.PutEvent("operator/main", "production", []byte(event)) // comes too late
		}, "stratum 1 is"},
		{"another case", func(l *ledgertest.Ledger, event string) {
			l.PutEvent("operator/main", "production", []byte(strings.Replace(event, `"id":"claim-0-`, `"id":"claim-1-`, 1)))
		}, "stratum 1 is"},
		{"another seed", func(l *ledgertest.Ledger, event string) {
			i := strings.Index(event, `"seed":"`) + len(`"seed":"`)
			l.PutEvent("operator/main", "production", []byte(event[:i]+strings.Repeat("0", 64)+event[i+64:]))
		}, "seed is 000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := auditBook()
			event, err := draw(t, l, "2026-W39", wanted).Event("operator/main")
			if err != nil {
				t.Fatal(err)
			}
			c.put(l, string(event))
			a := draw(t, l, "2026-W39", nil) // as many as were published
			if a.Stored == nil {
				if c.want != "-" {
					t.Fatal("it was not found")
				}
				return
			}
			d := strings.Join(a.Differences(), "; ")
			if c.want == "-" || (d == "") != (c.want == "") || !strings.HasPrefix(d, c.want) {
				t.Errorf("%q, want %q", d, c.want)
			}
			if c.want == "" && len(a.Drawn.Strata[0].Cases) != 3 {
				t.Errorf("%+v", a.Drawn.Strata[0])
			}
		})
	}
}

// TestReadLabels: labels count if an operator wrote them here and a sample that followed
// its week drew the thing, whichever week's it was.
func TestReadLabels(t *testing.T) {
	l := ledgertest.New()
	imported := events.Context{Capture: ledgertest.Ptr("imported")}
	put := func(ctx events.Context, week string, ids ...string) uint64 {
		st := events.AuditStratum{Stratum: "edge"}
		for _, id := range ids {
			st.Cases = append(st.Cases, events.AuditCase{Kind: "edge", ID: id, Seq: 1})
		}
		return uint64(l.Put("operator/main", "production", &events.AuditSampled{Context: ctx, Week: week, Namespace: "production", Set: ledgertest.Ptr("edges"), Method: metric.SampleMethod, Strata: []events.AuditStratum{st}}))
	}
	sample := func(week string, ids ...string) uint64 { return put(events.Context{}, week, ids...) }
	label := func(who, id string, sample uint64, ctx events.Context) {
		l.Put(who, "production", &events.AuditLabelled{Context: ctx, Kind: "edge", ID: id, Rater: who, SampleSeq: &sample})
	}
	closeWeek := func(week string) {
		l.Put("logger/main", "production", &events.WeekClosed{Week: week, Zone: "UTC", Start: events.FormatTime(l.Now()), End: events.FormatTime(l.Now())})
	}
	early := sample("2026-W40", "a")
	closeWeek("2026-W39")
	first := sample("2026-W39", "a", "b")
	closeWeek("2026-W40")
	config := AuditConfig{Evidence: bookEvidence{l}, Namespace: "production", Set: metric.SetEdges}
	if _, err := ReadLabels(t.Context(), config); !errors.Is(err, ErrNotSampled) {
		t.Errorf("sampled before the week was over: %v", err)
	}
	if _, err := ReadAllLabels(t.Context(), config); !errors.Is(err, ErrNotSampled) {
		t.Error(err)
	}
	elsewhere := put(imported, "2026-W40", "a", "e")
	if _, err := ReadLabels(t.Context(), config); !errors.Is(err, ErrNotSampled) {
		t.Errorf("what was imported is a sample: %v", err)
	}
	second := sample("2026-W40", "b", "c")
	sample("2026-W40", "d") // the first counts
	label("operator/ann", "b", first, events.Context{})
	label("operator/ann", "c", second, events.Context{})
	label("operator/bob", "a", early, events.Context{})
	label("operator/bob", "d", second, events.Context{}) // was not drawn
	label("operator/bob", "e", elsewhere, events.Context{})
	label("operator/bob", "b", second, imported)
	label("agent/piper", "b", second, events.Context{})
	got, err := ReadLabels(t.Context(), config)
	if err != nil || uint64(got.Seq) != second {
		t.Fatalf("%+v, %v", got, err)
	}
	var found []string
	for _, v := range got.Labels {
		found = append(found, v.Principal+" "+v.ID+" "+v.DrawnStratum)
	}
	if want := "operator/ann b edge, operator/ann c edge"; strings.Join(found, ", ") != want {
		t.Errorf("%v, want %s", found, want)
	}
	if all, err := ReadAllLabels(t.Context(), config); err != nil || len(all) != 1 || all[0].Seq != got.Seq {
		t.Errorf("%+v, %v", all, err)
	}
	config.Week = "2026-W39"
	if got, err := ReadLabels(t.Context(), config); err != nil || uint64(got.Seq) != first {
		t.Errorf("%+v, %v", got, err)
	}
}

// pastClock is the host's clock some time ago.
type pastClock struct {
	logger.Clock
	ago time.Duration
}

func (c pastClock) Wall() time.Time { return c.Clock.Wall().Add(-c.ago) }

// inThePast opens a ledger and lets do publish to it, some time ago.
func inThePast(t *testing.T, dir Dir, offline string, ago time.Duration, do func(hub *Hub)) {
	t.Helper()
	clock := pastClock{logger.SystemClock(), ago}
	if _, err := Init(t.Context(), InitConfig{
		Dir: dir, OfflineDir: offline, Origin: "example.com/log", WeekZone: "Europe/Berlin", Clock: clock, Software: "test", Log: zerolog.Nop(),
	}); err != nil {
		t.Fatal(err)
	}
	u, err := StartUp(t.Context(), UpConfig{Dir: dir, Software: "test", Clock: clock, Seal: time.Hour, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	do(u.Hub)
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
}

func publishAs(t *testing.T, hub *Hub, who string, raw []byte) publish.Receipt {
	t.Helper()
	nc, err := hub.Connect(userOf(who))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	r, err := publish.New(nc, who).Publish(t.Context(), raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return r
}

// TestAuditAcrossAWeekWithoutALogger: the logger stopped within a week and
// starts in a later one. It closes that week before anything else; the sample
// is drawn by that record's leaf, published once, and holds.
func TestAuditAcrossAWeekWithoutALogger(t *testing.T) {
	dir, offline := Dir(filepath.Join(t.TempDir(), "ledger")), t.TempDir()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().In(berlin)
	wednesday := time.Date(now.Year(), now.Month(), now.Day()-14-(int(now.Weekday())+4)%7, 12, 0, 0, 0, berlin)
	ago := now.Sub(wednesday)
	inThePast(t, dir, offline, ago, func(hub *Hub) {
		for i := range 12 {
			claim := fmt.Sprint("claim-", i)
			publishAs(t, hub, "agent/piper", eventstest.Encode(t, &events.ClaimRecorded{ClaimID: claim, Status: "asserted", Proposition: &events.Proposition{Variable: "v", Value: "x"}}))
			publishAs(t, hub, "operator/main", eventstest.Encode(t, &events.FixRechecked{ClaimID: claim, Result: "confirmed", Source: "instrument", Direct: true}))
		}
	})
	u, err := StartUp(t.Context(), UpConfig{Dir: dir, Software: "test", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := u.Stop(); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "week.closed is signed", func() bool { return CheckSigned(dir, 27) == nil })
	if err := CheckSigned(dir, 1<<40); !errors.Is(err, ErrUnsigned) {
		t.Errorf("a record that there is not: %v", err)
	}
	e, err := OpenEvidence(t.Context(), EvidenceConfig{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	again := func() *Audit {
		t.Helper()
		a, err := DrawAudit(t.Context(), AuditConfig{Evidence: e, Namespace: "production", Set: metric.SetOutcomes, Log: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := again()
	// ledger.opened, logger.started, 24 events, week.closed, logger.started.
	if a.Closed != 27 || a.Stored != nil || len(a.Drawn.Strata[0].Cases) != 10 || a.Drawn.Strata[0].Population != 12 {
		t.Fatalf("%+v of %+v", a, a.Drawn)
	}
	year, week := wednesday.ISOWeek()
	if want := fmt.Sprintf("%d-W%02d", year, week); a.Drawn.Week != want {
		t.Errorf("closed is %s, want %s", a.Drawn.Week, want)
	}
	var leaf string
	err = e.Read(t.Context(), a.Closed, a.Closed, func(_ ledger.Seq, body []byte) error {
		leaf = ledger.Leaf(body).String()
		return nil
	})
	if err != nil || leaf != a.Drawn.Seed {
		t.Errorf("the seed is %s, the leaf %s, %v", a.Drawn.Seed, leaf, err)
	}
	raw, err := a.Event("operator/main")
	if err != nil {
		t.Fatal(err)
	}
	receipt := publishAs(t, u.Hub, "operator/main", raw)
	if b := again(); b.Stored == nil || uint64(b.Stored.Seq) != *receipt.Seq || len(b.Differences()) > 0 {
		t.Errorf("%+v", b)
	}
	twice, err := again().Event("operator/main")
	if err != nil {
		t.Fatal(err)
	}
	if r := publishAs(t, u.Hub, "operator/main", twice); *r.Seq != *receipt.Seq {
		t.Errorf("published again at %d, first at %d", *r.Seq, *receipt.Seq)
	}
}
