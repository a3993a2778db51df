// Package set makes sets of cases from a seed, writes and reads them, and checks the
// generator: its oracle by hand cases and by an independent simulation, its
// identification by adjustment and witnesses, its cases by audits for shortcuts.
//
//	public/cases.jsonl       what agents get, a record a line
//	public/blobs/<sha256>    their evidence
//	private/oracles.jsonl    what is true of them, each with its salt
//	private/recipe.json      the seed that all of it follows from
//	manifest.json            what the set is, and hashes that commit to each case
//
// public/ may be anybody's; private/ is its owner's alone (0700, files 0600).
package set

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"assay/bench/causal/item"
	"assay/bench/causal/record"
	"assay/bench/causal/world"
)

// BenchVersion is the version of the generator: the same seed and version give the
// same bytes.
const BenchVersion = "0.2.0"

// The splits.
const (
	Dev  = "dev"
	Val  = "val"
	Test = "test" // has the structures that the others do not
)

// Recipe says what to make: the same recipe gives the same set, to the byte.
type Recipe struct {
	V            int    `json:"v"`
	BenchVersion string `json:"bench_version"`
	Seed         string `json:"seed"` // any text; who can guess it knows all answers
	Split        string `json:"split"`
	Worlds       int    `json:"worlds"`
	// Topics are the families to make, all where it is empty.
	Topics []string `json:"topics,omitempty"`
	// BaseOnly leaves out the variants under other names, words and tools.
	BaseOnly bool `json:"base_only,omitzero"`
}

// MaxWorlds is the most worlds of a set, which is made in memory.
const MaxWorlds = 20_000

// Set is a set of cases.
type Set struct {
	Cases   []Case
	Blobs   map[string][]byte // by the hex SHA-256 of the bytes
	Dropped map[string]int    // items that were left out, by reason
	// Gaps are |P(y|do x) - P(y|x)| of the confounded items, those left out included.
	Gaps   []float64
	Recipe Recipe
}

// Case is a case with all that is true of it.
type Case struct {
	Public     record.PublicCase
	PublicLine []byte
	Oracle     record.PrivateOracle
	OracleLine []byte // the oracle's bytes, without the salt
	Salt       [32]byte
}

// Topics lists the families.
func Topics() []string {
	var out []string
	for _, f := range item.Families {
		out = append(out, f.Topic)
	}
	return out
}

// ErrRecipe is a recipe that no set follows from.
var ErrRecipe = errors.New("bad recipe")

// Generate makes a set. Families take turns; worlds are made side by side, and stand
// in the order of their numbers. progress is told how many are made, and may be nil.
// The errors are ErrRecipe and that of the context.
func Generate(ctx context.Context, r Recipe, progress func(done, total int64)) (*Set, error) {
	families := item.Families
	if len(r.Topics) > 0 {
		families = nil
		for _, topic := range r.Topics {
			i := slices.Index(Topics(), topic)
			if i < 0 {
				return nil, fmt.Errorf("%w: no topic is called %q: want some of %v", ErrRecipe, topic, Topics())
			}
			families = append(families, item.Families[i])
		}
	}
	switch {
	case r.Split != Dev && r.Split != Val && r.Split != Test:
		return nil, fmt.Errorf("%w: the split is %s, %s or %s, not %q", ErrRecipe, Dev, Val, Test, r.Split)
	case r.Worlds < 1 || r.Worlds > MaxWorlds:
		return nil, fmt.Errorf("%w: want 1 to %d worlds, not %d", ErrRecipe, MaxWorlds, r.Worlds)
	case r.BenchVersion != BenchVersion || r.V != record.Version:
		return nil, fmt.Errorf("%w: it is for version %s, this is %s", ErrRecipe, r.BenchVersion, BenchVersion)
	}
	seed := world.SeedOf(r.Seed)
	worlds := make([]*unit, r.Worlds)
	err := each(ctx, r.Worlds, progress, func(i int) error {
		worlds[i] = newUnit(seed, r, i, families[i%len(families)])
		return nil
	})
	if err != nil {
		return nil, err
	}
	s := &Set{Blobs: map[string][]byte{}, Dropped: map[string]int{}, Recipe: r}
	for _, u := range worlds {
		s.Cases = append(s.Cases, u.cases...)
		s.Gaps = append(s.Gaps, u.gaps...)
		for name, b := range u.blobs {
			s.Blobs[name] = b
		}
		for reason, n := range u.dropped {
			s.Dropped[reason] += n
		}
	}
	return s, nil
}

// each does work for 0 to n-1, side by side. progress may be nil. The error is that of
// the context, or one of work's.
func each(ctx context.Context, n int, progress func(done, total int64), work func(i int) error) error {
	var mu sync.Mutex
	next, done := 0, 0
	failed := ctx.Err()
	take := func() (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = ctx.Err()
		}
		if next == n || failed != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				err := work(i)
				mu.Lock()
				if done++; err != nil {
					failed = err
				} else if progress != nil {
					progress(int64(done), int64(n))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed
}

// unit is one world with its twins and variants.
type unit struct {
	seed    world.Seed
	id      string
	family  item.Family
	final   bool
	cases   []Case
	blobs   map[string][]byte
	dropped map[string]int
	gaps    []float64
}

// The variants of a case. Those of one world are no independent cases.
const (
	base        = "base"
	otherSkin   = "skin"
	renamed     = "renamed"
	paraphrased = "paraphrased"
	tools       = "tools"
)

func newUnit(seed world.Seed, r Recipe, i int, family item.Family) *unit {
	u := &unit{seed: seed.Derive(fmt.Sprintf("%s world %d", r.Split, i)), family: family, final: r.Split == Test,
		blobs: map[string][]byte{}, dropped: map[string]int{}}
	u.id = u.opaque("world")
	skin := world.Pick(u.seed.Derive("skin").Rand(), world.Skins[:len(world.Skins)-1])
	nonsense, _ := world.SkinNamed(world.Nonsense)
	items := family.Make(item.NewFrame(u.seed, u.seed.Derive(base), skin, u.final, false))
	keep := u.keep(items)
	u.add(items, keep, base, skin.Name)
	if r.BaseOnly {
		return u
	}
	// Each item under names that nothing is known about; one of them in the other ways.
	u.add(family.Make(item.NewFrame(u.seed, u.seed.Derive(otherSkin), nonsense, u.final, false)), keep, otherSkin, nonsense.Name)
	single := map[string]bool{}
	for _, it := range items {
		if keep[it.Key] && it.Case.Stage == 1 {
			single[it.Key] = true
			break
		}
	}
	u.add(family.Make(item.NewFrame(u.seed, u.seed.Derive(renamed), skin, u.final, false)), single, renamed, skin.Name)
	u.add(family.Make(item.NewFrame(u.seed, u.seed.Derive(base), skin, u.final, true)), single, paraphrased, skin.Name)
	u.add(family.Make(item.NewFrame(u.seed, u.seed.Derive(base), skin, u.final, false)), single, tools, skin.Name)
	return u
}

// opaque is an identifier that tells nothing.
func (u *unit) opaque(of string) string {
	id := u.seed.Derive("id " + of)
	return hex.EncodeToString(id[:12])
}

// keep says which items are cases, and counts the others: an item whose twin is none,
// or whose episode lacks a stage, is none either.
func (u *unit) keep(items []*item.Item) map[string]bool {
	keep := map[string]bool{}
	broken := map[string]string{}
	for _, it := range items {
		if wrong, ok := it.Oracle.Wrong["rung1"]; ok && confounded(it) {
			u.gaps = append(u.gaps, math.Abs(wrong-*it.Oracle.Value))
		}
		if r := it.Oracle.Rungs; it.Oracle.Status == record.NotIdentifiable && r != nil && r.Intervention != nil && r.Association != nil {
			u.gaps = append(u.gaps, math.Abs(*r.Intervention-*r.Association))
		}
		reason, ok := it.Check()
		keep[it.Key] = ok
		if ok {
			continue
		}
		u.dropped[reason]++
		if it.Pair != "" {
			broken["pair "+it.Pair] = "twin_dropped"
		}
		if it.Episode != "" {
			broken["episode "+it.Episode] = "stage_dropped"
		}
	}
	for again := true; again; {
		again = false
		for _, it := range items {
			reason := broken["pair "+it.Pair]
			if reason == "" {
				reason = broken["episode "+it.Episode]
			}
			if reason == "" || !keep[it.Key] {
				continue
			}
			keep[it.Key], again = false, true
			u.dropped[reason]++
			if it.Pair != "" {
				broken["pair "+it.Pair] = "twin_dropped"
			}
			if it.Episode != "" {
				broken["episode "+it.Episode] = "stage_dropped"
			}
		}
	}
	return keep
}

// confounded says whether a treatment and its outcome have a common cause, and the
// outcome is none of the treatment: what is seen is then not what is done.
func confounded(it *item.Item) bool {
	x, y := subjects(it.Case.Query)
	return it.Case.Rung == "intervention" && x != "" && y != "" && !ancestors(it.Oracle.Model)[[2]string{y, x}]
}

// add makes cases of the items that are kept.
func (u *unit) add(items []*item.Item, keep map[string]bool, variant, skin string) {
	for _, it := range items {
		if !keep[it.Key] {
			continue
		}
		c := Case{Public: it.Case, Oracle: it.Oracle}
		id := u.opaque(variant + " " + it.Key)
		p, o := &c.Public, &c.Oracle
		p.V, p.CaseID, p.WorldID, p.BenchVersion, p.Skin = record.Version, id, u.id, BenchVersion, skin
		episode := it.Episode
		if episode == "" {
			episode = it.Key
		}
		p.EpisodeID = u.opaque(variant + " episode " + episode)
		o.V, o.CaseID, o.WorldID, o.Seed, o.Variant = record.Version, id, u.id, hex.EncodeToString(u.seed[:]), variant
		if variant != base {
			o.Of = u.opaque(base + " " + it.Key)
		}
		if it.Pair != "" && (variant == base || variant == otherSkin) {
			o.Pair = &record.Pair{ID: u.opaque(variant + " pair " + it.Pair), Label: it.Label, Twin: it.Twin}
		}
		if it.CFLink != "" && keep[it.CFLink] {
			o.CFLink = u.opaque(variant + " " + it.CFLink)
		}
		u.deliver(&c, it, variant)
		o.SCMHash = hash(encode(o.Model))
		if o.Witness != nil {
			o.Hash = hash(encode(o.Witness))
		}
		c.PublicLine, c.OracleLine = encode(p), encode(o)
		c.Salt = u.seed.Derive("salt " + id)
		u.cases = append(u.cases, c)
	}
}

// toolFor is the tool that answers with a kind of evidence.
var toolFor = map[string]string{
	record.KindMechanism: "sandbox", record.KindJoint: "graph", record.KindSamples: "logs", record.KindTelemetry: "logs",
}

// deliver gives a case its evidence: as blobs, or behind tools.
func (u *unit) deliver(c *Case, it *item.Item, variant string) {
	c.Public.Evidence = []record.Evidence{}
	for i, b := range it.Blobs {
		raw := encode(b.Content)
		name := hash(raw)
		if variant == tools {
			c.Oracle.Deliveries = append(c.Oracle.Deliveries, record.Delivery{Tool: toolFor[b.Kind], Kind: b.Kind, Ref: "sha256:" + name, Content: raw})
			continue
		}
		u.blobs[name] = raw
		c.Public.Evidence = append(c.Public.Evidence, record.Evidence{ID: fmt.Sprintf("x%d", i+1), Kind: b.Kind, Ref: "sha256:" + name})
	}
	if variant == tools {
		c.Public.AllowedTools = []string{"calc", "graph", "logs", "sandbox"}
		c.Public.Assumptions = append(slices.Clone(c.Public.Assumptions), "What is known of the system is behind the tools.")
	}
}

// Committed is what case.committed says of the oracle: SHA-256(salt ‖ SHA-256(oracle)).
func (c *Case) Committed() string {
	inner := sha256.Sum256(c.OracleLine)
	return hash(append(c.Salt[:], inner[:]...))
}

// OracleHash names the oracle as case.revealed does.
func (c *Case) OracleHash() string { return hash(c.OracleLine) }

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func encode(v any) []byte {
	b, err := record.Encode(v)
	if err != nil {
		panic(fmt.Sprintf("%T: %v", v, err)) // records are numbers and text
	}
	return b
}
