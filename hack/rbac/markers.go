package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const prefix = "+kubebuilder:rbac:"

// rule is one marker.
type rule struct {
	groups, resources, names, urls, verbs []string
	// parts of an installation that need the right.
	parts []string
	// namespace is the only namespace in which the right is needed; empty means all watched ones.
	namespace string
}

const (
	// ownNamespace stands for the manager's namespace in markers, whatever its name is in an
	// installation.
	ownNamespace = "mainstay-system"
	// defaultNamespace has the events about cluster-scoped objects.
	defaultNamespace = "default"
	// shared is the part with the rights that every installation needs.
	shared = "shared"
)

// partOf returns the part of markers without one: the kind in whose folder the file is.
func partOf(path string) string {
	_, below, isKind := strings.Cut(filepath.ToSlash(path), "internal/kinds/")
	if kind, _, isFolder := strings.Cut(below, "/"); isKind && isFolder {
		return kind
	}
	return shared
}

// collect reads the markers of all Go files below roots, except tests.
func collect(roots []string) ([]rule, error) {
	var rules []rule
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			found, err := parseFile(path, nil)
			rules = append(rules, found...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading the markers below %s: %w", root, err)
		}
	}
	return rules, nil
}

// parseFile reads the markers of one file; source replaces its content unless it is nil.
func parseFile(path string, source any) ([]rule, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var rules []rule
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text, isMarker := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")), prefix)
			if !isMarker {
				continue
			}
			parsed, err := parseMarker(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %s%s: %w", files.Position(comment.Pos()), prefix, text, err)
			}
			if len(parsed.parts) == 0 {
				parsed.parts = []string{partOf(path)}
			}
			rules = append(rules, parsed)
		}
	}
	return rules, nil
}

// parseMarker parses key=value pairs separated by commas; a value is a list separated by
// semicolons.
func parseMarker(text string) (rule, error) {
	var parsed rule
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return rule{}, fmt.Errorf("%q: must be key=value", pair)
		}
		values, err := list(value)
		if err != nil {
			return rule{}, err
		}
		switch key {
		case "groups":
			parsed.groups = values
		case "resources":
			parsed.resources = values
		case "resourceNames":
			parsed.names = values
		case "urls":
			parsed.urls = values
		case "verbs":
			parsed.verbs = values
		case "part":
			parsed.parts = values
		case "namespace":
			parsed.namespace = value
			if value != ownNamespace && value != defaultNamespace {
				return rule{}, fmt.Errorf("namespace %q is neither %s, which stands for the manager's own, nor %s", value, ownNamespace,
					defaultNamespace)
			}
		default:
			return rule{}, fmt.Errorf("unknown key %q", key)
		}
	}
	return parsed, parsed.validate()
}

// partName matches valid names of parts.
var partName = regexp.MustCompile(`^[a-z]+$`)

func (r rule) validate() error {
	switch {
	case len(r.verbs) == 0:
		return fmt.Errorf("verbs: required")
	case len(r.urls) > 0 && (len(r.groups) > 0 || len(r.resources) > 0 || r.namespace != ""):
		return fmt.Errorf("urls can't be used with groups or resources")
	case len(r.urls) == 0 && (len(r.groups) == 0 || len(r.resources) == 0):
		return fmt.Errorf("groups and resources, or urls: required")
	case slices.ContainsFunc(r.parts, func(part string) bool { return !partName.MatchString(part) }):
		return fmt.Errorf("part %q: must consist of lower-case letters", r.parts)
	case len(r.names) > 0 && slices.Contains(r.verbs, "create") && !slices.Contains(r.verbs, "patch"):
		// POST is authorized without a name. A server-side apply is a PATCH, whose name is in the path:
		// where it makes the object, the API server asks for create of that name too (k8s.io/apiserver,
		// handlers/patch.go).
		return fmt.Errorf("create can't be restricted to names, but with patch, for server-side apply")
	}
	for _, values := range [][]string{r.groups, r.resources, r.names, r.urls, r.verbs} {
		for _, value := range values {
			if strings.Contains(value, "*") {
				return fmt.Errorf("%q is a wildcard", value)
			}
		}
	}
	for _, verb := range r.verbs {
		if slices.Contains([]string{"escalate", "bind", "impersonate"}, verb) {
			return fmt.Errorf("%q would let the manager take any right", verb)
		}
	}
	return nil
}

// list splits a value; quotes allow an empty item, which is the core group.
func list(value string) ([]string, error) {
	var values []string
	for item := range strings.SplitSeq(value, ";") {
		if strings.HasPrefix(item, `"`) {
			unquoted, err := strconv.Unquote(item)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", item, err)
			}
			values = append(values, unquoted)
			continue
		}
		if item == "" {
			return nil, fmt.Errorf("an empty item needs quotes")
		}
		values = append(values, item)
	}
	return values, nil
}
