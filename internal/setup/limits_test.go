package setup

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// pair is a text exactly at a limit, and one that is a single step beyond it.
type pair struct{ at, beyond string }

// stretched returns two texts of x between a beginning and an end: of so many bytes, and of one
// more.
func stretched(bytes int, before, after string) pair {
	text := func(length int) string { return before + strings.Repeat("x", length-len(before)-len(after)) + after }
	return pair{text(bytes), text(bytes + 1)}
}

// listed returns two lists: of so many items, and of one more.
func listed(count int, before, after string, item func(int) string) pair {
	text := func(length int) string {
		items := make([]string, length)
		for i := range items {
			items[i] = item(i)
		}
		return before + strings.Join(items, ",") + after
	}
	return pair{text(count), text(count + 1)}
}

// numbered returns an item of a list with its number.
func numbered(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

// crowded returns two texts with empty objects between a beginning and an end: as many as their
// length allows, and one more. The beginning and the end have an object each.
func crowded(before, after string) pair {
	text := func(count int) string { return before + strings.Repeat("{},", count) + after }
	count := 0
	for count+3 <= bounded.MaxObjects(len(text(count+1))) {
		count++
	}
	return pair{text(count), text(count + 1)}
}

// quantities returns the limits of a quantity, in a text around it.
func quantities(before, after string) map[string]pair {
	return map[string]pair{
		"exponent":       {before + `"1e30"` + after, before + `"1e31"` + after},
		"small exponent": {before + `"1e-30"` + after, before + `"1e-31"` + after},
		"digits":         {before + `"` + strings.Repeat("0", 63) + `1"` + after, before + `"` + strings.Repeat("0", 64) + `1"` + after},
	}
}

// and returns two sets of limits together.
func and(a, b map[string]pair) map[string]pair {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// levels returns an object of so many levels, within which a field is empty objects.
func levels(count int, before, after string) pair {
	text := func(depth int) string {
		return before + strings.Repeat(`{"x":`, depth) + "1" + strings.Repeat("}", depth) + after
	}
	return pair{text(count), text(count + 1)}
}

// limits are those of the table in docs/threat-model.md, by its rows: what a row has numbers for
// by these (see numbersOf), and what applies to all texts of a form in words.
func limits() map[string]map[string]pair {
	const image = `{"image":"reg.io/a:1",`
	all := databaseLimits()
	maps.Copy(all, specLimits())
	maps.Copy(all, map[string]map[string]pair{
		"annotation `instrumentation.mainstay.dev/injected`": and(quantities(injectedRecord+`,"sizeLimit":`, `}]`), map[string]pair{
			"256 KiB": stretched(256<<10, injectedRecord+`,"directory":"`, `"}]`),
			"100 records": listed(100, "[", "]",
				numbered(`{"id":"i%[1]d","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"c%[1]d"}]}`)),
			"3,000 variables": listed(3000, `[{"id":"a","image":"x","containers":[{"name":"app","env":[`, `]}]}]`, numbered(`{"name":"A%d"}`)),
		}),
		"annotation `config.mainstay.dev/observed`": {
			"256 KiB": stretched(256<<10, `{"sources":{"ConfigMap/a":{"all":"`, `"}}}`),
			"levels":  levels(99, `{"sources":{},"x":`, `}`),
		},
		"annotation `config.mainstay.dev/evicted`": {
			"256 KiB": stretched(256<<10, `{"of":"`, `"}`), "levels": levels(99, `{"of":"x","x":`, `}`),
		},
		"annotation `mainstay.dev/v1-spec`": and(quantities(`{"servicePort":81,"resources":{"limits":{"cpu":`, `}}}`), map[string]pair{
			"256 KiB": stretched(256<<10, `{"servicePort":81,"args":["`, `"]}`),
		}),
		"annotation `config.mainstay.dev/reload`": {"250 different": listed(250, "", "", numbered("name-%d"))},
		"annotation `config.mainstay.dev/pod-selector`": {"4,096": {
			"app in (" + strings.Repeat("a,", 2043) + "a)", "app in (" + strings.Repeat("a,", 2043) + "aa)"}},
		"annotations of Stakater Reloader": {
			"994 in":      stretched(994, "flags|", ""),
			"250 entries": {strings.Repeat("x+,", 249) + "fl.*", strings.Repeat("x+,", 250) + "fl.*"},
		},
		"review of an admission": and(quantities(`{"spec":{"image":"reg.io/a:1","resources":{"requests":{"cpu":`, `}}}}`), map[string]pair{
			"4 MiB for": stretched(4<<20, `{"spec":{"args":["`, `"]}}`), "levels": levels(99, `{"x":`, `}`),
			"objects": crowded(`{"x":[`, `{}]}`),
		}),
		"review of a conversion": {
			"500 objects": conversions(`{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp"}`),
			"512 bytes": conversions(`{"apiVersion":"apps.mainstay.dev/v1beta1","kind":"WebApp","metadata":{"labels":{"a":"` +
				strings.Repeat("x", 200) + `"}}}`),
		},
		"`components[].spec` of an AppStack": and(quantities(image+`"resources":{"limits":{"cpu":`, `}}}`), map[string]pair{
			"1 MiB each":     stretched(1<<20-len(`{"spec":}`), image+`"args":["`, `"]}`),
			"100 components": listed(100, "[", "]", func(int) string { return `{"image":"reg.io/a:1"}` }),
			"digits": {image + `"resources":{"limits":{"cpu":"` + strings.Repeat("0", 39) + `1"}}}`,
				image + `"resources":{"limits":{"cpu":"` + strings.Repeat("0", 40) + `1"}}}`}, // by the schema, as the next one
			"digits of the exponent": {image + `"resources":{"limits":{"cpu":"1e03"}}}`, image + `"resources":{"limits":{"cpu":"1e003"}}}`},
		}),
		"annotation `platform.mainstay.dev/depends-on`":  {"6,100": stretched(6100, "a,", "")},
		"annotation `platform.mainstay.dev/depended-on`": {"6,100": stretched(6100, "a,", "")},
		"templates of an AppConfig": {
			"1 MiB together": stretched(1<<20, "", "{{ 1 }}"),
			"128 KiB within": stretched(128<<10+len("{{}}"), "{{ `", "` }}"),
			"1 MiB rendered": stretched(1<<20-len("KEY"), "", ""),
			"10,000 loop":    {`{{ range 10000 }}{{ end }}`, `{{ range 10001 }}{{ end }}`},
		},
	})
	return all
}

// injectedRecord begins the record of one Injection.
const injectedRecord = `[{"id":"a","image":"x","mode":"InitContainer","mountPath":"/x","containers":[{"name":"app"}]`

// conversions returns the objects of two reviews: as many of one form as the length of the review
// allows, and one more.
func conversions(object string) pair {
	const around = len(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"1","desiredAPIVersion":"apps.mainstay.dev/v1","objects":[]}}`)
	count := freeConversions
	for count < freeConversions+(around+(count+1)*(len(object)+1)-1)/bytesPerConversion {
		count++
	}
	text := func(count int) string { return strings.TrimSuffix(strings.Repeat(object+",", count), ",") }
	return pair{text(count), text(count + 1)}
}

// cost is what a reading took: bytes that were allocated, and processor time.
type cost struct {
	bytes uint64
	time  time.Duration
}

func measured(read func()) cost {
	var before, after runtime.MemStats
	var began, ended syscall.Rusage
	runtime.ReadMemStats(&before)
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &began)
	read()
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ended)
	runtime.ReadMemStats(&after)
	spent := time.Duration(ended.Utime.Nano() + ended.Stime.Nano() - began.Utime.Nano() - began.Stime.Nano())
	return cost{after.TotalAlloc - before.TotalAlloc, spent}
}

// exceeds reports whether reading a text of a length has cost more than that justifies, beside
// constants.
func (c cost) exceeds(length, constantBytes int, constantTime time.Duration) bool {
	return c.bytes > uint64(maxCost*length+constantBytes) || c.time > constantTime+time.Duration(length)*time.Millisecond/1024
}

// TestLimits tries each limit exactly at it, where the text is read, and one step beyond, where it
// is not. Both cost memory and processor time in proportion to their length: at most 50 bytes for
// each byte, and 1 ms for each KiB, besides a constant.
func TestLimits(t *testing.T) {
	all := entries(t)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(limits()))); diff != "" {
		t.Errorf("rows without a text at the limit (-rows +limits):\n%s", diff)
	}
	for _, one := range all { // what is read once per process, such as schemas, is no part of the cost
		one.read(t, one.accepted)
	}
	for row, pairs := range limits() {
		for what, texts := range pairs {
			for text, want := range map[string]bool{texts.at: true, texts.beyond: false} {
				got := false
				spent := measured(func() { got = all[row].read(t, text) })
				if got != want {
					t.Errorf("%s, %s: %d bytes: read %t, want %t: %.80s...", row, what, len(text), got, want, text)
				}
				if spent.exceeds(len(text), fuzz.RaceCost*constantCost, constantTime) {
					t.Errorf("%s, %s: %d bytes took %d bytes and %s", row, what, len(text), spent.bytes, spent.time)
				}
			}
		}
	}
}
