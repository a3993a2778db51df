package metric

// Read is how many pages the last Score went through.
func Read(m *Scorer) int { return m.read }
