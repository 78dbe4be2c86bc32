// Command rbac writes the roles of the manager from the +kubebuilder:rbac markers in the code.
//
// controller-gen's own generator passes over markers in the doc comment of a function without
// a word. Ours stand there, beside the calls that need the rights, so this one reads every
// comment; and what it does not understand is an error. It refuses wildcards (security rule 1).
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	output := flag.String("output", "", "file to write")
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
	content, err := render(rules)
	if err != nil {
		return err
	}
	if err := os.WriteFile(output, content, 0o644); err != nil {
		return fmt.Errorf("writing the roles: %w", err)
	}
	return nil
}
