package summary

import "fmt"

// Rule is one thing that may be said about an A. A kind has an ordered list of rules, which is the
// specification of its summary.
type Rule[A any] struct {
	severity Severity
	reason   string
	message  func(about A) string
}

// When returns a rule that applies where message is not empty.
func When[A any](severity Severity, reason string, message func(about A) string) Rule[A] {
	return Rule[A]{severity, reason, message}
}

// First returns the summary of the first rule that applies; the zero value if none does.
func First[A any](about A, rules []Rule[A]) Summary {
	for _, rule := range rules {
		if message := rule.message(about); message != "" {
			return Summary{rule.severity, rule.reason, message}
		}
	}
	return Summary{}
}

// If returns a formatted message if a rule applies, and "" otherwise.
func If(applies bool, format string, values ...any) string {
	if !applies {
		return ""
	}
	return fmt.Sprintf(format, values...)
}
