package setup

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// elsewhere names the tests that try a number of the table of limits exactly at it and one step
// beyond, by rows and numbers, where TestLimits does not: no text alone reaches the number, or what
// it allows costs more than the text is long.
func elsewhere() map[string]map[string]string {
	const intake, patterns, work = "TestIntakeAtItsLimits", "TestPatternsAtTheLimit", "TestWorkAtItsLimit"
	return map[string]map[string]string{
		"Secret `NAME-provisions` of a PostgreSQL": {"1,000 KiB are": "TestLongestProvisions"},
		"`spec.parameters` of a Cache":             {"8 KiB together": "TestLengthOfParameters"},
		"`spec.schema` of an AppConfig":            {"10,000 instructions": patterns, "200,000 together": patterns},
		"annotations of Stakater Reloader":         {"1 MiB of": "TestStakaterWork"},
		"review of an admission": {"7 MiB": intake, "28 MiB arrive": intake, "16 MiB more": intake, "64 KiB": intake, "1 MiB": intake,
			"192 MiB of": intake},
		"review of a conversion":                              {"16 MiB": intake, "64 MiB": intake, "16 MiB more": intake, "64 KiB": intake},
		"`components[].spec` of an AppStack":                  {"128 MiB of": work},
		"templates of an AppConfig":                           {"64 MiB of": work, "10,000 instructions": patterns, "200,000 together": patterns},
		"message of another instance of a database":           {"512 KiB": "TestLongestMessage"},
		"Secret of an application, in the pods of a database": {"1 KiB each": "TestLongestApplication"},
	}
}

// tableOfLimits returns the cells behind the first one, by the first one of each row.
func tableOfLimits(t *testing.T) (rows map[string]string, section string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("docs/threat-model.md has no section Limits")
	}
	rows = map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| (.+) \|$`).FindAllStringSubmatch(section, -1)[1:] {
		rows[row[1]] = row[2]
	}
	return rows, section
}

// A number with its unit and the word behind it: "256 KiB", "100 records", "7 MiB", "1 MiB each".
// What is quoted is no number of the table.
var (
	number = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?: [KM]iB)?(?: [a-z]+)?`)
	quoted = regexp.MustCompile("`[^`]*`")
)

// numbersOf returns the numbers of a row of the table.
func numbersOf(cells string) []string {
	return number.FindAllString(quoted.ReplaceAllString(cells, ""), -1)
}

// checkLimitsPage requires that the table of limits has the rows of the tests, and that the page
// says what these allow.
func checkLimitsPage(t *testing.T, all map[string]entry) {
	t.Helper()
	rows, section := tableOfLimits(t)
	names := slices.Collect(maps.Keys(all))
	for row := range elsewhere() {
		if _, isEntry := all[row]; !isEntry {
			names = append(names, row)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("the table of limits has other rows than the tests (-tests +table):\n%s", diff)
	}
	want := fmt.Sprintf("memory of at most %d times its length, besides %d MiB, and 1 ms of a processor for each KiB, besides %d ms", maxCost,
		constantCost>>20, constantTime.Milliseconds())
	if !strings.Contains(strings.Join(strings.Fields(section), " "), want) {
		t.Errorf("docs/threat-model.md does not say what TestLimits and TestHostileInput allow: %s", want)
	}
}

// TestEachLimitIsTried: each number of the table of limits has a text at it and one beyond in
// TestLimits, or its row names a test that tries it; and each test that the page names exists.
func TestEachLimitIsTried(t *testing.T) {
	rows, _ := tableOfLimits(t)
	tried, others, declared, count := limits(), elsewhere(), declaredTests(t), 0
	for row, cells := range rows {
		numbers := numbersOf(cells)
		count += len(numbers)
		for _, one := range numbers {
			_, isHere := tried[row][one]
			test, isElsewhere := others[row][one]
			switch {
			case isHere == isElsewhere:
				t.Errorf("%s, %q: tried by TestLimits: %t, by another test: %t", row, one, isHere, isElsewhere)
			case isElsewhere && !strings.Contains(cells, "`"+test+"`"):
				t.Errorf("%s, %q: the row does not name %s", row, one, test)
			}
		}
		for one := range others[row] {
			if !slices.Contains(numbers, one) {
				t.Errorf("%s: the row does not have %q, which %s tries", row, one, others[row][one])
			}
		}
	}
	if count < len(rows) {
		t.Errorf("only %d numbers were found in %d rows", count, len(rows))
	}
	page, err := os.ReadFile("../../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		if !declared[named[1]] {
			t.Errorf("docs/threat-model.md names %s, which does not exist", named[1])
		}
	}
}

// declaredTests returns the names of all tests of the product.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	declared, found := regexp.MustCompile(`(?m)^func (Test[A-Za-z]+)\(`), map[string]bool{}
	for _, root := range []string{"..", "../../test"} {
		err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			content, err := os.ReadFile(name) //nolint:gosec // a file of this repository
			for _, match := range declared.FindAllStringSubmatch(string(content), -1) {
				found[match[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
