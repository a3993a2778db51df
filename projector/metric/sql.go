package metric

import (
	"embed"
	"fmt"
	"strings"
)

// queries says everything that the catalogue counts a second time, in SQL: the terms,
// one query a metric, and how a form makes a value of what they count. They are
// written from the definitions and share nothing with the passes, which
// TestMetricsBySQL holds to them.
//
//go:embed sql
var queries embed.FS

// Script is a metric in SQL, for an export of a whole ledger as SQLite. It changes
// nothing in the database: what it makes is temporary.
type Script struct {
	Terms string // makes the tables of terms, for any metric of the same options
	Count string // makes the table counted: role, item, seq, n, part
	Value string // asks that for numerator, denominator and value; of a metric that is Apart for each part
}

// SQL is the script of a metric under these options; else ErrNoMetric. A namespace of
// "" is DefaultNamespace.
func SQL(name, namespace string, o Options) (s Script, err error) {
	m, err := Find(name)
	if err != nil {
		return s, err
	}
	if namespace == "" {
		namespace = DefaultNamespace
	}
	var parts [3]string
	for i, path := range []string{"terms", "metric/" + m.Name, "form/" + string(m.Form)} {
		raw, err := queries.ReadFile("sql/" + path + ".sql")
		if err != nil {
			return s, err
		}
		parts[i] = string(raw)
	}
	return Script{termsScript(namespace, o, parts[0]), m.countScript(parts[1]), m.valueScript(parts[2])}, nil
}

// String is the whole script.
func (s Script) String() string { return s.Terms + "\n" + s.Count + "\n" + s.Value }

func termsScript(namespace string, o Options, terms string) string {
	week := "NULL"
	if o.Week != "" {
		week = literal(o.Week)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TEMP TABLE asked AS SELECT %s AS namespace, %s AS week;\nCREATE TEMP TABLE repair(tool);\n", literal(namespace), week)
	for _, tool := range o.Repair {
		fmt.Fprintf(&b, "INSERT INTO repair VALUES (%s);\n", literal(tool))
	}
	return b.String() + "\n" + terms
}

// countScript counts an item in the week of the record that it is of ("of"), unless
// that was imported; and what was imported puts it nowhere.
func (m *Metric) countScript(query string) string {
	part := "NULL"
	if m.Apart {
		part = "part"
	}
	return fmt.Sprintf(`CREATE TEMP TABLE unit AS SELECT %d AS per, %d AS times, %t AS whole, %s IN (SELECT metric FROM withheld) AS withheld;
CREATE TEMP TABLE counted AS SELECT role, item, seq, n, %s AS part FROM (
%s) JOIN span ON of >= first AND of < past
WHERE of NOT IN imported AND seq NOT IN imported;
`, m.Per, m.Times, m.Whole, literal(m.Name), part, query)
}

func (m *Metric) valueScript(form string) string {
	part, by := "", ""
	if m.Apart {
		part, by = "part, ", " GROUP BY part"
	}
	return fmt.Sprintf(`WITH summed AS (
  SELECT %scoalesce(sum(n) FILTER (WHERE role = 'numerator'), 0) AS numerator,
         coalesce(sum(n) FILTER (WHERE role = 'denominator'), 0) AS denominator,
         count(*) FILTER (WHERE role = 'numerator') AS values_known, count(*) FILTER (WHERE role = 'unknown') AS unknown
  FROM counted%s),
valued AS (SELECT %s%sFROM summed, unit)
SELECT %snumerator, denominator, CASE WHEN NOT withheld THEN value END AS value FROM valued, unit;
`, part, by, part, form, part)
}

// literal is a string as SQL has it.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
