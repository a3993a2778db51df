package detector

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"assay/events"
	"assay/internal/durable"
	"assay/internal/versioned"
)

const (
	// batchTurns is how many turns a batch has at most: so many ids of turns fit into an
	// event.
	batchTurns = 256
	saltSize   = 32

	pendingVersion = 1
)

// Config says where a Teller keeps what it knows, and where it tells of turns.
type Config struct {
	Detector *Detector
	// Dir is the directory of the state; one Teller holds it. It has
	//
	//	salt     32 random bytes, made once
	//	seen     the ids of the turns that were told of, 16 bytes each
	//	pending  the events of the batch that is under way, with its ids
	//
	// and no text of a turn.
	Dir string
	// Author is who tells, such as detector/main.
	Author string
	// Publish sends an event and returns once it stands in the ledger. The same bytes
	// may be sent again. ErrTold says that the ledger has other bytes of its id.
	Publish func(ctx context.Context, event []byte) error
	// Keep is given each turn that was judged, with its id in the ledger; nil keeps none.
	Keep func(id string, turn Turn) error
	// Now is the clock for turns without a time; nil is time.Now.
	Now func() time.Time
	// Random makes the salt; nil is crypto/rand.
	Random io.Reader
}

// ErrTold means that an event was told before in other bytes, as by a Teller that has
// lost its state: the first ones stand.
var ErrTold = errors.New("the ledger has this event in other bytes")

// Teller judges turns and tells the ledger of them: opportunity.detected for each that
// holds one, and for each batch and component a detector.scanned, without which nobody
// knows how many turns held none, nor whose. A turn is told of once, by the version that
// saw it first: ids follow from episode and turn, and what was told is kept.
//
// A batch's events are on disk before the first of them is sent; after a crash the same
// bytes are sent again, and the ledger's ids make that harmless. A Teller that met an
// error is of no more use: the next one goes on where it stopped.
type Teller struct {
	Config
	maker events.Maker
	lock  *durable.Lock
	salt  []byte
	seen  map[uuid.UUID]bool
	file  *os.File // seen
	batch batch
	// Counts since the start: turns judged, passed over as seen before or as nobody's
	// own words, opportunities among them, and events sent.
	Scanned, Known, Unscanned, Opportunities, Sent int64
}

// batch is what was judged since the last one.
type batch struct {
	turns         []uuid.UUID
	opportunities []jsontext.Value
	scans         []*scan // one a component, in the order in which they spoke first
}

// scan is what the next detector.scanned of a component counts. It names one stratum
// alone, so that each turn in it is known to be of that component.
type scan struct {
	component string
	turns     []uuid.UUID
	positive  int64
	negative  []string  // ids
	last      time.Time // of the last turn that has one
}

// pending is a batch on its way.
type pending struct {
	V      int              `json:"v"`
	Turns  []uuid.UUID      `json:"turns"`
	Events []jsontext.Value `json:"events"`
}

// Open takes the state up; durable.ErrLocked when another Teller has it.
func Open(c Config) (t *Teller, err error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	t = &Teller{Config: c, maker: events.Maker{Source: "urn:assay:detect:" + c.Author, Now: c.Now}, seen: map[uuid.UUID]bool{}}
	if t.lock, err = durable.TryLock(t.path("lock")); err != nil {
		return nil, err
	}
	if err := errors.Join(t.loadSalt(), t.loadSeen()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Teller) path(name string) string { return filepath.Join(t.Dir, name) }

// Close gives the state up. What was not flushed is forgotten, and judged again next time.
func (t *Teller) Close() error {
	err := t.lock.Unlock()
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
	}
	return err
}

func (t *Teller) loadSalt() (err error) {
	t.salt, err = os.ReadFile(t.path("salt"))
	if errors.Is(err, fs.ErrNotExist) {
		t.salt = make([]byte, saltSize)
		if _, err := io.ReadFull(t.Random, t.salt); err != nil {
			return err
		}
		return durable.CreateFile(t.path("salt"), t.salt, 0o600)
	}
	if err == nil && len(t.salt) != saltSize {
		err = fmt.Errorf("%s has %d bytes, not %d", t.path("salt"), len(t.salt), saltSize)
	}
	return err
}

// loadSeen reads the ids of turns that were told of. What a crash left of an id at the
// end of the file is cut off: its batch is still pending.
func (t *Teller) loadSeen() (err error) {
	if t.file, err = os.OpenFile(t.path("seen"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	raw, err := io.ReadAll(t.file)
	if err != nil {
		return err
	}
	whole := len(raw) - len(raw)%len(uuid.UUID{})
	for id := range slices.Chunk(raw[:whole], len(uuid.UUID{})) {
		t.seen[uuid.UUID(id)] = true
	}
	if err := t.file.Truncate(int64(whole)); err != nil {
		return err
	}
	_, err = t.file.Seek(int64(whole), io.SeekStart)
	return err
}

// Resume sends what a crash or an error left of a batch, and comes before the first Add.
func (t *Teller) Resume(ctx context.Context) error {
	raw, err := os.ReadFile(t.path("pending"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var p pending
	if err := versioned.Decode(raw, pendingVersion, &p); err != nil {
		return fmt.Errorf("%s: %w", t.path("pending"), err)
	}
	return t.send(ctx, &p)
}

// TurnID is the id of a turn: it follows from episode and id of the turn alone, and from
// who sent it.
func TurnID(turn Turn) uuid.UUID {
	return events.DerivedID("detector turn", turn.source, turn.Episode, turn.ID)
}

// Told is what became of a turn.
type Told struct {
	Verdict
	// ID is what the ledger calls the turn: an opportunity_id, or a turn id of
	// detector.scanned.
	ID string
	// Known means that the turn was told of before, and Unscanned that it is nobody's
	// own words; there is no verdict then.
	Known, Unscanned bool
}

// Name is what the ledger calls a turn with a verdict.
func Name(turn Turn, opportunity bool) string {
	if opportunity {
		return "opp-" + TurnID(turn).String()
	}
	return "turn-" + TurnID(turn).String()
}

// Add judges a turn; a full batch is sent.
func (t *Teller) Add(ctx context.Context, turn Turn) (Told, error) {
	role, err := turn.check()
	if err != nil {
		return Told{}, err
	}
	if role == RoleTool || strings.TrimSpace(turn.Text) == "" {
		t.Unscanned++
		return Told{Unscanned: true}, nil
	}
	id := TurnID(turn)
	if t.seen[id] {
		t.Known++
		return Told{Known: true}, nil
	}
	component := turn.Component
	if component == "" {
		component = role.String()
	}
	if len(t.batch.turns) >= batchTurns {
		if err := t.Flush(ctx); err != nil {
			return Told{}, err
		}
	}
	told := Told{Verdict: t.Detector.Judge(role, turn.Text)}
	told.ID = Name(turn, told.Opportunity)
	if told.Opportunity {
		event, err := t.opportunity(turn, component, &told)
		if err != nil {
			return Told{}, err
		}
		t.batch.opportunities = append(t.batch.opportunities, event)
	}
	if t.Keep != nil {
		if err := t.Keep(told.ID, turn); err != nil {
			return Told{}, err
		}
	}
	t.count(id, component, &turn, &told)
	return told, nil
}

// count adds a turn to the batch, in the scan of its component.
func (t *Teller) count(id uuid.UUID, component string, turn *Turn, told *Told) {
	t.Scanned++
	t.seen[id] = true
	b := &t.batch
	b.turns = append(b.turns, id)
	i := slices.IndexFunc(b.scans, func(s *scan) bool { return s.component == component })
	if i < 0 {
		i = len(b.scans)
		b.scans = append(b.scans, &scan{component: component})
	}
	s := b.scans[i]
	s.turns = append(s.turns, id)
	if at, err := turn.at(); err == nil && !at.IsZero() {
		s.last = at
	}
	if told.Opportunity {
		t.Opportunities++
		s.positive++
		return
	}
	s.negative = append(s.negative, told.ID)
}

func (t *Teller) context() events.Context {
	component, capture := "assay detect", "live"
	return events.Context{Component: &component, Capture: &capture, Author: &t.Author}
}

// opportunity is the event of a turn that holds one.
func (t *Teller) opportunity(turn Turn, component string, told *Told) ([]byte, error) {
	score := float64(told.Score) / 1e6
	at, err := turn.at()
	if err != nil {
		return nil, err
	}
	return t.event(at, turn.Episode, &events.OpportunityDetected{
		Context: t.context(), OpportunityID: told.ID, Kind: told.Kind, Component: component,
		DetectorVersion: t.Detector.Version(), TextSpanHash: t.spanHash(turn, told.Verdict), Score: &score,
	}, "opportunity", t.Detector.Version(), told.ID)
}

// spanHash is the keyed hash of the sentence that a verdict rests on. The key is the
// salt: without it no guess of the text can be tried, and once it is erased nobody can.
func (t *Teller) spanHash(turn Turn, v Verdict) string {
	h := hmac.New(sha256.New, t.salt)
	id := TurnID(turn)
	h.Write(id[:])
	io.WriteString(h, turn.Text[v.Start:v.End])
	return hex.EncodeToString(h.Sum(nil))
}

// scanned is the event of a scan.
func (t *Teller) scanned(s *scan) ([]byte, error) {
	turns, negative := int64(len(s.turns)), int64(len(s.negative))
	parts := []string{"scan", t.Detector.Version()}
	for _, id := range s.turns {
		parts = append(parts, id.String())
	}
	return t.event(s.last, "", &events.DetectorScanned{
		Context: t.context(), DetectorVersion: t.Detector.Version(), Turns: turns, Positive: s.positive, Negative: negative, NegativeTurnIDs: s.negative,
		Strata: []events.ScannedStratum{{Stratum: s.component, Turns: turns, Positive: s.positive, Negative: negative}},
	}, parts...)
}

// event encodes an event of the time at, or of now where that is zero. Its id follows
// from the parts.
func (t *Teller) event(at time.Time, episode string, data events.Payload, parts ...string) ([]byte, error) {
	ev, err := t.maker.New(data)
	if err != nil {
		return nil, err
	}
	if !at.IsZero() {
		ev.Time = events.FormatTime(at)
	}
	ev.ID, ev.EpisodeID = events.DerivedID(parts...).String(), episode
	return events.Encode(ev)
}

// events are those of the batch.
func (t *Teller) events() ([]jsontext.Value, error) {
	out := t.batch.opportunities
	for _, s := range t.batch.scans {
		event, err := t.scanned(s)
		if err != nil {
			return nil, err
		}
		out = append(out, event)
	}
	return out, nil
}

// Flush sends what was judged since the last batch.
func (t *Teller) Flush(ctx context.Context) error {
	if len(t.batch.turns) == 0 {
		return nil
	}
	told, err := t.events()
	if err != nil {
		return err
	}
	p := &pending{V: pendingVersion, Turns: t.batch.turns, Events: told}
	raw, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return err
	}
	if err := durable.WriteFile(t.path("pending"), raw, 0o600); err != nil {
		return err
	}
	t.batch = batch{}
	return t.send(ctx, p)
}

// send delivers a batch and notes its turns as told of.
func (t *Teller) send(ctx context.Context, p *pending) error {
	for _, event := range p.Events {
		switch err := t.Publish(ctx, event); {
		case errors.Is(err, ErrTold):
		case err != nil:
			return err
		default:
			t.Sent++
		}
	}
	var ids []byte
	for _, id := range p.Turns {
		ids = append(ids, id[:]...)
		t.seen[id] = true
	}
	if _, err := t.file.Write(ids); err != nil {
		return err
	}
	if err := t.file.Sync(); err != nil {
		return err
	}
	if err := os.Remove(t.path("pending")); err != nil {
		return err
	}
	return durable.SyncDir(t.Dir)
}
