package view

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"assay/events"
	"assay/internal/kv"
	"assay/ledger"
	"assay/projector"
)

// Usage is what something cost, with tokens normalised by usage_convention so
// that cached input is neither counted twice nor lost. Nil is unknown.
type Usage struct {
	InputTokens    *int64   `json:"input_tokens,omitzero"`    // all input, cached included
	CachedTokens   *int64   `json:"cached_tokens,omitzero"`   // the cached part of it
	UncachedTokens *int64   `json:"uncached_tokens,omitzero"` // the rest
	OutputTokens   *int64   `json:"output_tokens,omitzero"`
	CostUSD        *float64 `json:"cost_usd,omitzero"`
	LatencyMS      *float64 `json:"latency_ms,omitzero"`
	// Inconsistent means more cached than input tokens under a convention in
	// which input includes them; the input is then unknown.
	Inconsistent bool `json:"inconsistent,omitzero"`
}

// Conventions of usage_convention.
const (
	inputIncludesCached = "input_includes_cached"
	inputExcludesCached = "input_excludes_cached"
)

// normaliseUsage takes an event's own numbers, and field by field the context's
// cost block where they are absent.
func normaliseUsage(own *events.Tokens, convention *string, usd, latency *float64, c *events.Cost) Usage {
	var t events.Tokens
	if own != nil {
		t = *own
	}
	u := Usage{CostUSD: usd, LatencyMS: latency}
	if c != nil {
		t.Input, t.Output, t.Cached = or(t.Input, c.InputTokens), or(t.Output, c.OutputTokens), or(t.Cached, c.CachedTokens)
		u.CostUSD, u.LatencyMS = or(u.CostUSD, c.CostUSD), or(u.LatencyMS, c.LatencyMS)
	}
	u.OutputTokens, u.CachedTokens = t.Output, t.Cached
	how := deref(convention)
	if how == "" && t.Cached != nil && *t.Cached == 0 {
		how = inputIncludesCached // nothing cached: both conventions agree
	}
	switch {
	case t.Input == nil:
	case how == inputExcludesCached:
		u.UncachedTokens = t.Input
		if t.Cached != nil {
			sum := *t.Input + *t.Cached
			u.InputTokens = &sum
		}
	case how == inputIncludesCached && t.Cached != nil && *t.Cached > *t.Input:
		u.Inconsistent = true
	case how == inputIncludesCached:
		u.InputTokens = t.Input
		if t.Cached != nil {
			rest := *t.Input - *t.Cached
			u.UncachedTokens = &rest
		}
	}
	return u
}

func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// Spent is one thing that counts as usage: a message of a model, a background
// job, or a tool call that no usage.recorded tells of.
type Spent struct {
	Namespace    string     `json:"namespace"`
	EpisodeID    string     `json:"episode_id,omitzero"`
	Seq          ledger.Seq `json:"seq"` // the record that it is counted by
	RecordedAt   time.Time  `json:"recorded_at"`
	Principal    string     `json:"principal"`
	SelfReported bool       `json:"self_reported"` // known from the agent alone
	MessageID    *string    `json:"message_id,omitzero"`
	ToolCallID   string     `json:"tool_call_id,omitzero"` // of a tool call that counts for itself
	Provider     *string    `json:"provider,omitzero"`
	Model        *string    `json:"model,omitzero"`
	ModelVersion *string    `json:"model_version,omitzero"`
	Status       *string    `json:"status,omitzero"`
	// PricedAt is when it ended, or was recorded where that is unknown: the
	// date of its price.
	PricedAt     time.Time `json:"priced_at"`
	Usage        Usage     `json:"usage"`
	Attempts     *int64    `json:"attempts,omitzero"`
	LedgerWrites *int64    `json:"ledger_writes,omitzero"`
	Background   *bool     `json:"background,omitzero"`
	CPUSeconds   *float64  `json:"cpu_seconds,omitzero"`
	GPUSeconds   *float64  `json:"gpu_seconds,omitzero"`
	Witness      string    `json:"witness"` // dispatcher, hook, otlp, agent or imported: of several the best counts
	Repeats      int64     `json:"repeats"` // further records of the same usage
}

// Price is what a model's tokens cost from a date on. Prices have no namespace.
type Price struct {
	PriceID          string     `json:"price_id"`
	Seq              ledger.Seq `json:"seq"`
	RecordedAt       time.Time  `json:"recorded_at"`
	Principal        string     `json:"principal"`
	Provider         *string    `json:"provider,omitzero"` // nil: any
	Model            string     `json:"model"`
	ModelVersion     *string    `json:"model_version,omitzero"` // nil: any
	From             time.Time  `json:"from"`
	To               *time.Time `json:"to,omitzero"` // exclusive
	InputUSDPerMTok  *float64   `json:"input_usd_per_mtok,omitzero"`
	CachedUSDPerMTok *float64   `json:"cached_usd_per_mtok,omitzero"`
	OutputUSDPerMTok *float64   `json:"output_usd_per_mtok,omitzero"`
	Imported         bool       `json:"imported"` // nothing is reckoned by it
	Repeats          int64      `json:"repeats"`  // later records of the same id, without effect
}

// usages keeps what usage.recorded and price.recorded say. A usage is known by
// the message that it names, else by the tool call, else by its record. What
// tool calls say for themselves is kept with them, and joined by ListUsage.
//
//	u <namespace> m <message id> | c <tool call id> [<episode>] | r <record>   Spent
//	p <price id>                                                              Price
type usages struct{}

const (
	usageKind = "u"
	priceKind = "p"

	byMessage = "m"
	byCall    = "c"
	byRecord  = "r"
)

func (usages) Name() string { return Usages }
func (usages) Version() int { return 3 }

// Apply implements projector.Projection.
func (usages) Apply(b *projector.Batch, r *projector.Record) error {
	switch d := r.Event.Data.(type) {
	case *events.UsageRecorded:
		if role := r.Role(); role != roleDispatcher && role != roleHarness {
			return forbidden(r)
		}
		spend(b, r, d)
	case *events.PriceRecorded:
		if r.Role() != roleOperator {
			return forbidden(r)
		}
		return setPrice(b, r, d)
	}
	return nil
}

func spend(b *projector.Batch, r *projector.Record, d *events.UsageRecorded) {
	k, episode := key(usageKind, r.Namespace, byRecord, projector.SeqKey(r.Seq)), r.Event.EpisodeID
	switch call := d.Context.ToolCallID; {
	case d.MessageID != nil:
		k = key(usageKind, r.Namespace, byMessage, *d.MessageID)
	case call != nil:
		k = key(usageKind, r.Namespace, byCall, *call)
		if first, ok := projector.View[Spent](b, k); ok && !events.SameEpisode(first.EpisodeID, episode) {
			k = key(usageKind, r.Namespace, byCall, *call, episode)
		} else if ok {
			episode = cmp.Or(first.EpisodeID, episode) // which the call is known by
		}
	}
	witness := witnessOf(r)
	u, ok := projector.Edit[Spent](b, k)
	repeats := u.Repeats
	if ok {
		repeats++
		if events.WitnessRank(witness) >= events.WitnessRank(u.Witness) {
			u.Repeats = repeats
			if d.MessageID == nil {
				u.EpisodeID = episode
			}
			return
		}
	}
	addPlace(b, r.Namespace)
	*u = Spent{
		Namespace: r.Namespace, EpisodeID: episode, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal, MessageID: d.MessageID,
		Provider: d.Provider, Model: d.Model, ModelVersion: d.ModelVersion, Status: d.Status, PricedAt: r.RecordedAt,
		Usage:    normaliseUsage(d.Tokens, d.UsageConvention, d.CostUSD, d.LatencyMS, d.Context.Cost),
		Attempts: d.Attempts, LedgerWrites: d.LedgerWrites, Background: d.Background, CPUSeconds: d.CPUSeconds, GPUSeconds: d.GPUSeconds,
		Witness: witness, Repeats: repeats,
	}
	if ended, ok := events.Time(d.EndedAt); ok {
		u.PricedAt = ended.UTC()
	}
}

func setPrice(b *projector.Batch, r *projector.Record, d *events.PriceRecorded) error {
	from, ok := events.Time(&d.ValidFrom)
	if !ok {
		return fmt.Errorf("valid_from %q is no time", d.ValidFrom)
	}
	p, exists := projector.Edit[Price](b, key(priceKind, idIn(r.Namespace, d.PriceID)))
	if exists {
		p.Repeats++
		return nil
	}
	*p = Price{
		PriceID: d.PriceID, Seq: r.Seq, RecordedAt: r.RecordedAt, Principal: r.Principal,
		Provider: d.Provider, Model: d.Model, ModelVersion: d.ModelVersion, From: from.UTC(),
		InputUSDPerMTok: d.InputUSDPerMTok, CachedUSDPerMTok: d.CachedUSDPerMTok, OutputUSDPerMTok: d.OutputUSDPerMTok,
		Imported: isApart(r.Namespace),
	}
	if to, ok := events.Time(d.ValidTo); ok {
		to = to.UTC()
		p.To = &to
	}
	return nil
}

// ListPrices calls fn for all prices in the order of their ids.
func ListPrices(s *projector.State, fn func(*Price) error) error {
	return list(s, Usages, fn, priceKind)
}

// ListUsage calls fn for everything that counts as usage in a namespace: what
// usage.recorded tells, each message once, and then the tool calls whose message
// or call none of them names. A call counts by its best witness's record, and of the
// calls that name one message only the first with the best witness.
func ListUsage(s *projector.State, namespace string, fn func(*Spent) error) error {
	if err := ListTold(s, namespace, fn); err != nil {
		return err
	}
	return ListUntold(s, namespace, fn)
}

// ListTold is the part of ListUsage that usage.recorded tells.
func ListTold(s *projector.State, namespace string, fn func(*Spent) error) error {
	return list(s, Usages, fn, usageKind, namespace)
}

// ListUntold is the other part: the tool calls that none of them names.
func ListUntold(s *projector.State, namespace string, fn func(*Spent) error) error {
	told, err := hasPlace(s, Usages, namespace)
	if err != nil {
		return err
	}
	toldApart, err := hasPlace(s, Usages, namespace+importedMark)
	if err != nil {
		return err
	}
	return listCharged(s, namespace, func(t *ToolCall) error {
		if told && !isApart(t.Namespace) || toldApart && isApart(t.Namespace) {
			known, err := isTold(s, t)
			if err != nil || known {
				return err
			}
		}
		c := t.Witnessed()
		return fn(&Spent{
			Namespace: t.Namespace, EpisodeID: t.EpisodeID, Seq: c.Seq, RecordedAt: c.RecordedAt, Principal: c.Principal, SelfReported: t.Observed == nil,
			MessageID: t.MessageID, ToolCallID: t.ToolCallID, Status: &c.Status, PricedAt: c.RecordedAt, Usage: c.Usage, Witness: t.Witness,
		})
	})
}

// isTold says whether a usage.recorded names the message, or the call alone.
func isTold(s *projector.State, t *ToolCall) (bool, error) {
	ns := t.Namespace
	if t.MessageID != nil {
		_, err := projector.Load[Spent](s, Usages, key(usageKind, ns, byMessage, *t.MessageID))
		if !errors.Is(err, kv.ErrNotFound) {
			return err == nil, err
		}
	}
	u, err := projector.Load[Spent](s, Usages, key(usageKind, ns, byCall, t.ToolCallID))
	if err == nil && !events.SameEpisode(u.EpisodeID, t.EpisodeID) {
		_, err = projector.Load[Spent](s, Usages, key(usageKind, ns, byCall, t.ToolCallID, t.EpisodeID))
	}
	if errors.Is(err, kv.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Sum adds the known values; it is null when none is known, or when 64 bits do not
// hold it, and Known ÷ Total says how much it leaves out.
type Sum struct {
	Sum   *int64 `json:"sum"`
	Known int64  `json:"known"`
	Total int64  `json:"total"`
	// High · 2^32 + Low is the sum, whatever it comes to. Sums are added and taken away
	// from each other part by part; no part overflows before 2^31 values.
	High int64 `json:"-"`
	Low  int64 `json:"-"`
}

// Add counts a value; nil is unknown.
func (s *Sum) Add(v *int64) {
	s.Total++
	if v == nil {
		return
	}
	s.Known++
	s.High += *v >> 32
	s.Low += *v & math.MaxUint32
	s.Settle()
}

// Settle makes Sum of High and Low.
func (s *Sum) Settle() {
	high := s.High + s.Low>>32
	if s.Sum = nil; s.Known > 0 && high == int64(int32(high)) {
		sum := high<<32 | s.Low&math.MaxUint32
		s.Sum = &sum
	}
}

// String is the sum and how many values it is known from.
func (s Sum) String() string {
	sum := "unknown"
	if s.Sum != nil {
		sum = strconv.FormatInt(*s.Sum, 10)
	}
	return fmt.Sprintf("%s (known for %d of %d)", sum, s.Known, s.Total)
}

// EpisodeUsage sums the usage of one episode, or of what names none. Money is in
// billionths of a dollar and times are in microseconds, so that the sums are the
// same in every order and on every machine.
type EpisodeUsage struct {
	Namespace      string `json:"namespace"`
	EpisodeID      string `json:"episode_id"`
	Counted        int64  `json:"counted"`
	SelfReported   int64  `json:"self_reported"`
	Inconsistent   int64  `json:"inconsistent"`
	Background     int64  `json:"background"` // outside of any turn
	Failed         int64  `json:"failed"`     // of a known status other than ok; they count like all others
	InputTokens    Sum    `json:"input_tokens"`
	CachedTokens   Sum    `json:"cached_tokens"`
	UncachedTokens Sum    `json:"uncached_tokens"`
	OutputTokens   Sum    `json:"output_tokens"`
	Attempts       Sum    `json:"attempts"`
	LedgerWrites   Sum    `json:"ledger_writes"`
	LatencyUS      Sum    `json:"latency_us"`
	CPUUS          Sum    `json:"cpu_us"`
	GPUUS          Sum    `json:"gpu_us"`
	ChargedNanoUSD Sum    `json:"charged_nano_usd"` // as it was reported
	PricedNanoUSD  Sum    `json:"priced_nano_usd"`  // tokens at the price of their date
}

// ListEpisodeUsage calls fn for each episode of a namespace in the order of ids,
// the usage without an episode first, and then for those of what was imported.
func ListEpisodeUsage(s *projector.State, namespace string, fn func(*EpisodeUsage) error) error {
	prices, err := ReadPrices(s)
	if err != nil {
		return err
	}
	sums := map[string]*EpisodeUsage{}
	err = ListUsage(s, namespace, func(u *Spent) error {
		e := sums[key(u.Namespace, u.EpisodeID)]
		if e == nil {
			e = &EpisodeUsage{Namespace: u.Namespace, EpisodeID: u.EpisodeID}
			sums[key(u.Namespace, u.EpisodeID)] = e
		}
		e.add(u, prices.Cost(u))
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		if err := fn(sums[id]); err != nil {
			return err
		}
	}
	return nil
}

func (e *EpisodeUsage) add(u *Spent, priced *int64) {
	e.Counted++
	count(&e.SelfReported, u.SelfReported)
	count(&e.Inconsistent, u.Usage.Inconsistent)
	count(&e.Background, u.Background != nil && *u.Background)
	count(&e.Failed, u.Status != nil && *u.Status != callOK && *u.Status != callUnknown)
	e.InputTokens.Add(u.Usage.InputTokens)
	e.CachedTokens.Add(u.Usage.CachedTokens)
	e.UncachedTokens.Add(u.Usage.UncachedTokens)
	e.OutputTokens.Add(u.Usage.OutputTokens)
	e.Attempts.Add(u.Attempts)
	e.LedgerWrites.Add(u.LedgerWrites)
	e.LatencyUS.Add(u.Usage.LatencyUS())
	e.CPUUS.Add(u.CPUUS())
	e.GPUUS.Add(u.GPUUS())
	e.ChargedNanoUSD.Add(u.Usage.ChargedNanoUSD())
	e.PricedNanoUSD.Add(priced)
}

func count(n *int64, is bool) {
	if is {
		*n++
	}
}

const (
	nanoPerUSD    = 1e9
	tokensPerMTok = 1e6
	maxFixed      = 1 << 53
)

// fixed is a number in units of 1/scale. One beyond 2^53 of them is taken for
// unknown.
func fixed(v *float64, scale float64) *int64 {
	if v == nil {
		return nil
	}
	x := math.Round(*v * scale)
	if x > maxFixed {
		return nil
	}
	n := int64(x)
	return &n
}

// priceOf is the price in force for a usage, nil when there is none: that of its
// version and provider, else of its version, else of its provider, else of its
// model. Of each the latest that had begun counts, unless it had ended.
func priceOf(prices PriceList, u *Spent) *Price {
	for _, of := range [][2]*string{{u.ModelVersion, u.Provider}, {u.ModelVersion, nil}, {nil, u.Provider}, {nil, nil}} {
		var last *Price
		for i := range prices {
			p := &prices[i]
			begun := !p.From.After(u.PricedAt)
			if begun && same(&p.Model, u.Model) && same(p.ModelVersion, of[0]) && same(p.Provider, of[1]) && p.isAfter(last) {
				last = p
			}
		}
		if last != nil && (last.To == nil || u.PricedAt.Before(*last.To)) {
			return last
		}
	}
	return nil
}

func (p *Price) isAfter(q *Price) bool {
	return q == nil || cmp.Or(p.From.Compare(q.From), cmp.Compare(p.Seq, q.Seq)) > 0
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// cost is what the tokens cost in billionths of a dollar; nil where a number of
// tokens, or the price of any, is unknown.
func (p *Price) cost(u *Usage) *int64 {
	if p == nil {
		return nil
	}
	var sum int64
	for _, part := range []struct {
		tokens *int64
		price  *float64
	}{{u.UncachedTokens, p.InputUSDPerMTok}, {u.CachedTokens, p.CachedUSDPerMTok}, {u.OutputTokens, p.OutputUSDPerMTok}} {
		if part.tokens == nil {
			return nil
		}
		if *part.tokens == 0 {
			continue
		}
		perMTok := fixed(part.price, nanoPerUSD)
		if perMTok == nil {
			return nil
		}
		hi, lo := bits.Mul64(uint64(*part.tokens), uint64(*perMTok))
		if hi >= tokensPerMTok {
			return nil
		}
		nano, rest := bits.Div64(hi, lo, tokensPerMTok)
		if rest >= tokensPerMTok/2 {
			nano++
		}
		if nano > maxFixed {
			return nil
		}
		sum += int64(nano)
	}
	return &sum
}
