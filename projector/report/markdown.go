package report

import (
	"fmt"
	"strings"
)

// Markdown is what HTML shows, with the figures of the charts as tables. What others
// wrote stands in code spans, where nothing is markup or a link.
func (r *Report) Markdown() []byte {
	p := r.page()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Week %s\n", code(p.Week))
	line("Namespace %s. %s %s\n", code(p.Namespace), code(p.Bounds), code(p.Before))
	line("> %s\n", code(p.Cap))
	for _, block := range p.Blocks {
		line("## %s\n\n%s\n", block.Title, block.Of)
		line("| metric | week | 95 %% interval | of | last week | whole ledger |\n|---|---:|---|---:|---:|---:|")
		for _, row := range block.Rows {
			if row.Head {
				line("| %s %s | | | | | |", code(row.Name), code(row.Reason))
				continue
			}
			value := row.Value
			if row.Reason != "" {
				value = row.Reason
			}
			line("| %s | %s | %s | %s | %s | %s |", code(row.Name), code(value), code(row.Interval), code(row.Parts), code(row.Last), code(strings.TrimSpace(row.All+" "+row.AllInterval)))
		}
		for _, n := range block.Notes {
			line("\n%s", code(n))
		}
		line("")
	}
	r.markdownTables(line)
	line("## The three questions\n\n| question | answer | why |\n|---|---|---|")
	for _, q := range p.Questions {
		line("| %s | **%s** | %s |", q.Text, q.Answer, code(strings.TrimPrefix(q.Why+" / "+strings.Join(q.Endpoints, " / "), " / ")))
	}
	line("\n## What this rests on\n\n%s\n", code(p.Stand))
	for note := range strings.Lines(p.Note) {
		line("    %s", strings.TrimSuffix(note, "\n"))
	}
	line("\n%s", code(p.Versions))
	return []byte(b.String())
}

func (r *Report) markdownTables(line func(string, ...any)) {
	share, cost := Figure{Unit: "share", Form: "ratio", Per: 1}, Figure{Unit: "USD", Form: "sum"}
	line("## Reliability, whole ledger\n")
	if len(r.Reliability) == 0 {
		line("No data: no scorable prediction has a verdict.\n")
	} else {
		line("| tenth | stated | confirmed | 95 %% interval | of |\n|---|---:|---:|---|---:|")
		for _, bin := range r.Reliability {
			line("| %s | %s | %s | %s | %s |", code(bin.Tenth), percent(*bin.Stated.Value), percent(*bin.Observed.Value), share.interval(&bin.Observed), share.parts(&bin.Observed))
		}
		line("")
	}
	line("## Week by week\n\n| week | claims resolved | 95 %% interval | of | cost |\n|---|---:|---|---:|---:|")
	for _, p := range r.Trend {
		line("| %s | %s | %s | %s | %s |", code(p.Week), share.value(p.Coverage.Value), share.interval(&p.Coverage), share.parts(&p.Coverage), cost.value(p.Cost.Value))
	}
	line("")
}

// code is a text that is plain as a code span, nothing for nothing.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.NewReplacer("`", `\u0060`, "|", `\u007c`).Replace(s) + "`"
}
