package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/events"
	"assay/ledger"
	"assay/projector/view"
)

const (
	// episodeSearch is how many records of the ledger an episode's page goes
	// through, and episodeRows how many of the episode's it shows.
	episodeSearch = 4096
	episodeRows   = 400
	// episodeThings is how many claims, experiments and predictions are looked up.
	episodeThings = 24
	// episodeDrawn is how many of its predictions are drawn there.
	episodeDrawn = 6
)

// Stages of an episode, in order.
const (
	stageOpportunity = "opportunity"
	stageClaims      = "claims"
	stageActions     = "actions"
	stagePredictions = "predictions"
	stageOutcomes    = "outcomes"
	stageOther       = "other"
)

var stages = []string{stageOpportunity, stageClaims, stageActions, stagePredictions, stageOutcomes, stageOther}

// stageOf is the stage that an event type belongs to.
func stageOf(typ string) string {
	family, _, _ := strings.Cut(typ, ".")
	switch {
	case typ == events.TypePredictionResolved || typ == events.TypePredictionResolutionAmended:
		return stageOutcomes
	case family == "opportunity":
		return stageOpportunity
	case family == "claim" || family == "hypotheses" || family == "abduction" || family == "graph":
		return stageClaims
	case family == "experiment" || family == "query" || family == "tool" || family == "canary":
		return stageActions
	case family == "prediction":
		return stagePredictions
	case family == "outcome" || family == "fix" || family == "rollback":
		return stageOutcomes
	}
	return stageOther
}

// episodeBody is what happened in an episode.
type episodeBody struct {
	*view.Episode
	Counts        []Fact
	Strip         strip
	Opportunities []view.Opportunity
	Claims        []claimStory
	Experiments   []view.Experiment
	Predictions   []predictionStory
	Rows          []Row
	Next          string     // address of the rest; "" when all was found
	Upto          ledger.Seq // last record that was looked at
	Unread        int        // things beyond episodeThings
}

// claimStory is a claim with what competed with it.
type claimStory struct {
	view.FoundClaim
	Sets []view.HypothesisSet
}

// predictionStory is a prediction and what decided it.
type predictionStory struct {
	view.FoundPrediction
	Drawing *drawing // nil when nothing was resolved, or it is on its own page
}

// things are the identifiers that an episode's records bring up, each once, in order.
type things struct {
	opportunities, claims, sets, experiments, predictions []string
}

func (t *things) note(p *parsed) {
	ev, err := events.Decode(p.rec.Event)
	if err != nil {
		return
	}
	add := func(list *[]string, id string) {
		if !slices.Contains(*list, id) {
			*list = append(*list, id)
		}
	}
	switch d := ev.Data.(type) {
	case *events.OpportunityDetected:
		add(&t.opportunities, d.OpportunityID)
	case *events.ClaimRecorded:
		add(&t.claims, d.ClaimID)
	case *events.HypothesesRecorded:
		add(&t.sets, d.SetID)
	case *events.ExperimentProposed:
		add(&t.experiments, d.ExpID)
	case *events.PredictionRecorded:
		add(&t.predictions, d.PredID)
	}
}

func (s *Server) episodePage(ctx context.Context, r *http.Request, p *page) error {
	ns, id := r.PathValue("namespace"), r.PathValue("id")
	e, err := s.source.Episode(ctx, ns, id)
	if err != nil {
		return err
	}
	b := &episodeBody{Episode: e, Counts: sortedCounts(e.Counts)}
	from := e.FirstSeq
	if text := r.URL.Query().Get("from"); text != "" {
		if from, err = seqOf(text); err != nil {
			return err
		}
	}
	var t things
	if err := s.walk(ctx, b, &t, from); err != nil {
		return err
	}
	if err := s.lookUp(ctx, b, &t); err != nil {
		return err
	}
	p.Refresh = s.drawAll(p.wait, b.Predictions)
	b.Strip = stripOf(b.Rows)
	p.Title, p.Body = "Episode", b
	return nil
}

// walk collects the episode's records, whoever wrote them and in whatever namespace:
// the resolver's stand in its own.
func (s *Server) walk(ctx context.Context, b *episodeBody, t *things, from ledger.Seq) error {
	filter, own := Filter{Episode: b.EpisodeID}, int64(0)
	b.Upto = min(b.LastSeq, from+episodeSearch-1)
	err := s.source.Read(ctx, from, b.Upto, func(seq ledger.Seq, body []byte) error {
		p, ok := filter.pick(seq, body)
		if !ok {
			return nil
		}
		b.Rows = append(b.Rows, p.row(body))
		t.note(&p)
		if p.keptIn() == b.Namespace {
			own++
		}
		if len(b.Rows) == episodeRows {
			b.Upto = seq
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if b.Upto < b.LastSeq && own < b.Records {
		b.Next = pathOf("episodes", b.Namespace, b.EpisodeID) + "?" + url.Values{"from": {strconv.FormatUint(uint64(b.Upto)+1, 10)}}.Encode()
	}
	return err
}

// lookUp finds what became of the things that the records bring up.
func (s *Server) lookUp(ctx context.Context, b *episodeBody, t *things) error {
	left := episodeThings
	first := func(ids []string) []string {
		n := min(left, len(ids))
		left -= n
		b.Unread += len(ids) - n
		return ids[:n]
	}
	f, err := s.source.FindNamed(ctx, view.Named{
		Predictions: first(t.predictions), Opportunities: first(t.opportunities), Hypotheses: first(t.sets), Claims: first(t.claims), Experiments: first(t.experiments),
	})
	if err != nil {
		return err
	}
	for _, v := range f.Predictions {
		if v.Namespace == b.Namespace {
			b.Predictions = append(b.Predictions, predictionStory{FoundPrediction: v})
		}
	}
	for _, v := range f.Claims {
		if v.Namespace == b.Namespace {
			b.Claims = append(b.Claims, claimStory{FoundClaim: v})
		}
	}
	b.Opportunities, b.Experiments = f.Opportunities, f.Experiments
	for _, set := range f.Hypotheses {
		for i := range b.Claims {
			c := &b.Claims[i]
			if set.ClaimID == nil || *set.ClaimID == c.ClaimID { // of no claim in particular: of the episode's
				c.Sets = append(c.Sets, set)
			}
		}
	}
	return nil
}

// drawAll draws the first predictions that were resolved; pending says that one of
// them is not drawn yet.
func (s *Server) drawAll(wait context.Context, list []predictionStory) (pending bool) {
	drawn := 0
	for i := range list {
		if p := &list[i]; p.Final() != nil && drawn < episodeDrawn {
			drawn++
			p.Drawing = s.draw(wait, &p.Prediction)
			pending = pending || p.Drawing == nil
		}
	}
	return pending
}

// draw is the telemetry of a resolution as a drawing, or why there is none. It is nil
// while it is made.
func (s *Server) draw(wait context.Context, p *view.Prediction) *drawing {
	key := fmt.Sprintf("evidence %d %d", p.Seq, p.Final().Seq)
	ev, ok, err := get(wait, &s.figures, key, func(ctx context.Context) (*Evidence, error) { return s.source.Evidence(ctx, p) })
	switch {
	case !ok:
		return nil
	case err != nil:
		ev = &Evidence{Note: "It cannot be drawn: " + err.Error()}
	}
	return drawingOf(ev)
}

// predictionPage is one prediction with everything that decided it.
func (s *Server) predictionPage(ctx context.Context, r *http.Request, p *page) error {
	ns, id := r.PathValue("namespace"), r.PathValue("id")
	f, err := s.source.Find(ctx, id)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(f.Predictions, func(v view.FoundPrediction) bool { return v.Namespace == ns })
	if i < 0 {
		return fmt.Errorf("%w: that is no prediction of this namespace", ErrNotFound)
	}
	b := predictionStory{FoundPrediction: f.Predictions[i]}
	if b.Final() != nil {
		b.Drawing = s.draw(p.wait, &b.Prediction)
		p.Refresh = b.Drawing == nil
	}
	p.Title, p.Body = "Prediction", &b
	return nil
}

// strip is an episode at a glance: a mark for each record, by stage and time.
type strip struct {
	Lanes      []lane
	Marks      []mark
	Width      float64
	Height     float64
	Start, End string
}

type lane struct {
	Name string
	Y    float64
}

type mark struct {
	X, Y float64
	Row
	Stage string
}

const (
	stripLeft  = 110.0
	stripRight = 16.0
	stripWidth = 760.0
	stripLane  = 26.0
)

func stripOf(rows []Row) strip {
	s := strip{Width: stripWidth, Height: stripLane*float64(len(stages)) + 26}
	for i, name := range stages {
		s.Lanes = append(s.Lanes, lane{name, stripLane * (float64(i) + 0.5)})
	}
	var times []time.Time
	for _, r := range rows {
		t, _ := time.Parse(time.RFC3339Nano, r.RecordedAt)
		times = append(times, t)
	}
	if len(times) == 0 {
		return s
	}
	first, last := times[0], times[len(times)-1]
	s.Start, s.End = shortTime(first), shortTime(last)
	span := max(last.Sub(first), time.Nanosecond)
	for i, r := range rows {
		stage := stageOf(r.Type)
		x := stripLeft + (stripWidth-stripLeft-stripRight)*float64(times[i].Sub(first))/float64(span)
		s.Marks = append(s.Marks, mark{X: x, Y: s.Lanes[slices.Index(stages, stage)].Y, Row: r, Stage: stage})
	}
	return s
}
