package render

import "strings"

// isTemplate reports whether a text contains anything to render.
func isTemplate(text string) bool { return strings.Contains(text, "{{") }

// inActions returns how many bytes of a template are within {{ and }}. It finds the ends as
// text/template does, wherever that finds any.
func inActions(text string) int {
	size := 0
	for {
		_, rest, found := strings.Cut(text, "{{")
		if !found {
			return size
		}
		length := lengthOfAction(rest)
		size, text = size+length, rest[length:]
	}
}

// lengthOfAction returns the length of the action at the start of a text, up to its }} or the end
// of the text.
func lengthOfAction(text string) int {
	at := 0
	if isComment(text) {
		if at = strings.Index(text, "*/"); at < 0 {
			return len(text)
		}
	}
	for at < len(text) {
		switch {
		case strings.HasPrefix(text[at:], "}}"):
			return at
		case text[at] == '"' || text[at] == '\'' || text[at] == '`':
			at += lengthOfQuoted(text[at:])
		default:
			at++
		}
	}
	return len(text)
}

func isComment(text string) bool {
	trimmed, isTrimmed := strings.CutPrefix(text, "-")
	if isTrimmed {
		text = strings.TrimLeft(trimmed, " \t\r\n")
	}
	return strings.HasPrefix(text, "/*")
}

// lengthOfQuoted returns the length of the quoted text at the start of a text, with its quotes, or
// the whole length if the quote does not end.
func lengthOfQuoted(text string) int {
	for at := 1; at < len(text); at++ {
		switch {
		case text[at] == text[0]:
			return at + 1
		case text[at] == '\\' && text[0] != '`':
			at++
		}
	}
	return len(text)
}
