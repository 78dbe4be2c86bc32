package rollout

import (
	"errors"
	"fmt"
	"slices"
	"time"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// Open reports whether a maintenance window is open, and returns after how long that changes; 0
// means never. A nil window is always open.
//
// A window opens when the clock of its time zone first reaches start on one of its days, and closes
// when the clock first reaches end after that. So where daylight saving time skips an hour, a time
// within that hour is the moment of the change, and a window wholly within it does not open. Where
// an hour occurs twice, its first occurrence counts.
func Open(window *rolloutv1.Window, now time.Time) (bool, time.Duration, error) {
	if window == nil {
		return true, 0, nil
	}
	zone, err := zoneOf(window.TimeZone)
	if err != nil {
		return false, 0, fmt.Errorf("timeZone: Invalid value: %q: %w", window.TimeZone, err)
	}
	start, err := parseClock(window.Start)
	if err != nil {
		return false, 0, fmt.Errorf("start: %w", err)
	}
	end, err := parseClock(window.End)
	if err != nil {
		return false, 0, fmt.Errorf("end: %w", err)
	}
	// The search starts on the day before, because its window may cross midnight. It ends after two
	// weeks, because a window may be skipped in one week.
	for day := -1; day <= 15; day++ {
		date := dateOf(now.In(zone)).AddDate(0, 0, day)
		if !isOneOf(date.Weekday(), window.Days) {
			continue
		}
		opens, closes := reaches(date, start, zone), reaches(date, end, zone)
		if !start.before(end) {
			closes = reaches(date.AddDate(0, 0, 1), end, zone)
		}
		switch {
		case !closes.After(now), !opens.Before(closes):
		case opens.After(now):
			return false, opens.Sub(now), nil
		default:
			return true, closes.Sub(now), nil
		}
	}
	return false, 0, nil
}

// neverOpens is how often a window that never opens is looked at.
const neverOpens = time.Minute

// Closed returns what is waited for while a maintenance window is closed, and for how long; "" and
// 0 while it is open. A window that never opens is looked at each minute.
func Closed(window *rolloutv1.Window, now time.Time) (message string, until time.Duration) {
	open, change, err := Open(window, now)
	switch {
	case err == nil && open:
		return "", 0
	case err != nil || change == 0:
		return "waiting for the maintenance window, which never opens", neverOpens
	}
	return "waiting for the maintenance window, which opens " + now.Add(change).UTC().Format("2006-01-02 15:04 MST"), change
}

// zoneOf returns the time zone of a name; "" is UTC. "Local" is refused, because it depends on the
// machine.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, errors.New("must be a name in the IANA time zone database, for example Europe/Berlin")
	}
	return zone, nil
}

// clock is a time of day.
type clock struct{ hour, minute int }

func (c clock) before(other clock) bool {
	return c.hour < other.hour || c.hour == other.hour && c.minute < other.minute
}

// wantClock is the message about an invalid time of day.
const wantClock = "must be a time of day from 00:00 to 23:59"

func parseClock(text string) (clock, error) {
	const layout = "15:04"
	var parsed time.Time
	err := errors.New("too long")
	if len(text) == len(layout) { // first, because an error of time.Parse quotes the text several times
		parsed, err = time.Parse(layout, text)
	}
	if err != nil {
		return clock{}, fmt.Errorf("%.100q %s", text, wantClock)
	}
	return clock{parsed.Hour(), parsed.Minute()}, nil
}

// dateOf returns the date of a time in its zone, as noon UTC, which no clock change moves to
// another date.
func dateOf(at time.Time) time.Time {
	year, month, day := at.Date()
	return time.Date(year, month, day, 12, 0, 0, 0, time.UTC)
}

// reaches returns the first moment at which the clocks of a zone show a time of day on a date, or
// skip it.
func reaches(date time.Time, at clock, zone *time.Location) time.Time {
	wall := time.Date(date.Year(), date.Month(), date.Day(), at.hour, at.minute, 0, 0, time.UTC)
	// time.Date does not document which of two moments it chooses, or how it maps a skipped time.
	found := time.Date(date.Year(), date.Month(), date.Day(), at.hour, at.minute, 0, 0, zone)
	since, until := found.ZoneBounds()
	shown := wallOf(found)
	switch {
	case shown.After(wall):
		return since
	case shown.Before(wall):
		return until
	case !since.IsZero():
		_, offset := since.Add(-time.Nanosecond).Zone()
		if earlier := wall.Add(-time.Duration(offset) * time.Second); earlier.Before(since) {
			return earlier.In(zone)
		}
	}
	return found
}

// wallOf returns what the clocks of the zone show at a moment, as a time in UTC.
func wallOf(at time.Time) time.Time {
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// weekdays are the names of the days, indexed by time.Weekday.
var weekdays = []rolloutv1.Day{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

func isOneOf(day time.Weekday, days []rolloutv1.Day) bool {
	return len(days) == 0 || slices.Contains(days, weekdays[day])
}
