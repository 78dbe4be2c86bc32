// Command parameters writes the table of the parameters that users may set, out of what servers of
// all versions say of their own. It is run when a version is added, not by make gen, which has no
// servers: a test compares the table with each server.
//
//	psql -XAtF "$(printf '\t')" -c "$(go run ./hack/parameters)" > 17.tsv    # on each version
//	go run ./hack/parameters 12.tsv 13.tsv ... > internal/postgres/parameters.tsv
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

func main() {
	if len(os.Args) == 1 {
		fmt.Println(postgres.ParametersQuery)
		return
	}
	described := map[int]string{}
	for _, path := range os.Args[1:] {
		major, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".tsv"))
		var content []byte
		if err == nil {
			content, err = os.ReadFile(path) //nolint:gosec // It is named on the command line.
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "parameters:", err)
			os.Exit(1)
		}
		described[major] = string(content)
	}
	fmt.Print(table(described))
}

// built are the values of which a server has those that it was built with. A server that lacks one
// says so when it reads its configuration.
var built = map[string]string{
	"default_toast_compression": "pglz,lz4", "wal_compression": "pglz,lz4,zstd,on,off", "io_method": "sync,worker,io_uring",
}

// ofAll returns what a version says of a parameter, with the values of every build.
func ofAll(name, rest string) string {
	fields := strings.Split(rest, "\t")
	if values := built[name]; values != "" && slices.Contains(fields, "enum") {
		fields[len(fields)-1] = values
	}
	return strings.Join(fields, "\t")
}

const introduction = "# Made by hack/parameters out of what servers say of themselves. Do not edit.\n" +
	"# name, first and last version, when a change takes effect, type, unit, least, most, values\n"

// table merges what each version says into ranges of versions that say the same.
func table(described map[int]string) string {
	type line struct {
		name, rest   string
		since, until int
	}
	var lines []line
	majors := make([]int, 0, len(described))
	for major := range described {
		majors = append(majors, major)
	}
	slices.Sort(majors)
	for _, major := range majors {
		for text := range strings.Lines(described[major]) {
			name, rest, _ := strings.Cut(strings.TrimSuffix(text, "\n"), "\t")
			if postgres.Refused(name) != "" {
				continue
			}
			rest = ofAll(name, rest)
			same := slices.IndexFunc(lines, func(l line) bool { return l.name == name && l.rest == rest && l.until == major-1 })
			if same >= 0 {
				lines[same].until = major
				continue
			}
			lines = append(lines, line{name: name, rest: rest, since: major, until: major})
		}
	}
	slices.SortFunc(lines, func(a, b line) int {
		if a.name != b.name {
			return strings.Compare(a.name, b.name)
		}
		return a.since - b.since
	})
	var out strings.Builder
	out.WriteString(introduction)
	for _, l := range lines {
		fmt.Fprintf(&out, "%s\t%d\t%d\t%s\n", l.name, l.since, l.until, l.rest)
	}
	return out.String()
}
