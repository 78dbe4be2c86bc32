package postgres

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Limits of a user's parameters: their number, and the total length of their names and values.
const (
	MaxParameters      = 200
	MaxParametersBytes = 8 << 10
)

// The oldest and the newest supported major version.
const (
	oldest = 12
	newest = 18
)

// table has one line for each parameter of the server that users may set, and further lines if it
// differs between versions. hack/parameters generates it from the answers of servers.
//
//go:embed parameters.tsv
var table string

// parameter is a line of the table: what the major versions from since to until accept.
type parameter struct {
	since, until int
	// restarts is true if a change takes effect only at a start of the server.
	restarts bool
	// kind is pg_settings.vartype: bool, integer, real, enum or string.
	kind, unit string
	min, max   float64
	values     []string
}

var parameters = sync.OnceValue(func() map[string][]parameter {
	found := map[string][]parameter{}
	for line := range strings.Lines(table) {
		if name, p, err := parseParameter(strings.TrimSuffix(line, "\n")); err == nil { // It fails for comments.
			found[name] = append(found[name], p)
		}
	}
	return found
})

// parseParameter parses a line of the table, and returns the name of the parameter, too.
func parseParameter(line string) (string, parameter, error) {
	fields := strings.Split(line, "\t")
	const columns = 9
	if len(fields) != columns {
		return "", parameter{}, fmt.Errorf("has %d fields: must have %d", len(fields), columns)
	}
	p := parameter{restarts: fields[3] == "restart", kind: fields[4], unit: fields[5]}
	var errs [4]error
	p.since, errs[0] = strconv.Atoi(fields[1])
	p.until, errs[1] = strconv.Atoi(fields[2])
	if p.kind == "integer" || p.kind == "real" {
		p.min, errs[2] = strconv.ParseFloat(fields[6], 64)
		p.max, errs[3] = strconv.ParseFloat(fields[7], 64)
	}
	if p.kind == "enum" {
		p.values = strings.Split(fields[8], ",")
	}
	return fields[0], p, errors.Join(errs[:]...)
}

// CheckParameters checks all of a user's parameters, for a server of the major version; 0 is any.
// Its error names the first parameter, in the order of names, that is not accepted.
func CheckParameters(major int, set map[string]string) error {
	if len(set) > MaxParameters {
		return fmt.Errorf("Too many: %d: must have at most %d items", len(set), MaxParameters) //nolint:staticcheck // As the API server says it.
	}
	size := 0
	for name, value := range set {
		if size += len(name) + len(value); size > MaxParametersBytes {
			return fmt.Errorf("Too long: may not be more than %d bytes", MaxParametersBytes) //nolint:staticcheck // As the API server says it.
		}
	}
	for _, setting := range Parameters(set) {
		if err := CheckParameterOf(major, setting.Name, setting.Value); err != nil {
			return fmt.Errorf("[%.80s]: Invalid value: %.100q: %w", setting.Name, setting.Value, err)
		}
	}
	return nil
}

// Parameters returns parameters as a list, in the order of their names.
func Parameters(set map[string]string) []Setting {
	settings := make([]Setting, 0, len(set))
	for name, value := range set {
		settings = append(settings, Setting{Name: name, Value: value})
	}
	slices.SortFunc(settings, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return settings
}

// CheckParameter returns why a user may not set a parameter to that value, for a server of any
// supported version; nil if that is accepted. The error says what is accepted. It does not begin
// with the name or the value.
func CheckParameter(name, value string) error { return CheckParameterOf(0, name, value) }

// CheckParameterOf does so for a server of the major version; 0 is any. It accepts any string where
// only the server knows which ones are valid, such as names of time zones.
func CheckParameterOf(major int, name, value string) error {
	if err := checkSetting(Setting{Name: name, Value: value}); err != nil {
		return err
	}
	if reason := Refused(name); reason != "" {
		return errors.New("must not be set: " + reason)
	}
	if strings.Contains(name, ".") {
		return nil // It belongs to an extension, about whose parameters nothing is known.
	}
	known := parameters()[name]
	if len(known) == 0 {
		return fmt.Errorf("is not a parameter of PostgreSQL %s: %s", versions(major), near(name))
	}
	var refused error
	for _, p := range known {
		if major != 0 && (major < p.since || major > p.until) {
			continue
		}
		if refused = p.check(name, value); refused == nil {
			return nil
		}
	}
	if refused == nil {
		return fmt.Errorf("is not a parameter of PostgreSQL %d: it is one of %d to %d", major, known[0].since, known[len(known)-1].until)
	}
	return refused
}

// restarting are the parameters of extensions that take effect only at a start of the server. Only
// preloaded libraries can have such parameters, and lists has all that may be preloaded.
var restarting = []string{"pg_prewarm.autoprewarm", "pg_stat_statements.max"}

// NeedsRestart reports whether a change of a parameter takes effect only at the next start.
func NeedsRestart(major int, name string) bool {
	return slices.Contains(restarting, name) || slices.ContainsFunc(parameters()[name], func(p parameter) bool {
		return p.restarts && (major == 0 || major >= p.since && major <= p.until)
	})
}

func versions(major int) string {
	if major == 0 {
		return fmt.Sprintf("%d to %d", oldest, newest)
	}
	return strconv.Itoa(major)
}

// check returns why the versions of this line do not accept the value; nil if they do.
func (p parameter) check(name, value string) error {
	if accepted, isLimited := lists[name]; isLimited {
		return listOf(value, accepted, p.kind == "string")
	}
	switch p.kind {
	case "bool":
		if !slices.Contains([]string{"on", "off", "true", "false", "yes", "no", "1", "0"}, strings.ToLower(value)) {
			return errors.New("must be on or off")
		}
	case "enum":
		return oneOf(value, p.values)
	case "integer", "real":
		return p.checkNumber(name, value)
	}
	return nil
}

func oneOf(value string, accepted []string) error {
	if slices.ContainsFunc(accepted, func(known string) bool { return strings.EqualFold(known, value) }) {
		return nil
	}
	return errors.New("must be one of " + strings.Join(accepted, ", "))
}

// listOf accepts one of the names, or, if many is true, a list of them with commas.
func listOf(value string, accepted []string, many bool) error {
	if !many {
		return oneOf(value, accepted)
	}
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); value != "" && !slices.Contains(accepted, name) {
			return errors.New("must be a list of " + strings.Join(accepted, ", "))
		}
	}
	return nil
}

// number matches numbers with an optional unit. It excludes forms that may surprise: for the
// server, 010 is eight, and 0x10 is sixteen.
var number = regexp.MustCompile(`^(-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?) ?([A-Za-z]{0,3})$`)

// units are the server's units (guc.c), in bytes and in microseconds.
var units = map[string]float64{
	"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "8kB": 8 << 10,
	"us": 1, "ms": 1e3, "s": 1e6, "min": 60e6, "h": 3600e6, "d": 86400e6,
}

// sizes and durations are the units of the two kinds of quantities.
var (
	sizes     = []string{"B", "kB", "MB", "GB", "TB"}
	durations = []string{"us", "ms", "s", "min", "h", "d"}
)

// checkNumber does so for a number, with an optional unit.
func (p parameter) checkNumber(name, value string) error {
	accepted := durations
	switch {
	case p.unit == "":
		accepted = nil
	case strings.HasSuffix(p.unit, "B"):
		accepted = sizes
	}
	found := number.FindStringSubmatch(value)
	if found == nil || found[2] != "" && !slices.Contains(accepted, found[2]) {
		if accepted == nil {
			return fmt.Errorf("must be a number from %s to %s, without a unit", p.bound(p.min), p.bound(p.max))
		}
		return fmt.Errorf("must be a number with one of the units %s", strings.Join(accepted, ", "))
	}
	amount, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		return errors.New("must be a number")
	}
	if found[2] != "" {
		amount *= units[found[2]] / units[p.unit]
	}
	if p.kind == "integer" {
		amount = math.RoundToEven(amount)
	}
	least := p.min
	if ours, isHigher := leasts[name]; isHigher {
		least = ours
	}
	if amount < least || amount > p.max {
		return fmt.Errorf("must be from %s to %s", p.bound(least), p.bound(p.max))
	}
	return nil
}

func (p parameter) bound(of float64) string {
	text := strconv.FormatFloat(of, 'g', 12, 64)
	if size, isBlocks := strings.CutSuffix(p.unit, "kB"); isBlocks && size != "" {
		return text + " times " + p.unit
	}
	return text + p.unit
}

// near returns, for people, the three names of parameters that are most similar.
func near(name string) string {
	type candidate struct {
		name     string
		distance int
	}
	var all []candidate
	for known := range parameters() {
		all = append(all, candidate{known, distance(name, known)})
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	const most = 3
	var names []string
	for _, c := range all[:most] {
		names = append(names, c.name)
	}
	return "the most similar names are " + strings.Join(names, ", ")
}

// distance returns how many bytes must be added, removed or replaced to turn one name into the
// other (Levenshtein distance). Names have at most 127 bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// ParametersQuery asks a server for its parameters, with the columns of the table except the
// versions. It leaves out those of extensions, and those that can't be set.
const ParametersQuery = `SELECT lower(name), CASE context WHEN 'postmaster' THEN 'restart' ELSE 'reload' END, vartype,
	coalesce(unit, ''), coalesce(min_val, ''), coalesce(max_val, ''), coalesce(array_to_string(enumvals, ','), '')
	FROM pg_settings WHERE context <> 'internal' AND name NOT LIKE '%.%' ORDER BY lower(name) COLLATE "C"`
