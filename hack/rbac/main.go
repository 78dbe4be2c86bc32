// Command rbac writes the rights of the manager from the +kubebuilder:rbac markers in the code. It
// writes one file for each optional part of an installation, so that the chart can grant the rights
// of the enabled parts.
//
// controller-gen's own generator silently ignores markers in the doc comment of a function. Ours
// are there, beside the calls that need the rights, so this one reads every comment and reports
// what it does not understand as an error. It refuses wildcards (security rule 1).
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	output := flag.String("output", "", "folder to write; what is in it and not written goes")
	flag.Parse()
	if err := run(*output, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "rbac:", err)
		os.Exit(1)
	}
}

func run(output string, roots []string) error {
	rules, err := collect(roots)
	if err != nil {
		return err
	}
	files, err := render(rules)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(output, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the rights: %w", err)
	}
	former, err := os.ReadDir(output)
	if err != nil {
		return fmt.Errorf("reading the folder of the rights: %w", err)
	}
	for _, file := range former {
		if _, stays := files[file.Name()]; !stays {
			if err := os.Remove(filepath.Join(output, file.Name())); err != nil {
				return fmt.Errorf("removing the rights of a removed part: %w", err)
			}
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(output, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the rights: %w", err)
		}
	}
	return nil
}
