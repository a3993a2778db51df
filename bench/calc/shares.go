package calc

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/stats"
)

func proportionCI(r *struct {
	Method string   `json:"method"`
	K      *float64 `json:"k"`
	N      *float64 `json:"n"`
	Alpha  *float64 `json:"alpha"`
}, c *checker) plan {
	method := oneOf(c, "/method", r.Method, "wilson", "clopper_pearson", "agresti_coull")
	most := int64(maxExact)
	if method == "clopper_pearson" {
		most = stats.MaxCount
	}
	n := c.capped("/n", r.N, 0, most)
	k := c.count("/k", r.K, 0, n)
	alpha := c.between("/alpha", or(r.Alpha, 0.05), 0, 1)
	return planned(tailCost, func() any {
		var iv stats.Interval
		var ok bool
		switch method {
		case "wilson":
			iv, ok = stats.Wilson(float64(k), float64(n), stats.Z(alpha))
		case "agresti_coull":
			iv, ok = stats.AgrestiCoull(float64(k), float64(n), stats.Z(alpha))
		default:
			iv, ok = stats.ClopperPearson(k, n, alpha)
		}
		return struct {
			Low  *float64 `json:"low"`
			High *float64 `json:"high"`
			unknown
		}{known(iv.Low, ok), known(iv.High, ok), because(ok, noTrials)}
	})
}

func binomialTest(r *struct {
	K *float64 `json:"k"`
	N *float64 `json:"n"`
	P *float64 `json:"p"`
}, c *checker) plan {
	n := c.capped("/n", r.N, 0, stats.MaxCount)
	k := c.count("/k", r.K, 0, n)
	p := c.within("/p", r.P, 0, 1)
	return planned(tailCost, func() any {
		v, ok := stats.BinomialTest(k, n, p)
		return struct {
			TwoSided *float64 `json:"two_sided_p"`
			unknown
		}{known(v, ok), because(ok, noTrials)}
	})
}

// square checks a square table of counts.
func (c *checker) square(pointer string, table [][]float64, most int64) [][]int64 {
	out := make([][]int64, len(table))
	var total int64
	for i, row := range table {
		if len(row) != len(table) {
			c.bad(item(pointer, i), "want %d counts, one a row", len(table))
			continue
		}
		out[i] = make([]int64, len(row))
		for j := range row {
			at := item(item(pointer, i), j)
			out[i][j] = c.capped(at, &row[j], 0, most)
			if total += out[i][j]; total > most {
				c.note(TooLarge, pointer, "the limit is %d cases", most)
				return out
			}
		}
	}
	return out
}

func mcnemar(r *struct {
	Table [][]float64 `json:"table"`
}, c *checker) plan {
	if len(r.Table) != 2 {
		c.bad("/table", "want two rows of two counts")
	}
	table := c.square("/table", r.Table, maxCases)
	if c.fault != nil {
		return plan{}
	}
	b, d := table[0][1], table[1][0]
	if b+d > stats.MaxCount {
		c.note(TooLarge, "/table", "the limit is %d discordant pairs", stats.MaxCount)
	}
	return planned(tailCost, func() any {
		t, ok := stats.McNemar(b, d)
		return struct {
			Exact       *float64 `json:"exact_p"`
			Chi2        *float64 `json:"chi2"`
			Chi2P       *float64 `json:"chi2_p"`
			ContinuityP *float64 `json:"chi2_continuity_p"`
			unknown
		}{known(t.ExactP, ok), known(t.Chi2, ok), known(t.Chi2P, ok), known(t.ContinuityP, ok), because(ok, noDiscordant)}
	})
}

func cohenKappa(r *struct {
	Table [][]float64 `json:"table"`
	Pairs *struct {
		A []jsontext.Value `json:"a"`
		B []jsontext.Value `json:"b"`
	} `json:"pairs"`
}, c *checker) plan {
	var table [][]int64
	switch {
	case (r.Table == nil) == (r.Pairs == nil):
		c.bad("", "want a table or pairs")
	case len(r.Table) > maxCategories:
		c.note(TooLarge, "/table", "the limit is %d categories", maxCategories)
	case r.Table != nil:
		table = c.square("/table", r.Table, maxCases)
	default:
		table = c.tabulate(r.Pairs.A, r.Pairs.B)
	}
	return planned(len(table)*len(table), func() any {
		a, ok := stats.Kappa(table, stats.Z95)
		out := struct {
			Kappa *float64 `json:"kappa"`
			ASE   *float64 `json:"ase"`
			Low   *float64 `json:"low"`
			High  *float64 `json:"high"`
			ASE0  *float64 `json:"ase0"`
			Z     *float64 `json:"z"`
			P     *float64 `json:"p_two_sided"`
			unknown
		}{Kappa: known(a.Kappa, ok), ASE: known(a.ASE, ok), unknown: because(ok, noChance)}
		if a.Interval != nil {
			out.Low, out.High = &a.Interval.Low, &a.Interval.High
		}
		if a.Null != nil {
			out.ASE0, out.Z, out.P = &a.Null.ASE0, &a.Null.Z, &a.Null.P
		}
		return out
	})
}

// tabulate counts pairs of labels, which are numbers or texts.
func (c *checker) tabulate(a, b []jsontext.Value) [][]int64 {
	if len(a) != len(b) {
		c.bad("/pairs/b", "want %d labels, as many as in a", len(a))
		return nil
	}
	index := map[string]int{}
	read := func(pointer string, labels []jsontext.Value) []int {
		out := make([]int, len(labels))
		for i, l := range labels {
			key, ok := label(l)
			if !ok {
				c.bad(item(pointer, i), "want a number or a text")
			}
			if _, ok := index[key]; !ok {
				index[key] = len(index)
			}
			out[i] = index[key]
		}
		return out
	}
	first, second := read("/pairs/a", a), read("/pairs/b", b)
	if len(index) > maxCategories {
		c.note(TooLarge, "/pairs", "the limit is %d categories", maxCategories)
		return nil
	}
	table := make([][]int64, len(index))
	for i := range table {
		table[i] = make([]int64, len(index))
	}
	for i := range first {
		table[first[i]][second[i]]++
	}
	return table
}

// label is what tells a category from others: 1 and 1.0 are one, "1" is another.
func label(v jsontext.Value) (key string, ok bool) {
	switch v.Kind() {
	case '"':
		var text string
		err := json.Unmarshal(v, &text)
		return "s" + text, err == nil
	case '0':
		var x float64
		err := json.Unmarshal(v, &x)
		return "n" + strconv.FormatFloat(x, 'g', -1, 64), err == nil
	}
	return "", false
}
