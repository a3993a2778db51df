package metric

// Bin is what came of the predictions whose stated probability is in one tenth.
type Bin struct {
	Tenth    string `json:"tenth"`
	Stated   Number `json:"stated"`   // of stated_probability
	Observed Number `json:"observed"` // of observed_share
}

// Reliability sets stated_probability beside observed_share, tenth by tenth in order:
// a reliability diagram. A tenth of which either has no value is left out.
func Reliability(stated, observed *Explanation) []Bin {
	bins := []Bin{}
	for _, s := range stated.Groups {
		o := observed.Of(s.Name)
		if s.Name != "" && s.Value != nil && o.Value != nil {
			bins = append(bins, Bin{s.Name, s.Number, o})
		}
	}
	return bins
}
