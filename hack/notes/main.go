// Command notes writes the notes of a release from the changelog, or moves the unreleased entries
// into the release's folder.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/mainstay-platform/mainstay/changelog"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "notes:", err)
		os.Exit(1)
	}
}

func run(arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("notes", flag.ContinueOnError)
	root := flags.String("changelog", "changelog", "folder of the changelog")
	release := flags.String("version", "", "version of the release, such as 1.2.3")
	final := flags.Bool("final", false, "accept no unreleased entries, unless the version is before a release (1.2.3-rc.1)")
	move := flags.Bool("move", false, "write no notes: move the unreleased entries into the release's folder")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *move {
		return changelog.Release(*root, *release)
	}
	notes, err := changelog.Notes(*root, *release, *final)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, notes)
	return err
}
