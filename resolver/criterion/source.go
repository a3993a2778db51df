package criterion

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// SourceKind says how a source's samples come to be.
type SourceKind string

// The kinds. What no entry of the registry describes is of NATSKind, and the
// host sensor's source of HostKind.
const (
	NATSKind         SourceKind = "nats"         // its sensor publishes batches by itself
	HostKind         SourceKind = "host"         // assay's own sensor of this machine
	PrometheusKind   SourceKind = "prometheus"   // queries of a Prometheus server
	AlertmanagerKind SourceKind = "alertmanager" // webhooks of an Alertmanager
	JournaldKind     SourceKind = "journald"     // entries of the systemd journal
	OTLPKind         SourceKind = "otlp"         // metrics and logs of OTLP over HTTP
)

// Defaults of a prometheus source.
const (
	DefaultStep = 15 * time.Second
	// DefaultQueryOffset is longer than Prometheus's default time-out of a
	// scrape: a sample is dated at its scrape's start and stored at its end.
	DefaultQueryOffset = 15 * time.Second
)

// Source is what the operator says of a telemetry source. Members that its kind
// does not have are empty.
type Source struct {
	Name string
	Kind SourceKind
	// URL is the base address of the server that is asked. Plain http goes to
	// loopback alone unless PlainHTTP allows it.
	URL       string
	PlainHTTP bool
	// Listen is the loopback address, host:port, of the source's own HTTP door.
	Listen string
	// TokenFile holds the bearer token that is sent to URL or asked for at
	// Listen; User and PasswordFile are those of basic authentication, and
	// CAFile holds the certificates that URL's is checked against.
	TokenFile, User, PasswordFile, CAFile string
	// Step is the time between two queries and the grid of their samples;
	// QueryOffset is how far behind the clock they end.
	Step, QueryOffset time.Duration
	// Directory holds the journal, "" is the host's; RateLimit is how late
	// journald may tell of messages that it suppressed.
	Directory string
	RateLimit time.Duration
}

type sourceWire struct {
	Name         string     `json:"name"`
	Kind         SourceKind `json:"kind"`
	URL          string     `json:"url,omitzero"`
	PlainHTTP    bool       `json:"plain_http,omitzero"`
	Listen       string     `json:"listen,omitzero"`
	TokenFile    string     `json:"token_file,omitzero"`
	User         string     `json:"user,omitzero"`
	PasswordFile string     `json:"password_file,omitzero"`
	CAFile       string     `json:"ca_file,omitzero"`
	Step         *duration  `json:"step,omitzero"`
	QueryOffset  *duration  `json:"query_offset,omitzero"`
	Directory    string     `json:"directory,omitzero"`
	RateLimit    *duration  `json:"rate_limit,omitzero"`
}

// members says for each kind which members an entry in sources and a signal of
// such a source may have beside the common ones.
var members = map[SourceKind]struct{ source, signal []string }{
	NATSKind: {}, HostKind: {},
	PrometheusKind: {
		source: []string{"url", "plain_http", "token_file", "user", "password_file", "ca_file", "step", "query_offset"},
		signal: []string{"query", "selector", "start"},
	},
	AlertmanagerKind: {source: []string{"listen", "token_file"}, signal: []string{"match"}},
	JournaldKind: {
		source: []string{"directory", "rate_limit"},
		signal: []string{"match", "labels_from", "value_field"},
	},
	OTLPKind: {
		source: []string{"listen", "token_file"},
		signal: []string{"match", "labels_from", "metric", "metric_unit", "field"},
	},
}

// given names the members that are set, of those that not every kind has.
func (w *sourceWire) given() []string {
	return names(map[string]bool{
		"url": w.URL != "", "plain_http": w.PlainHTTP, "listen": w.Listen != "", "token_file": w.TokenFile != "",
		"user": w.User != "", "password_file": w.PasswordFile != "", "ca_file": w.CAFile != "",
		"step": w.Step != nil, "query_offset": w.QueryOffset != nil,
		"directory": w.Directory != "", "rate_limit": w.RateLimit != nil,
	})
}

// given names the members of the mapping that are set.
func (s *Signal) given() []string {
	return names(map[string]bool{
		"query": s.Query != "", "selector": s.Selector != "", "start": s.Start != "", "match": len(s.Match) > 0,
		"labels_from": len(s.LabelsFrom) > 0, "value_field": s.ValueField != "",
		"metric": s.Metric != "", "metric_unit": s.MetricUnit != "", "field": s.Field != "",
	})
}

// HasAdapter says whether assay reads sources of the kind by an adapter, which
// is so where signals have members that say how.
func (k SourceKind) HasAdapter() bool { return len(members[k].signal) > 0 }

func names(set map[string]bool) []string {
	var out []string
	for name, ok := range set {
		if ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// source checks an entry by itself. The error begins with the pointer.
func (w *sourceWire) source() (Source, error) {
	s := Source{
		Name: w.Name, Kind: w.Kind, URL: w.URL, PlainHTTP: w.PlainHTTP, Listen: w.Listen, TokenFile: w.TokenFile,
		User: w.User, PasswordFile: w.PasswordFile, CAFile: w.CAFile, Step: orZero(w.Step), QueryOffset: orZero(w.QueryOffset),
		Directory: w.Directory, RateLimit: orZero(w.RateLimit),
	}
	allowed, ok := members[s.Kind]
	switch {
	case !IsSource(s.Name):
		return s, fmt.Errorf("/name: %q", s.Name)
	case !ok:
		return s, fmt.Errorf("/kind: %.40q is no kind of source", s.Kind)
	case (s.Name == HostSource) != (s.Kind == HostKind):
		return s, fmt.Errorf("/kind: %q and no other source is of kind %q", HostSource, HostKind)
	}
	for _, name := range w.given() {
		if !slices.Contains(allowed.source, name) {
			return s, fmt.Errorf("/%s: a source of kind %s has none", name, s.Kind)
		}
	}
	switch s.Kind {
	case PrometheusKind:
		return s, s.checkPrometheus(w)
	case JournaldKind:
		return s, s.checkJournald(w)
	case AlertmanagerKind, OTLPKind:
		return s, checkListen(s.Listen)
	}
	return s, nil
}

func (s *Source) checkPrometheus(w *sourceWire) error {
	if w.Step == nil {
		s.Step = DefaultStep
	}
	if w.QueryOffset == nil {
		s.QueryOffset = DefaultQueryOffset
	}
	switch {
	case s.Step < time.Second || s.Step%time.Second != 0 || s.Step > time.Hour:
		return errors.New("/step: want whole seconds, up to an hour")
	case s.QueryOffset > time.Hour:
		return errors.New("/query_offset: want at most an hour")
	case (s.User == "") != (s.PasswordFile == ""):
		return errors.New("/user: user and password_file go together")
	case s.User != "" && s.TokenFile != "":
		return errors.New("/token_file: a token and a user exclude each other")
	}
	return checkURL(s.URL, s.PlainHTTP)
}

func checkURL(raw string, plain bool) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("/url: want http(s)://host:port/path")
	}
	switch {
	case u.User != nil:
		return errors.New("/url: this file is no place for a password: use user and password_file")
	case u.Scheme == "https", u.Scheme == "http" && (plain || isLoopback(u.Hostname())):
		return nil
	case u.Scheme == "http":
		return fmt.Errorf("/url: whoever is between here and %s could change what it says: use https, or set plain_http", u.Hostname())
	}
	return errors.New("/url: want http or https")
}

func checkListen(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return errors.New("/listen: want host:port")
	}
	if !isLoopback(host) {
		return fmt.Errorf("/listen: %q is not loopback; a proxy with TLS must stand between it and others", host)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkSources checks sources and their signals against each other.
func (r *Registry) checkSources() error {
	for i, name := range r.order {
		s := r.signals[name]
		src := r.Source(s.Source)
		for _, member := range s.given() {
			if !slices.Contains(members[src.Kind].signal, member) {
				return fmt.Errorf("/signals/%d/%s: a signal of a source of kind %s has none", i, member, src.Kind)
			}
		}
		var err error
		switch src.Kind {
		case PrometheusKind:
			err = r.checkPrometheusSignal(src, s)
		case AlertmanagerKind:
			err = checkAlert(s)
		case JournaldKind:
			err = checkEntry(s)
		case OTLPKind:
			err = checkOTLP(s)
		}
		if err != nil {
			return fmt.Errorf("/signals/%d%w", i, err)
		}
	}
	for i, src := range r.sources {
		var own []string
		signals := r.SignalsOf(src.Name)
		for _, s := range signals {
			if s.IsOwnHeartbeat() {
				own = append(own, s.Name)
			}
		}
		switch {
		case len(signals) == 0:
			return fmt.Errorf("/sources/%d/name: no signal is of source %q", i, src.Name)
		case src.Kind.HasAdapter() && len(own) != 1:
			return fmt.Errorf("/sources/%d: %q needs one signal that tells how far it has come; it has %d: %s",
				i, src.Name, len(own), strings.Join(own, ", "))
		case src.Kind == PrometheusKind && len(signals) == 1:
			return fmt.Errorf("/sources/%d: %q asks nothing, and so an answer would prove nothing: no signal has a query or a selector", i, src.Name)
		}
	}
	return nil
}

// IsOwnHeartbeat says whether the signal tells how far its source's adapter has
// come: it is its own heartbeat and no query is for it.
func (s *Signal) IsOwnHeartbeat() bool {
	return s.Heartbeat == s.Name && s.Query == "" && s.Selector == ""
}

// OwnHeartbeat is the own heartbeat among the signals of a source, which a
// source with an adapter has exactly once; the zero Signal where there is none.
func OwnHeartbeat(signals []Signal) Signal {
	for _, s := range signals {
		if s.IsOwnHeartbeat() {
			return s
		}
	}
	return Signal{}
}

// checkPrometheusSignal: a query's samples lie on the grid, each up to one step
// later than what it tells of. The own heartbeat says that Prometheus answered,
// not that it scraped, so that it vouches for no silence.
func (r *Registry) checkPrometheusSignal(src Source, s Signal) error {
	beat := r.signals[s.Heartbeat]
	switch {
	case s.Interval < src.Step:
		return fmt.Errorf("/interval: want at least the source's step, %s", formatDuration(src.Step))
	case s.IsOwnHeartbeat():
		return nil
	case (s.Query == "") == (s.Selector == ""):
		return errors.New("/query: want one of query and selector")
	case s.Query != "" && s.MaxSkew < src.Step:
		return fmt.Errorf("/max_skew: a query is evaluated every step, want at least %s", formatDuration(src.Step))
	case s.Start != "" && (s.Kind != Counter || s.Selector == ""):
		return errors.New("/start: only a counter with a selector has one")
	case s.Kind == Event && beat.IsOwnHeartbeat():
		return fmt.Errorf("/heartbeat: %s tells that queries were answered, not that anything was scraped: an event needs a heartbeat with a query, of up say", beat.Name)
	}
	return nil
}

// checkAlert: an alert is told of when it changes and at no other time.
func checkAlert(s Signal) error {
	switch {
	case len(s.Match) == 0:
		return errors.New("/match: missing: the labels that an alert must have")
	case s.Kind != Event && !s.IsOwnHeartbeat():
		return errors.New("/kind: an alert is told of when it changes: want event")
	case s.IsOwnHeartbeat() && s.AllowedLateness == 0:
		return errors.New("/allowed_lateness: an alert is told of some time after it began, for which heartbeats are held back: want more than 0")
	}
	if err := CheckLabels(s.Match); err != nil {
		return fmt.Errorf("/match: %w", err)
	}
	return nil
}

// Source says how the named source is read.
func (r *Registry) Source(name string) Source {
	for _, s := range r.sources {
		if s.Name == name {
			return s
		}
	}
	if name == HostSource {
		return Source{Name: name, Kind: HostKind}
	}
	return Source{Name: name, Kind: NATSKind}
}

// SignalsOf are the source's signals in the registry's order.
func (r *Registry) SignalsOf(source string) []Signal {
	var out []Signal
	for _, name := range r.order {
		if s := r.signals[name]; s.Source == source {
			out = append(out, s)
		}
	}
	return out
}
