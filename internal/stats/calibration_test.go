package stats

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/integrate"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

func bools(y ...int) []bool {
	out := make([]bool, len(y))
	for i, v := range y {
		out[i] = v == 1
	}
	return out
}

func TestScoresPublished(t *testing.T) {
	// scikit-learn, docstring of brier_score_loss
	near(t, "brier", must(Brier([]float64{0.1, 0.9, 0.8, 0.3}, bools(0, 1, 1, 0)))(t), 0.0375, 1e-15)
	near(t, "brier", must(Brier([]float64{0, 1, 1, 0}, bools(0, 1, 1, 0)))(t), 0, 0)
	// scikit-learn, docstring of log_loss: 0.21616
	loss, clamped, ok := LogLoss([]float64{0.1, 0.9, 0.8, 0.35}, bools(0, 1, 1, 0), 1e-6)
	if !ok || clamped != 0 {
		t.Fatal(clamped, ok)
	}
	near(t, "log loss", loss, 0.21616, 5e-6)
	loss, clamped, ok = LogLoss([]float64{1, 0}, bools(0, 0), 1e-6)
	if !ok || clamped != 2 {
		t.Fatal(clamped, ok)
	}
	near(t, "clamped loss", loss, (-math.Log(1e-6)-math.Log1p(-1e-6))/2, 1e-9)
	// torchmetrics auroc.py and scikit-learn roc_auc_score, docstrings
	near(t, "auroc", must(AUROC([]float64{0, 0.5, 0.7, 0.8}, bools(0, 1, 1, 0)))(t), 0.5, 0)
	near(t, "auroc", must(AUROC([]float64{0.1, 0.4, 0.35, 0.8}, bools(0, 0, 1, 1)))(t), 0.75, 0)
}

func TestECEPublished(t *testing.T) {
	// torchmetrics calibration_error.py, docstrings
	p, y := []float64{0.25, 0.25, 0.55, 0.75, 0.75}, bools(0, 0, 1, 1, 1)
	for norm, want := range map[Norm]float64{L1: 0.29, Max: 0.3167} {
		got, diagram, ok := ECE(p, y, 2, norm)
		if !ok || diagram[0].N != 2 || diagram[1].N != 3 {
			t.Fatalf("%s: %v %v", norm, diagram, ok)
		}
		near(t, string(norm), got, want, 5.1e-5)
	}
	var confidence []float64
	var correct []bool
	for i, probs := range [][]float64{{0.25, 0.20, 0.55}, {0.55, 0.05, 0.40}, {0.10, 0.30, 0.60}, {0.90, 0.05, 0.05}} {
		c, right, ok := TopLabel(probs, []int{0, 1, 2, 0}[i])
		if !ok {
			t.Fatal(probs)
		}
		confidence, correct = append(confidence, c), append(correct, right)
	}
	got, _, ok := ECE(confidence, correct, 3, L2)
	if !ok {
		t.Fatal("not available")
	}
	near(t, "l2", got, 0.2082, 5.1e-5)
}

// A probability that is written as a bound closes the bin below it, whatever the
// product of the two rounds to.
func TestBinsCloseAbove(t *testing.T) {
	for _, bins := range []int{1, 2, 3, 7, 10, 49, 100, 1000} {
		for i := 0; i <= bins; i++ {
			if got := binOf(bound(i, bins), bins); got != max(0, i-1) {
				t.Errorf("%d of %d lies in bin %d", i, bins, got)
			}
			if i < bins && binOf(math.Nextafter(bound(i, bins), 1), bins) != i {
				t.Errorf("just above %d of %d does not lie in bin %d", i, bins, i)
			}
		}
	}
}

func TestScoresOfNothing(t *testing.T) {
	if _, ok := Brier(nil, nil); ok {
		t.Error("a Brier score of nothing")
	}
	if _, _, ok := LogLoss(nil, nil, 1e-6); ok {
		t.Error("a log loss of nothing")
	}
	if _, _, ok := ECE(nil, nil, 10, L1); ok {
		t.Error("a calibration error of nothing")
	}
	if _, ok := RiskCoverage(nil, nil); ok {
		t.Error("a curve of nothing")
	}
	for _, y := range [][]bool{{}, {true}, {false}, {true, true}} {
		if got, ok := AUROC(make([]float64, len(y)), y); ok {
			t.Errorf("AUROC of the one class %v: %v", y, got)
		}
	}
}

// cases draws scores with ties, and outcomes.
func cases(t *rapid.T) (p []float64, y []bool) {
	n := rapid.IntRange(1, 60).Draw(t, "n")
	steps := rapid.SampledFrom([]int{1, 7, 100, 1 << 20}).Draw(t, "steps")
	for range n {
		p = append(p, float64(rapid.IntRange(0, steps).Draw(t, "step"))/float64(steps))
		y = append(y, rapid.Bool().Draw(t, "happened"))
	}
	return p, y
}

func TestAUROCProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, y := cases(t)
		got, ok := AUROC(p, y)
		var pairs, wins float64
		other, inverse := make([]float64, len(p)), make([]bool, len(y))
		for i := range p {
			other[i], inverse[i] = math.Exp(3*p[i])-7, !y[i]
			for j := range p {
				if y[i] && !y[j] {
					pairs++
					switch {
					case p[i] > p[j]:
						wins++
					case p[i] == p[j]:
						wins += 0.5
					}
				}
			}
		}
		if ok != (pairs > 0) || ok && got != wins/pairs {
			t.Fatalf("got %v %v, want %v of %v", got, ok, wins, pairs)
		}
		if same, _ := AUROC(other, y); same != got {
			t.Fatalf("%v, of scores transformed monotonically %v", got, same)
		}
		if mirrored, ok := AUROC(p, inverse); ok && math.Abs(mirrored-(1-got)) > 1e-15 {
			t.Fatalf("%v, with the classes swapped %v", got, mirrored)
		}
		if !ok {
			return
		}
		sorted, classes := append([]float64{}, p...), append([]bool{}, y...)
		stat.SortWeightedLabeled(sorted, classes, nil)
		tpr, fpr, _ := stat.ROC(nil, sorted, classes, nil)
		near(t, "area under gonum's curve", integrate.Trapezoidal(fpr, tpr), got, 1e-12)
	})
}

func TestCalibrationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, y := cases(t)
		bins := rapid.IntRange(1, 20).Draw(t, "bins")
		l1, diagram, ok := ECE(p, y, bins, L1)
		l2, _, _ := ECE(p, y, bins, L2)
		worst, _, _ := ECE(p, y, bins, Max)
		total := 0
		for i, b := range diagram {
			total += b.N
			if b.N > 0 && (b.Confidence < b.Low-1e-12 || b.Confidence > b.High+1e-12) {
				t.Fatalf("bin %d: %+v", i, b)
			}
		}
		if !ok || total != len(p) || !(0 <= l1 && l1 <= l2+1e-12 && l2 <= worst+1e-12 && worst <= 1) {
			t.Fatalf("l1 %v, l2 %v, max %v, %d of %d cases", l1, l2, worst, total, len(p))
		}
		brier := must(Brier(p, y))(t)
		loss, _, _ := LogLoss(p, y, 1e-6)
		if !(brier >= 0 && brier <= 1 && loss >= brier-1e-12) { // −ln q ≥ 1 − q ≥ (1 − q)²
			t.Fatalf("brier %v, log loss %v", brier, loss)
		}
	})
}

func TestRiskCoverage(t *testing.T) {
	curve := must(RiskCoverage([]float64{0.9, 0.5, 0.9, 0.2}, bools(0, 0, 1, 1)))(t)
	want := []RiskPoint{{0.9, 2, 1, 0.5, 0.5}, {0.5, 3, 1, 0.75, 1.0 / 3}, {0.2, 4, 2, 1, 0.5}}
	if len(curve) != len(want) {
		t.Fatalf("got %v, want %v", curve, want)
	}
	for i := range want {
		if curve[i] != want[i] {
			t.Errorf("point %d: got %v, want %v", i, curve[i], want[i])
		}
	}
}

func TestRiskCoverageProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, wrong := cases(t)
		curve := must(RiskCoverage(p, wrong))(t)
		for i, pt := range curve {
			answered, mistakes := 0, 0
			for j := range p {
				if p[j] >= pt.Threshold {
					answered++
					if wrong[j] {
						mistakes++
					}
				}
			}
			if pt.Answered != answered || pt.Wrong != mistakes || i > 0 && pt.Threshold >= curve[i-1].Threshold {
				t.Fatalf("point %d is %+v, want %d answered, %d wrong", i, pt, answered, mistakes)
			}
		}
		if last := curve[len(curve)-1]; last.Coverage != 1 {
			t.Fatalf("the curve ends at %+v", last)
		}
	})
}
