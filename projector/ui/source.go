package ui

import (
	"context"
	"errors"
	"time"

	"assay/ledger"
	"assay/projector/metric"
	"assay/projector/view"
)

// ErrNotFound means that a source knows nothing of what it was asked for.
var ErrNotFound = errors.New("not found")

// ErrNotServed means that it takes a service to answer, and none runs.
var ErrNotServed = errors.New("no service answers")

// Source is the ledger and what is made of it, as the pages read it. Its methods may
// run at once. None of them changes anything.
type Source interface {
	// State says how far the ledger goes and how far it is signed.
	State(ctx context.Context) (State, error)
	// Read calls fn for the stored messages from from to to; with to 0 it goes on
	// with new ones until ctx ends.
	Read(ctx context.Context, from, to ledger.Seq, fn func(ledger.Seq, []byte) error) error
	// Prove is the file of the proof that the record is under the last checkpoint.
	Prove(ctx context.Context, seq ledger.Seq) ([]byte, error)
	// Services are those that run on this host.
	Services(ctx context.Context) ([]Service, error)

	// Find is what an identifier names.
	Find(ctx context.Context, id string) (view.Found, error)
	// FindNamed is view.FindNamed.
	FindNamed(ctx context.Context, n view.Named) (view.Found, error)
	Episode(ctx context.Context, namespace, id string) (*view.Episode, error)
	// Episodes are those that view.ListEpisodesAfter lists.
	Episodes(ctx context.Context, namespace, after string, limit int) (list []view.Episode, more bool, err error)
	Weeks(ctx context.Context) ([]view.Week, error)
	Score(ctx context.Context, namespace string) (*metric.Score, error)
	// Explain is a metric with the first records behind it.
	Explain(ctx context.Context, name, namespace string, o metric.Options, limit int) (*Explained, error)
	// Waiting are the predictions that wait: ErrNotServed without a resolver.
	Waiting(ctx context.Context, which Work, after ledger.Seq, limit int) (*WorkList, error)
	// Evidence is the telemetry that a prediction was resolved by.
	Evidence(ctx context.Context, p *view.Prediction) (*Evidence, error)
}

// State is how far the ledger goes.
type State struct {
	Origin string     // what is read, in words
	Head   ledger.Seq // last stored message
	// Signed is the size of the last checkpoint that counts; beyond it nothing is
	// final. Root is what it signs and Note its text.
	Signed ledger.Seq
	Root   string
	Note   string
	// Trouble is why no checkpoint counts: none is there, its signature does not
	// hold, or witnesses are missing.
	Trouble string
	// Read is how many records this process has read and hashed, Matched the size of
	// the last checkpoint whose root they come to.
	Read, Matched ledger.Seq
	// Fault is what does not hold: records that are missing or hash to another root.
	Fault string
}

// Service is one service as its status tells.
type Service struct {
	Name    string
	Ready   bool
	Trouble []string // why it is not ready
	Facts   []Fact
}

// Fact is one line of a service's status.
type Fact struct{ Name, Text string }

// Work names a list of predictions.
type Work string

// The lists.
const (
	WorkOpen       Work = "open"
	WorkDue        Work = "due"
	WorkUnresolved Work = "unresolved"
)

// WorkList is a page of predictions that wait, as of a record.
type WorkList struct {
	Seq   ledger.Seq
	Items []Waiting
	More  bool
}

// Waiting is one of them.
type Waiting struct {
	Seq        ledger.Seq
	RecordedAt time.Time
	Namespace  string
	Principal  string
	PredID     string
	State      string
	Why        string
	WindowOpen *time.Time // nil until it is known
	WindowEnd  *time.Time
	Sources    []string // that are waited for, each with where it stands
	Reports    []ledger.Seq
}

// Explained is a metric's value with the first records behind it.
type Explained struct {
	*metric.Explanation
	Records []metric.Record
	More    bool // there are others
}

// Evidence is what a resolution rests on, as it can be drawn.
type Evidence struct {
	Open, End time.Time // the window [Open, End)
	Clauses   []Series
	// Segments are how many the resolution names, Missing how many of them are not
	// here, and Cut says that there were too many samples to draw all.
	Segments, Missing int
	Cut               bool
	// Note says what keeps the drawing from being the whole of what decided.
	Note string
}

// Series is one clause of a criterion over its samples.
type Series struct {
	Signal  string
	Labels  string // name=value, …
	Unit    string
	Test    string  // such as "max < 0.5 over [open, end)"
	Value   float64 // that the reducer is compared with
	OnValue bool    // the reducer's values are those of the samples, so that Value is a line in the drawing
	Outcome string  // true, false or unknown, as the samples here give it
	Reason  string
	Points  []Point
	Witness *Point // the sample that decided alone
}

// Point is a sample.
type Point struct {
	At    time.Time
	Value float64
}
