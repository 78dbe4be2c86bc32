package instances

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
)

// settable are the names of the parameters that docs/spec/cache.md says may be set.
func settable(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/spec/cache.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| what about | parameters |")
	table, _, _ = strings.Cut(table, "\n\n")
	var names []string
	for row := range strings.Lines(table) {
		_, list, _ := strings.Cut(strings.Trim(row, "|\n "), " | ")
		for _, found := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(list, -1) {
			names = append(names, found[1])
		}
	}
	if len(names) == 0 {
		t.Fatal("the page names no parameters")
	}
	return names
}

// admitted returns those of many values that a Cache may give to a parameter.
func admitted(name string) []string {
	var values []string
	for _, value := range []string{
		"-5", "-1", "0", "1", "100", "65535", "1048575", "1048576", "2147483647",
		"1kb", "1mb", "1024gb", "1025gb", "1%", "100%", "101%", "yes", "no", "on", "", "A", "KEg$lshzxetdmnA",
	} {
		c := &databasev1.Cache{Spec: databasev1.CacheSpec{Version: "9", Memory: resource.MustParse("64Mi"),
			Parameters: map[string]databasev1.ParameterValue{name: databasev1.ParameterValue(value)}}}
		cache.Default(c)
		if len(cache.Validate(c)) == 0 {
			values = append(values, value)
		}
	}
	return values
}

// TestCacheTakesParameters: what a Cache is admitted with, its server takes.
func TestCacheTakesParameters(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, inMemory, 1)
	values, rounds := map[string][]string{}, 0
	for _, name := range settable(t) {
		values[name] = admitted(name)
		if len(values[name]) == 0 {
			t.Errorf("%s: no value is admitted", name)
		}
		rounds = max(rounds, len(values[name]))
	}
	// How many clients there may be depends on how many files the program may open.
	values["maxclients"] = []string{"10", "1024"}
	for round := range rounds {
		// A parameter that no server has: once it is refused, all others were tried.
		marker := fmt.Sprintf("zz-round-%d", round)
		d.configure(func(s *contract.Settings) {
			s.Parameters = with(inMemory, marker, "1").Parameters
			for name, list := range values {
				s.Parameters[name] = list[min(round, len(list)-1)]
			}
		})
		said := ""
		d.Await("the refusal of "+marker, func() bool {
			said = d.Pods[0].Report(t.Context()).Problem
			return strings.Contains(said, marker) || strings.Contains(said, " more)")
		})
		if !strings.Contains(said, "does not accept the parameter "+marker) || strings.Contains(said, " more)") {
			t.Errorf("round %d: %s", round, said)
		}
	}
}
