package metric

import (
	"fmt"

	"assay/internal/stats"
	"assay/ledger"
	"assay/projector"
	"assay/projector/view"
)

// ReliabilityBins is into how many bins of equal width stated probabilities fall.
const ReliabilityBins = 10

// Reliability sets stated probabilities beside what happened, over the predictions
// that brier counts.
type Reliability struct {
	At        ledger.Seq       `json:"at"`
	Namespace string           `json:"namespace"`
	N         int              `json:"n"`
	Bins      []ReliabilityBin `json:"bins"` // all of them, in order
	// ECE is the mean gap between probability and frequency, weighted by N; null
	// without a prediction.
	ECE *float64 `json:"ece"`
}

// ReliabilityBin is one bin, (Low, High], the first also with 0. Its means are null
// where nothing fell into it.
type ReliabilityBin struct {
	Low       float64  `json:"low"`
	High      float64  `json:"high"`
	N         int      `json:"n"`
	Stated    *float64 `json:"stated"`    // mean probability
	Frequency *float64 `json:"frequency"` // share that was confirmed
}

// ReliabilityOf goes through the predictions of a namespace.
func ReliabilityOf(s *projector.State, namespace string) (*Reliability, error) {
	r, err := readingOf(s, namespace)
	if err != nil {
		return nil, fmt.Errorf("reliability: %w", err)
	}
	at, _, err := s.At()
	if err != nil {
		return nil, fmt.Errorf("reliability: %w", err)
	}
	var stated []float64
	var happened []bool
	err = view.ListPredictions(s, r.namespace, func(v *view.Prediction) error {
		imported, err := r.isImported(v.Seq)
		if err == nil && !imported {
			err = r.rule(v)
		}
		if err != nil || imported || !decided(v) || !scored(v) {
			return err
		}
		stated = append(stated, v.P)
		happened = append(happened, v.Final().Verdict == view.VerdictConfirmed)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reliability: %w", err)
	}
	out := &Reliability{At: at, Namespace: r.namespace, N: len(stated), Bins: []ReliabilityBin{}}
	ece, bins, ok := stats.ECE(stated, happened, ReliabilityBins, stats.L1)
	if ok {
		out.ECE = &ece
	}
	for _, b := range bins {
		bin := ReliabilityBin{Low: b.Low, High: b.High, N: b.N}
		if b.N > 0 {
			bin.Stated, bin.Frequency = &b.Confidence, &b.Frequency
		}
		out.Bins = append(out.Bins, bin)
	}
	return out, nil
}
