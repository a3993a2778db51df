package bayes

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"assay/internal/answerkeys"
)

// A posterior of the ALARM network (37 variables): planned and worked out.
func BenchmarkAlarm(b *testing.B) {
	text, err := os.ReadFile(answerkeys.Need(b, "bayesnet/alarm.bif"))
	if err != nil {
		b.Fatal(err)
	}
	n, err := ParseBIF(string(text))
	if err != nil {
		b.Fatal(err)
	}
	benchQuery(b, n, Query{Target: []string{"LVFAILURE"}, Evidence: ev{"HRBP": "HIGH", "CVP": "LOW", "BP": "LOW", "EXPCO2": "NORMAL"}})
}

// Cost is exponential in the treewidth, which follows the band that each variable's
// parents come from until few of them are joined by more than one path.
func BenchmarkBand(b *testing.B) {
	for _, band := range []int{2, 4, 6, 8, 10, 12} {
		b.Run(fmt.Sprint("band=", band), func(b *testing.B) {
			benchQuery(b, mustNew(b, banded(60, band)), Query{Target: []string{"v0"}, Evidence: ev{"v59": "yes"}})
		})
	}
}

// At one width it follows the number of variables.
func BenchmarkNodes(b *testing.B) {
	for _, nodes := range []int{15, 30, 60, 120, 240} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			benchQuery(b, mustNew(b, banded(nodes, 4)), Query{Target: []string{"v0"}, Evidence: ev{fmt.Sprint("v", nodes-1): "yes"}})
		})
	}
}

// banded is a network where each variable has the one before and one that is width
// before as parents.
func banded(n, width int) (nodes []Node) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		v := Node{Name: fmt.Sprint("v", i), States: yesNo}
		for _, back := range []int{1, width} {
			if i >= back {
				v.Parents = append(v.Parents, fmt.Sprint("v", i-back))
			}
		}
		for range 1 << len(v.Parents) {
			p := r.Float64()
			v.Rows = append(v.Rows, []float64{p, 1 - p})
		}
		nodes = append(nodes, v)
	}
	return nodes
}

func benchQuery(b *testing.B, n *Network, q Query) {
	var steps, width float64
	for b.Loop() {
		inf, err := n.Prepare(q)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := inf.Run(); err != nil {
			b.Fatal(err)
		}
		steps, width = inf.Cost(), float64(inf.plan.Width())
	}
	b.ReportMetric(steps, "steps/op")
	b.ReportMetric(width, "width")
}
