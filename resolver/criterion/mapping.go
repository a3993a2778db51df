package criterion

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DefaultRateLimit is twice journald's own RateLimitIntervalSec.
const DefaultRateLimit = time.Minute

// What a path of match and labels_from names in OTLP. The first three are
// followed by an attribute's key; the last four are a log record's.
const (
	OTLPResource       = "resource.attributes."
	OTLPScope          = "scope.attributes."
	OTLPAttribute      = "attributes."
	OTLPScopeName      = "scope.name"
	OTLPScopeVersion   = "scope.version"
	OTLPSeverityNumber = "severity_number"
	OTLPSeverityText   = "severity_text"
	OTLPEventName      = "event_name"
	OTLPBody           = "body"
)

// What is taken of a distribution: a histogram or a summary.
const (
	FieldCount = "count"
	FieldSum   = "sum"
)

func (s *Source) checkJournald(w *sourceWire) error {
	if w.RateLimit == nil {
		s.RateLimit = DefaultRateLimit
	}
	switch {
	case s.RateLimit > time.Hour:
		return errors.New("/rate_limit: want at most an hour")
	case s.Directory != "" && !filepath.IsAbs(s.Directory):
		return errors.New("/directory: want an absolute path")
	}
	return nil
}

// checkEntry: any process may write any field but those that begin with _,
// which journald sets itself.
func checkEntry(s Signal) error {
	if len(s.Match) == 0 {
		if !s.IsOwnHeartbeat() || len(s.LabelsFrom) > 0 || s.ValueField != "" {
			return errors.New("/match: missing: the fields that an entry must have; only the heartbeat that any entry is has none, and neither labels nor a value")
		}
		return nil
	}
	if err := checkMapping(s, isJournalField, "a field of a journal entry"); err != nil {
		return err
	}
	trusted := false
	for field := range s.Match {
		trusted = trusted || field[0] == '_'
	}
	switch {
	case !trusted:
		return errors.New("/match: want a field that journald itself sets, such as _SYSTEMD_UNIT or _TRANSPORT: any process could write the others")
	case s.Kind == Counter:
		return errors.New("/kind: an entry is an event, or with value_field a gauge")
	case (s.Kind == Gauge) != (s.ValueField != ""):
		return errors.New("/value_field: stands exactly where kind is gauge")
	case s.ValueField != "" && !isJournalField(s.ValueField):
		return fmt.Errorf("/value_field: %.80q is no field of a journal entry", s.ValueField)
	}
	return nil
}

// isJournalField leaves out the fields of two underscores, which are an
// entry's address.
func isJournalField(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64 && !strings.HasPrefix(s, "__")
}

// checkOTLP: a signal with a metric is its points, one without is log records.
func checkOTLP(s Signal) error {
	record := s.Metric == ""
	path := func(p string) bool { return isOTLPPath(p, record) }
	if err := checkMapping(s, path, "a path of OTLP"); err != nil {
		return err
	}
	switch {
	case record && (s.MetricUnit != "" || s.Field != ""):
		return errors.New("/metric: missing: its unit or field is given")
	case record && len(s.Match) == 0:
		return errors.New("/match: missing: what a log record must say; or give a metric")
	case record && s.Kind != Event:
		return errors.New("/kind: a log record is an event")
	case !record && s.Kind == Event:
		return errors.New("/kind: a metric is a gauge or a counter")
	case s.Field != "" && s.Field != FieldCount && s.Field != FieldSum:
		return fmt.Errorf("/field: %.40q, want %s or %s", s.Field, FieldCount, FieldSum)
	case s.Field != "" && s.Kind != Counter:
		return fmt.Errorf("/kind: the %s of a distribution is a counter", s.Field)
	}
	return nil
}

func isOTLPPath(p string, record bool) bool {
	for _, prefix := range []string{OTLPResource, OTLPScope, OTLPAttribute} {
		if key, ok := strings.CutPrefix(p, prefix); ok {
			return key != ""
		}
	}
	return p == OTLPScopeName || p == OTLPScopeVersion ||
		record && slices.Contains([]string{OTLPSeverityNumber, OTLPSeverityText, OTLPEventName, OTLPBody}, p)
}

// checkMapping checks what match and labels_from name.
func checkMapping(s Signal, known func(string) bool, what string) error {
	if err := CheckLabels(s.Match); err != nil {
		return fmt.Errorf("/match: %w", err)
	}
	for from := range s.Match {
		if !known(from) {
			return fmt.Errorf("/match: %.80q is not %s", from, what)
		}
	}
	if err := CheckLabels(s.LabelsFrom); err != nil {
		return fmt.Errorf("/labels_from: %w", err)
	}
	for name, from := range s.LabelsFrom {
		if !known(from) {
			return fmt.Errorf("/labels_from/%s: %.80q is not %s", name, from, what)
		}
	}
	return nil
}
