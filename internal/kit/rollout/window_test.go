package rollout_test

import (
	"strings"
	"testing"
	"time"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

func TestOpen(t *testing.T) {
	berlin := func(start, end string, days ...rolloutv1.Day) *rolloutv1.Window {
		return &rolloutv1.Window{Start: start, End: end, Days: days, TimeZone: "Europe/Berlin"}
	}
	utc := func(start, end string, days ...rolloutv1.Day) *rolloutv1.Window {
		return &rolloutv1.Window{Start: start, End: end, Days: days}
	}
	tests := map[string]struct {
		window *rolloutv1.Window
		now    string
		open   bool
		next   time.Duration
	}{
		"nil is always open":                   {nil, "2026-11-18T12:00:00Z", true, 0},
		"before the start":                     {utc("12:00", "14:00"), "2026-11-18T11:59:00Z", false, time.Minute},
		"at its start":                         {utc("12:00", "14:00"), "2026-11-18T12:00:00Z", true, 2 * time.Hour},
		"just before its end":                  {utc("12:00", "14:00"), "2026-11-18T13:59:59Z", true, time.Second},
		"at its end":                           {utc("12:00", "14:00"), "2026-11-18T14:00:00Z", false, 22 * time.Hour},
		"over midnight, in the evening":        {utc("22:00", "04:00"), "2026-11-18T23:00:00Z", true, 5 * time.Hour},
		"over midnight, in the morning":        {utc("22:00", "04:00"), "2026-11-18T03:00:00Z", true, time.Hour},
		"over midnight, at noon":               {utc("22:00", "04:00"), "2026-11-18T12:00:00Z", false, 10 * time.Hour},
		"on its day":                           {utc("12:00", "14:00", "Wed"), "2026-11-18T13:00:00Z", true, time.Hour},
		"on another day":                       {utc("12:00", "14:00", "Tue", "Fri"), "2026-11-18T13:00:00Z", false, 47 * time.Hour},
		"its day has passed":                   {utc("12:00", "14:00", "Wed"), "2026-11-18T14:00:00Z", false, 166 * time.Hour},
		"the morning after its day":            {utc("22:00", "04:00", "Tue"), "2026-11-18T03:00:00Z", true, time.Hour},
		"the morning of its day":               {utc("22:00", "04:00", "Wed"), "2026-11-18T03:00:00Z", false, 19 * time.Hour},
		"by the clock of its zone":             {berlin("22:00", "23:00"), "2026-11-18T21:30:00Z", true, 30 * time.Minute},
		"by the day of its zone":               {berlin("00:00", "01:00", "Thu"), "2026-11-18T23:30:00Z", true, 30 * time.Minute},
		"spring: the hour is missing":          {berlin("01:00", "04:00"), "2026-03-29T00:30:00Z", true, 90 * time.Minute},
		"spring: its start is missing":         {berlin("02:30", "04:00"), "2026-03-29T00:59:00Z", false, time.Minute},
		"spring: open from the change on":      {berlin("02:30", "04:00"), "2026-03-29T01:00:00Z", true, time.Hour},
		"spring: its end is missing":           {berlin("01:00", "02:30"), "2026-03-29T00:30:00Z", true, 30 * time.Minute},
		"spring: the whole window is missing":  {berlin("02:15", "02:45"), "2026-03-29T00:30:00Z", false, 23*time.Hour + 45*time.Minute},
		"spring: missing on its only day":      {berlin("02:15", "02:45", "Sun"), "2026-03-29T00:30:00Z", false, 7*24*time.Hour - 15*time.Minute},
		"spring: the night before":             {berlin("22:00", "04:00"), "2026-03-28T21:00:00Z", true, 5 * time.Hour},
		"autumn: the hour comes twice":         {berlin("01:00", "04:00"), "2026-10-24T23:00:00Z", true, 4 * time.Hour},
		"autumn: its start, the first time":    {berlin("02:30", "04:00"), "2026-10-25T00:30:00Z", true, 150 * time.Minute},
		"autumn: its start, the second time":   {berlin("02:30", "04:00"), "2026-10-25T01:30:00Z", true, 90 * time.Minute},
		"autumn: its end, the first time":      {berlin("01:00", "02:30"), "2026-10-25T00:29:00Z", true, time.Minute},
		"autumn: between its end and its end":  {berlin("01:00", "02:30"), "2026-10-25T01:15:00Z", false, 22*time.Hour + 45*time.Minute},
		"autumn: all of it twice, first time":  {berlin("02:15", "02:45"), "2026-10-25T00:20:00Z", true, 25 * time.Minute},
		"autumn: all of it twice, second time": {berlin("02:15", "02:45"), "2026-10-25T01:20:00Z", false, 23*time.Hour + 55*time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now, err := time.Parse(time.RFC3339, test.now)
			if err != nil {
				t.Fatal(err)
			}
			open, next, err := rollout.Open(test.window, now)
			if err != nil {
				t.Fatal(err)
			}
			if open != test.open || next != test.next {
				t.Errorf("Open = %t, changes after %s; want %t, %s", open, next, test.open, test.next)
			}
		})
	}
}

// TestLongTimes: a time of day of any length is refused at a price that grows only with its length.
func TestLongTimes(t *testing.T) {
	text := "22:00" + strings.Repeat("\xed\xa0\x80", 1<<19)
	defer fuzz.Budget(t, text)()
	if problems := rollout.ValidateWindow(&rolloutv1.Window{Start: text, End: "04:00"}, nil); len(problems) != 1 {
		t.Errorf("%d problems", len(problems))
	}
}

// FuzzOpen checks, for any window at any time, that the result changes exactly after the duration
// that Open returns.
func FuzzOpen(f *testing.F) {
	fuzz.AddBombs(f, "22:00", "04:00", "Europe/Berlin", "Sun", int64(1_774_746_000))
	f.Add("02:15", "02:45", "Europe/Berlin", "", int64(1_792_890_000))
	f.Add("00:00", "23:59", "America/St_Johns", "Mon", int64(1_700_000_000))
	f.Fuzz(func(t *testing.T, start, end, zone, day string, seconds int64) {
		defer fuzz.Budget(t, start, end, zone, day)()
		window := &rolloutv1.Window{Start: start, End: end, TimeZone: zone}
		if day != "" {
			window.Days = []rolloutv1.Day{rolloutv1.Day(day)}
		}
		if len(rollout.ValidateWindow(window, nil)) > 0 {
			return
		}
		now := time.Unix(seconds%4_000_000_000, 0)
		open, next, err := rollout.Open(window, now)
		if err != nil {
			t.Fatalf("a valid window has an error: %v", err)
		}
		if next <= 0 {
			t.Fatalf("%+v never changes after %s", window, now)
		}
		before, _, _ := rollout.Open(window, now.Add(next-time.Nanosecond))
		after, _, _ := rollout.Open(window, now.Add(next))
		if before != open || after == open {
			t.Fatalf("%+v at %s: open %t for %s, but just before the end %t and after it %t", window, now, open, next, before, after)
		}
	})
}
