package criterion

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// Decoder reads what AppendSample wrote, and nothing else. Samples that it has
// read share their strings and labels, which nobody may change; it remembers all
// of them, so it is for one segment. It is not safe for concurrent use.
type Decoder struct {
	source string
	names  map[string]string
	labels map[string]map[string]string // by their bytes
}

// NewDecoder reads the samples of one source.
func NewDecoder(source string) *Decoder {
	return &Decoder{source: source, names: make(map[string]string), labels: make(map[string]map[string]string)}
}

// Sample reads one sample. The error is ErrSample.
func (d *Decoder) Sample(raw []byte) (Sample, error) {
	c := cursor{rest: raw, ok: true}
	s := Sample{Source: d.source}
	c.skip(`{"stream":"`)
	stream := c.until('"')
	c.skip(`,"seq":`)
	s.Seq = c.uint()
	c.skip(`,"signal":"`)
	signal := c.until('"')
	if c.has(`,"labels":`) {
		s.Labels = d.labelsOf(&c)
	}
	c.skip(`,"time":"`)
	s.Time = c.time()
	if c.has(`","start":"`) {
		s.Start = c.time()
	}
	c.skip(`","value":`)
	s.Value = c.value()
	if !c.ok || !isToken(string(stream), maxName) || !IsSignal(string(signal)) {
		return Sample{}, fmt.Errorf("%w: not in its canonical form: %.200q", ErrSample, raw)
	}
	s.Stream, s.Signal = d.share(stream), d.share(signal)
	return s, nil
}

func (d *Decoder) share(name []byte) string {
	if s, ok := d.names[string(name)]; ok {
		return s
	}
	s := string(name)
	d.names[s] = s
	return s
}

// labelsOf reads the labels that the cursor stands before.
func (d *Decoder) labelsOf(c *cursor) map[string]string {
	raw := c.object()
	if labels, ok := d.labels[string(raw)]; ok {
		return labels
	}
	var labels map[string]string
	if err := json.Unmarshal(raw, &labels); err != nil || len(labels) == 0 || CheckLabels(labels) != nil || !bytes.Equal(AppendLabels(nil, labels), raw) {
		c.ok = false
		return nil
	}
	d.labels[string(raw)] = labels
	return labels
}

// cursor reads from the front of a sample; once something was not as it must
// be, ok stays false.
type cursor struct {
	rest []byte
	ok   bool
}

func (c *cursor) has(text string) bool {
	if len(c.rest) < len(text) || string(c.rest[:len(text)]) != text {
		return false
	}
	c.rest = c.rest[len(text):]
	return true
}

func (c *cursor) skip(text string) {
	if !c.has(text) {
		c.ok = false
	}
}

// until takes what stands before the next end, and end.
func (c *cursor) until(end byte) []byte {
	i := bytes.IndexByte(c.rest, end)
	if i < 0 {
		c.ok = false
		return nil
	}
	out := c.rest[:i]
	c.rest = c.rest[i+1:]
	return out
}

// object takes a JSON object of strings, in which a quoted brace ends nothing.
func (c *cursor) object() []byte {
	quoted := false
	for i, b := range c.rest {
		switch {
		case b == '"' && !escaped(c.rest[:i]):
			quoted = !quoted
		case b == '}' && !quoted:
			out := c.rest[:i+1]
			c.rest = c.rest[i+1:]
			return out
		}
	}
	c.ok = false
	return nil
}

// escaped says whether an odd number of backslashes ends the text.
func escaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

func (c *cursor) digits() []byte {
	n := 0
	for n < len(c.rest) && c.rest[n] >= '0' && c.rest[n] <= '9' {
		n++
	}
	out := c.rest[:n]
	c.rest = c.rest[n:]
	return out
}

func (c *cursor) uint() uint64 {
	d := c.digits()
	v, err := strconv.ParseUint(string(d), 10, 64)
	if err != nil || d[0] == '0' && len(d) > 1 {
		c.ok = false
	}
	return v
}

// number takes n digits.
func (c *cursor) number(n int) int {
	v := 0
	for i := range n {
		if i >= len(c.rest) || c.rest[i] < '0' || c.rest[i] > '9' {
			c.ok = false
			return 0
		}
		v = 10*v + int(c.rest[i]-'0')
	}
	c.rest = c.rest[n:]
	return v
}

// time takes a time of timeLayout.
func (c *cursor) time() time.Time {
	year := c.number(4)
	c.skip("-")
	month := c.number(2)
	c.skip("-")
	day := c.number(2)
	c.skip("T")
	hour := c.number(2)
	c.skip(":")
	minute := c.number(2)
	c.skip(":")
	second := c.number(2)
	c.skip(".")
	nanosecond := c.number(9)
	c.skip("Z")
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanosecond, time.UTC)
	if year < minYear || year > maxYear || hour > 23 || minute > 59 || second > 59 || t.Day() != day || int(t.Month()) != month {
		c.ok = false
	}
	return t
}

// value takes the rest of the object.
func (c *cursor) value() float64 {
	if n := len(c.rest); n > 1 && c.rest[n-1] == '}' {
		raw := c.rest[:n-1]
		c.rest = c.rest[n:]
		switch string(raw) {
		case `"NaN"`:
			return math.NaN()
		case `"+Inf"`:
			return math.Inf(1)
		case `"-Inf"`:
			return math.Inf(-1)
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		var buf [32]byte
		if err == nil && bytes.Equal(strconv.AppendFloat(buf[:0], f, 'g', -1, 64), raw) && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	}
	c.ok = false
	return 0
}
