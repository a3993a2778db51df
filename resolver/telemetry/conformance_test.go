package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/resolver/criterion"
)

// point is something that a source measured: of signal "level" and the series
// that has the label series.
type point struct {
	series string
	at     time.Time
	value  float64
}

// rig is an adapter with a foreign source that the test plays. Each function
// lets the source act and the adapter take what there is, and returns what went
// wrong for whichever side would notice.
type rig struct {
	adapter Adapter
	tell    func(points ...point) error // the source has these too, and tells of all that it has not told
	retell  func() error                // the source tells again what it told last
	beat    func() error                // the source shows life
	fail    func() error                // the source cannot be read, or cannot deliver
	garble  func() error                // the source says what is not in its format
	flood   func() error                // the source says more than the limit
}

// conformer makes rigs of one kind.
type conformer struct {
	name      string
	stateless bool // it keeps no cursor
	open      func(t *testing.T, world *world, cur Cursor, out Sink) (*rig, error)
}

func (c conformer) mustOpen(t *testing.T, w *world, cur Cursor, out Sink) *rig {
	t.Helper()
	r, err := c.open(t, w, cur, out)
	mustDo(t, err)
	return r
}

// world is what a source has beside its adapter: it outlives the adapter.
type world struct {
	now     time.Time
	prom    *fakePrometheus
	journal []testEntry
	told    []point // that the journal has
}

func (w *world) clock() time.Time { return w.now }

// conformers are the adapters that the suite holds to one behaviour.
var conformers = []conformer{prometheusConformer, alertmanagerConformer, journaldConformer, otlpConformer}

// recorder is a Sink that keeps what it is sent, as the buffer would.
type recorder struct {
	mu      sync.Mutex
	samples []Sample
	err     error // of the next Send
}

func (r *recorder) Send(_ context.Context, samples []Sample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.err; err != nil {
		r.err = nil
		return err
	}
	batches, err := encodeBatches(samples)
	if err != nil {
		return err
	}
	for _, b := range batches { // what the ingress would refuse must not be sent
		got, err := ParseBatch("s", b)
		if err != nil {
			return err
		}
		r.samples = append(r.samples, got...)
	}
	return nil
}

// of are the samples of a signal, sorted, repeats left out.
func (r *recorder) of(signal string) []Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Sample
	for _, s := range r.samples {
		if s.Signal == signal {
			out = append(out, s)
		}
	}
	compare := func(a, b Sample) int { return criterion.Compare(&a, &b) }
	slices.SortFunc(out, compare)
	return slices.CompactFunc(out, func(a, b Sample) bool { return compare(a, b) == 0 })
}

// checkIdentities fails when one identity has two contents.
func (r *recorder) checkIdentities(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	first := map[string]Sample{}
	for _, s := range r.samples {
		id := fmt.Sprintf("%s/%d", s.Stream, s.Seq)
		if was, ok := first[id]; ok && criterion.Compare(&was, &s) != 0 {
			t.Errorf("identity %s has two contents: %+v and %+v", id, was, s)
		}
		first[id] = s
	}
}

func (r *recorder) watermark() time.Time {
	beats := r.of("up_to")
	if len(beats) == 0 {
		return time.Time{}
	}
	return beats[len(beats)-1].Time
}

// memoryCursor is a Cursor that crashes leave alone.
type memoryCursor struct{ raw []byte }

func (c *memoryCursor) Load() ([]byte, error) { return c.raw, nil }
func (c *memoryCursor) Save(raw []byte) error { c.raw = slices.Clone(raw); return nil }

// levels makes points of series a: 1, 0, 1, 0 … every five seconds from t on.
func levels(t time.Time, n int) []point {
	out := make([]point, n)
	for i := range out {
		out[i] = point{"a", t.Add(time.Duration(5*i) * time.Second), float64((i + 1) % 2)}
	}
	return out
}

func checkPoints(t *testing.T, r *recorder, want []point) {
	t.Helper()
	got := r.of("level")
	if len(got) != len(want) {
		t.Fatalf("%d samples, want %d: %+v", len(got), len(want), got)
	}
	for i, p := range want {
		if s := got[i]; s.Labels["series"] != p.series || !s.Time.Equal(p.at) || s.Value != p.value {
			t.Errorf("sample %d: %+v, want %+v", i, s, p)
		}
	}
}

var conformanceStart = time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC)

func TestAdapters(t *testing.T) {
	for _, c := range conformers {
		t.Run(c.name, func(t *testing.T) {
			for _, tc := range []struct {
				name string
				run  func(t *testing.T, c conformer)
			}{
				{"identity is stable over re-reads", testReread},
				{"repeats change nothing", testRepeats},
				{"the order of telling changes nothing", testOrder},
				{"the watermark is the source's life alone", testWatermark},
				{"what cannot be delivered is not lost", testSinkFails},
				{"malformed input is refused and counted", testGarbled},
				{"too much is refused and counted", testFlooded},
				{"a restart goes on", testRestart},
				{"a foreign cursor is an error", testForeignCursor},
			} {
				t.Run(tc.name, func(t *testing.T) { tc.run(t, c) })
			}
		})
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	return &world{now: conformanceStart, prom: newFakePrometheus(t)}
}

func testReread(t *testing.T, c conformer) {
	w, out := newWorld(t), &recorder{}
	points := levels(conformanceStart.Add(5*time.Second), 4)
	for range 2 { // the second adapter knows nothing of the first
		rig := c.mustOpen(t, w, &memoryCursor{}, out)
		w.now = conformanceStart
		mustDo(t, rig.beat())
		mustDo(t, rig.tell(points...))
	}
	checkPoints(t, out, points)
	out.checkIdentities(t)
}

func testRepeats(t *testing.T, c conformer) {
	w, out := newWorld(t), &recorder{}
	rig := c.mustOpen(t, w, &memoryCursor{}, out)
	mustDo(t, rig.beat())
	points := levels(conformanceStart.Add(5*time.Second), 2)
	mustDo(t, rig.tell(points...))
	mustDo(t, rig.retell())
	mustDo(t, rig.retell())
	checkPoints(t, out, points)
	out.checkIdentities(t)
}

func testOrder(t *testing.T, c conformer) {
	w, out := newWorld(t), &recorder{}
	rig := c.mustOpen(t, w, &memoryCursor{}, out)
	mustDo(t, rig.beat())
	points := levels(conformanceStart.Add(5*time.Second), 4)
	for i := range points {
		points[i].value = 1 // what began and its end are told in order
	}
	reversed := slices.Clone(points)
	slices.Reverse(reversed)
	mustDo(t, rig.tell(reversed...))
	checkPoints(t, out, points)
	out.checkIdentities(t)
}

func testWatermark(t *testing.T, c conformer) {
	w, out := newWorld(t), &recorder{}
	rig := c.mustOpen(t, w, &memoryCursor{}, out)
	mustDo(t, rig.beat())
	first := out.watermark()
	if first.IsZero() || first.After(w.now) {
		t.Fatalf("watermark %v at %v", first, w.now)
	}
	w.now = w.now.Add(time.Minute)
	if err := rig.fail(); err == nil {
		t.Error("the failure was not noticed")
	}
	if got := out.watermark(); !got.Equal(first) {
		t.Errorf("a source that fails moved its watermark from %v to %v", first, got)
	}
	mustDo(t, rig.beat())
	second := out.watermark()
	if !second.After(first) || second.After(w.now) {
		t.Errorf("watermark %v at %v, want after %v", second, w.now, first)
	}
	if got := rig.adapter.Stats(); !got.UpTo.Equal(second) {
		t.Errorf("the stats say up to %v, want %v", got.UpTo, second)
	}
}

func testSinkFails(t *testing.T, c conformer) {
	w, out := newWorld(t), &recorder{}
	cur := &memoryCursor{}
	rig := c.mustOpen(t, w, cur, out)
	mustDo(t, rig.beat())
	points := levels(conformanceStart.Add(5*time.Second), 2)
	before := out.watermark()
	out.err = errors.New("no broker")
	if err := rig.tell(points...); err == nil {
		t.Error("the source was told that all is well")
	}
	if got := out.watermark(); !got.Equal(before) {
		t.Errorf("watermark %v without the samples", got)
	}
	mustDo(t, rig.retell())
	checkPoints(t, out, points)
	out.checkIdentities(t)
}

func testGarbled(t *testing.T, c conformer) {
	w, out := newWorld(t), &recorder{}
	rig := c.mustOpen(t, w, &memoryCursor{}, out)
	mustDo(t, rig.beat())
	before := len(out.samples)
	if err := rig.garble(); err == nil {
		t.Error("it was not refused")
	}
	if st := rig.adapter.Stats(); st.Refused+st.Failed != 1 || len(out.samples) != before {
		t.Errorf("%+v, %d samples more", st, len(out.samples)-before)
	}
	points := levels(conformanceStart.Add(5*time.Second), 2)
	mustDo(t, rig.tell(points...))
	checkPoints(t, out, points)
}

func testFlooded(t *testing.T, c conformer) {
	w, out := newWorld(t), &recorder{}
	rig := c.mustOpen(t, w, &memoryCursor{}, out)
	mustDo(t, rig.beat())
	before := len(out.samples)
	if err := rig.flood(); err == nil {
		t.Error("it was not refused")
	}
	if st := rig.adapter.Stats(); st.Refused == 0 || len(out.samples) != before {
		t.Errorf("%+v, %d samples more", st, len(out.samples)-before)
	}
}

func testRestart(t *testing.T, c conformer) {
	w, out, cur := newWorld(t), &recorder{}, &memoryCursor{}
	points := levels(conformanceStart.Add(5*time.Second), 6)
	rig := c.mustOpen(t, w, cur, out)
	mustDo(t, rig.beat())
	mustDo(t, rig.tell(points[:3]...))
	rig = c.mustOpen(t, w, cur, out)
	mustDo(t, rig.tell(points[3:]...))
	checkPoints(t, out, points)
	out.checkIdentities(t)
}

func testForeignCursor(t *testing.T, c conformer) {
	if c.stateless {
		return
	}
	w := newWorld(t)
	for _, raw := range []string{"x", `{"v":2}`, `{"v":1,"other":1}`} {
		_, err := c.open(t, w, &memoryCursor{[]byte(raw)}, &recorder{})
		if err == nil {
			t.Fatalf("cursor %s was taken", raw)
		}
		if msg := err.Error(); !strings.Contains(msg, "; without it ") || strings.Contains(msg, "nil") {
			t.Errorf("cursor %s: %v", raw, err)
		}
	}
}
