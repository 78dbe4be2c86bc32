package render

import (
	"strings"
	"testing"
	"text/template/parse"

	"github.com/mainstay-platform/mainstay/test/fuzz"
)

func TestInActions(t *testing.T) {
	tests := map[string]struct {
		text string
		want int
	}{
		"none":                    {"a }} b", 0},
		"one":                     {"a {{b}} c", 1},
		"two":                     {"{{b}}{{ c }} }}", 4},
		"no end":                  {"{{abc", 3},
		"the end within a text":   {`{{"}}" 1}}x`, 6},
		"a quote within a text":   {`{{"\"}}" 1}}x`, 8},
		"the end, raw":            {"{{`\\` 1}}x}}", 5},
		"the end within a letter": {`{{'}}' 1}}x`, 6},
		"a text without end":      {`{{"}} x`, 5},
		"a comment":               {`{{/* "don't" */}}x {{a}}`, 14},
		"a trimmed comment":       {"{{- /* ` */ -}}x {{a}}", 12},
		"a comment with an end":   {`{{/* }} */}}x`, 8},
		"a comment without end":   {`{{/* }} x`, 7},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := inActions(test.text); got != test.want {
				t.Errorf("%d bytes, want %d", got, test.want)
			}
		})
	}
}

// FuzzInActions: the result is no less than what text/template finds within actions.
func FuzzInActions(f *testing.F) {
	for _, text := range []string{"a{{ .A }}b", `{{ print "}}" 'a' }}c`, "{{/* }} */}}b{{ `\\` }}", `{{ "\"" }}{{ if true }}x{{ end }}`} {
		f.Add(text)
	}
	fuzz.AddBombs(f, "a{{ .A }}b")
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzz.Budget(t, text)()
		if strings.Contains(text, "{{-") || strings.Contains(text, "-}}") {
			return // trimmed text is neither
		}
		tree := parse.New(treeName)
		tree.Mode = parse.SkipFuncCheck
		all := map[string]*parse.Tree{}
		if _, err := tree.Parse(text, "", "", all); err != nil || len(all) > 1 || all[treeName] != nil && all[treeName] != tree {
			return
		}
		const braces = 4
		within := len(text) - lengthOfTexts(tree.Root) - braces*strings.Count(text, "{{")
		if got := inActions(text); got < within {
			t.Errorf("%d bytes are found within actions, of %d", got, within)
		}
	})
}

func lengthOfTexts(list *parse.ListNode) int {
	if list == nil {
		return 0
	}
	size := 0
	for _, node := range list.Nodes {
		switch node := node.(type) {
		case *parse.TextNode:
			size += len(node.Text)
		case *parse.IfNode:
			size += lengthOfTexts(node.List) + lengthOfTexts(node.ElseList)
		case *parse.WithNode:
			size += lengthOfTexts(node.List) + lengthOfTexts(node.ElseList)
		case *parse.RangeNode:
			size += lengthOfTexts(node.List) + lengthOfTexts(node.ElseList)
		}
	}
	return size
}
