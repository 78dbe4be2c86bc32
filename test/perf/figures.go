package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Kind says how a figure is compared with the baseline.
type Kind string

const (
	// Count must be equal: it does not depend on the machine.
	Count Kind = "count"
	// Ratio is relative to a floor measured in the same run, so that the machine's speed cancels out.
	// It may be worse than the baseline by ratioMargin.
	Ratio Kind = "ratio"
	// Info is for readers: times and sizes on this machine.
	Info Kind = "info"
)

// ratioMargin is how much worse than the baseline a ratio may be. The rate of creations varies
// most: from 0.57 to 0.73 on an idle machine with two processors.
const ratioMargin = 0.25

// Figure is one result.
type Figure struct {
	Name  string  `json:"name"`
	Kind  Kind    `json:"kind"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	// Limit is the worst value that we promise. Nil means no promise.
	Limit *float64 `json:"limit,omitempty"`
	// AtLeast makes Limit a minimum: more is better.
	AtLeast bool `json:"atLeast,omitempty"`
	// Note has the details: counts by kind, times of both sides.
	Note string `json:"note,omitempty"`
}

// isMissed reports whether the promise is broken.
func (f Figure) isMissed() bool { return f.Limit != nil && f.isWorse(*f.Limit, 0) }

// isWorse reports whether the figure is worse than a value by more than a margin, which is a share
// of the value.
func (f Figure) isWorse(than, margin float64) bool {
	if f.AtLeast {
		return f.Value < than*(1-margin)
	}
	return f.Value > than*(1+margin)
}

// promise returns the limit in words.
func (f Figure) promise() string {
	switch {
	case f.Limit == nil:
		return ""
	case f.AtLeast:
		return fmt.Sprintf("at least %g", *f.Limit)
	default:
		return fmt.Sprintf("at most %g", *f.Limit)
	}
}

// Report is the result of a run.
type Report struct {
	Date    string   `json:"date"`
	Machine string   `json:"machine"`
	Figures []Figure `json:"figures"`
}

func newReport() *Report {
	return &Report{
		Date:    time.Now().UTC().Format(time.DateOnly),
		Machine: fmt.Sprintf("%d processors (%s), %s, %s/%s", runtime.NumCPU(), processor(), runtime.Version(), runtime.GOOS, runtime.GOARCH),
	}
}

// processor returns the name of the processor as in Linux.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "model name"); found {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return "unknown"
}

// table returns the report as a Markdown table.
func (r *Report) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Measured on %s: %s.\n\n", r.Date, r.Machine)
	fmt.Fprintln(&text, "| figure | value | promised | details |")
	fmt.Fprintln(&text, "|---|---|---|---|")
	for _, figure := range r.Figures {
		value := fmt.Sprintf("%.4g %s", figure.Value, figure.Unit)
		promised := figure.promise()
		if figure.isMissed() {
			promised += " **missed**"
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", figure.Name, strings.TrimSpace(value), promised, figure.Note)
	}
	return text.String()
}

// The lines around the table in the page.
const (
	tableBegins = "<!-- make bench-baseline writes from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

// writePage writes the table into the page.
func (r *Report) writePage(path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(page), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the figures: it must have the lines %q and %q", path, tableBegins, tableEnds)
	}
	return os.WriteFile(path, []byte(before+tableBegins+r.table()+tableEnds+after), 0o600)
}

// save writes the report as JSON.
func (r *Report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

func loadReport(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

// compare returns the figures that are worse than in the baseline, and the promises that are broken
// but were kept in the baseline. If the run is complete, it also returns figures of the baseline
// that are missing.
func (r *Report) compare(baseline *Report, complete bool) []string {
	var worse []string
	now, missed := map[string]Figure{}, map[string]bool{}
	for _, before := range baseline.Figures {
		missed[before.Name] = before.isMissed()
	}
	for _, figure := range r.Figures {
		now[figure.Name] = figure
		if figure.isMissed() && !missed[figure.Name] {
			worse = append(worse, fmt.Sprintf("%s: %.4g, promised %s (%s)", figure.Name, figure.Value, figure.promise(),
				cmp.Or(figure.Note, "no details")))
		}
	}
	for _, before := range baseline.Figures {
		figure, found := now[before.Name]
		switch {
		case !found && complete:
			worse = append(worse, before.Name+": no longer measured")
		case !found:
		case figure.Kind == Count && figure.Value != before.Value:
			worse = append(worse, fmt.Sprintf("%s: %.4g, was %.4g (%s)", figure.Name, figure.Value, before.Value, figure.Note))
		case figure.Kind == Ratio && figure.isWorse(before.Value, ratioMargin):
			worse = append(worse, fmt.Sprintf("%s: %.4g, was %.4g, more than %.0f %% worse (%s)", figure.Name, figure.Value, before.Value,
				ratioMargin*100, figure.Note))
		}
	}
	return worse
}
