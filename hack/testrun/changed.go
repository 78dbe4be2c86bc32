package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// isTest matches the names of functions that go test runs.
var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)\w*$`)

// testPackage is a package with tests.
type testPackage struct {
	// directory is the folder of its module; at is the package in it, such as
	// ./internal/kit/transport/retrytransport.
	directory, at string
	// tags are the build tags that its tests need.
	tags []string
	// tests are the names of the chosen tests, none for all of them.
	tests []string
}

// command returns the go test command that runs the chosen tests, or all that the package has, if
// any.
func (p testPackage) command(options ...string) goTest {
	arguments := slices.Clone(options)
	if len(p.tags) > 0 {
		arguments = append(arguments, "-tags", strings.Join(p.tags, ","))
	}
	if len(p.tests) > 0 {
		arguments = append(arguments, "-run", "^("+strings.Join(p.tests, "|")+")$")
	}
	return goTest{directory: p.directory, arguments: append(arguments, p.at), mayBeEmpty: len(p.tests) == 0}
}

// changedFiles returns the files that differ between a commit and the working tree, sorted and
// relative to the repository's root: changed, added, removed and untracked ones.
func changedFiles(ctx context.Context, root, base string) ([]string, error) {
	changed, err := git(ctx, root, "diff", "--name-only", "--no-renames", "-z", base, "--")
	if err != nil {
		return nil, err
	}
	added, err := git(ctx, root, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	files := strings.FieldsFunc(changed+added, func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return slices.Compact(files), nil
}

func git(ctx context.Context, root string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", arguments...)
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", arguments[0], withStderr(err))
	}
	return string(output), nil
}

// changedTests returns the tests, examples and fuzz targets that a change since base touches: those
// whose own code changed, and those that use a function, type or variable of the test files that
// changed. A change of the tested code itself changes no test.
func changedTests(ctx context.Context, root, base string) ([]testPackage, error) {
	files, err := changedFiles(ctx, root, base)
	if err != nil {
		return nil, err
	}
	// The changed lines of each file, by folder.
	folders := map[string]map[string][]lineRange{}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") || slices.ContainsFunc(strings.Split(file, "/"), isSkipped) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, file)); os.IsNotExist(err) {
			continue
		}
		changed, err := changedLines(ctx, root, base, file)
		if err != nil {
			return nil, err
		}
		folder := filepath.Dir(file)
		if folders[folder] == nil {
			folders[folder] = map[string][]lineRange{}
		}
		folders[folder][filepath.Base(file)] = changed
	}
	var found []testPackage
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		touched, err := touchedTests(filepath.Join(root, folder), folders[folder])
		if err != nil {
			return nil, err
		}
		directory, err := moduleOf(root, filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}
		at, err := filepath.Rel(directory, filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}
		for _, form := range touched {
			form.directory, form.at = directory, "./"+filepath.ToSlash(at)
			found = append(found, form)
		}
	}
	return found, nil
}

// lineRange is from its first line to its last.
type lineRange struct{ first, last int }

// hunk matches the header of a part of a diff without context; the groups are the first line in the
// new file and the number of lines.
var hunk = regexp.MustCompile(`(?m)^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// changedLines returns which lines of a file are new since base.
func changedLines(ctx context.Context, root, base, file string) ([]lineRange, error) {
	if _, err := git(ctx, root, "cat-file", "-e", base+":"+file); err != nil {
		return []lineRange{{1, 1 << 30}}, nil //nolint:nilerr // the whole file is new
	}
	diff, err := git(ctx, root, "diff", "--no-renames", "--unified=0", "--no-color", "--no-ext-diff", base, "--", file)
	if err != nil {
		return nil, err
	}
	var changed []lineRange
	for _, match := range hunk.FindAllStringSubmatch(diff, -1) {
		first, _ := strconv.Atoi(match[1])
		number := 1
		if match[2] != "" {
			number, _ = strconv.Atoi(match[2])
		}
		if number == 0 {
			// Only removals, between this line and the next.
			number = 2
		}
		changed = append(changed, lineRange{first, first + number - 1})
	}
	return changed, nil
}

// declared is a function, type, variable or constant of a test file.
type declared struct {
	name    string
	isTest  bool
	uses    map[string]bool
	changed bool
	// tags are the build tags of the file.
	tags []string
}

// touchedTests returns the tests in a folder that use changed lines of its test files, one value
// for each set of build tags that the tests need.
func touchedTests(folder string, changed map[string][]lineRange) ([]testPackage, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the tests in %s: %w", folder, err)
	}
	var all []declared
	for _, name := range names {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading the tests in %s: %w", folder, err)
		}
		tags, err := tagsOfFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the tests in %s: %w", folder, err)
		}
		for _, declaration := range file.Decls {
			for _, d := range declarations(files, declaration, changed[filepath.Base(name)]) {
				d.tags = tags
				all = append(all, d)
			}
		}
	}
	all = slices.DeleteFunc(spread(all), func(d declared) bool { return !d.isTest || !d.changed })
	var forms []testPackage
	for _, test := range all {
		at := slices.IndexFunc(forms, func(p testPackage) bool { return slices.Equal(p.tags, test.tags) })
		if at < 0 {
			at = len(forms)
			forms = append(forms, testPackage{tags: test.tags})
		}
		forms[at].tests = append(forms[at].tests, test.name)
	}
	slices.SortFunc(forms, func(a, b testPackage) int { return slices.Compare(a.tags, b.tags) })
	for i := range forms {
		slices.Sort(forms[i].tests)
		forms[i].tests = slices.Compact(forms[i].tests) // TestX of a package, and of the one of its external tests
	}
	return forms, nil
}

// declarations returns what one declaration declares.
func declarations(files *token.FileSet, declaration ast.Decl, changed []lineRange) []declared {
	of := func(name string, node ast.Node) declared {
		first, last := files.Position(node.Pos()).Line, files.Position(node.End()).Line
		d := declared{name: name, uses: map[string]bool{}, changed: slices.ContainsFunc(changed, func(r lineRange) bool {
			return r.first <= last && first <= r.last
		})}
		ast.Inspect(node, func(node ast.Node) bool {
			if identifier, ok := node.(*ast.Ident); ok && identifier.Name != name {
				d.uses[identifier.Name] = true
			}
			return true
		})
		return d
	}
	if function, ok := declaration.(*ast.FuncDecl); ok {
		d := of(function.Name.Name, function)
		d.isTest = function.Recv == nil && isTest.MatchString(d.name)
		return []declared{d}
	}
	var found []declared
	general, ok := declaration.(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range general.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			found = append(found, of(spec.Name.Name, spec))
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				found = append(found, of(name.Name, spec))
			}
		}
	}
	return found
}

// spread marks everything that uses something changed as changed, too. It goes by name, so it marks
// rather too much. A changed TestMain or init changes all.
func spread(all []declared) []declared {
	names := map[string]bool{}
	everything := false
	for _, d := range all {
		if d.changed {
			names[d.name] = true
			everything = everything || d.name == "TestMain" || d.name == "init"
		}
	}
	for more := true; more; {
		more = false
		for i := range all {
			if all[i].changed {
				continue
			}
			uses := everything
			for name := range all[i].uses {
				uses = uses || names[name]
			}
			if uses {
				all[i].changed, names[all[i].name], more = true, true, true
			}
		}
	}
	return slices.DeleteFunc(all, func(d declared) bool { return d.name == "TestMain" })
}

// tagsOf returns the build tags that a file requires.
func tagsOf(file *ast.File) (tags []string) {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if !constraint.IsGoBuild(comment.Text) {
				continue
			}
			if expression, err := constraint.Parse(comment.Text); err == nil {
				tags = append(tags, positive(expression)...)
			}
		}
	}
	return tags
}

// positive returns the tags of a build constraint that are not negated.
func positive(expression constraint.Expr) []string {
	switch expression := expression.(type) {
	case *constraint.TagExpr:
		return []string{expression.Tag}
	case *constraint.AndExpr:
		return append(positive(expression.X), positive(expression.Y)...)
	case *constraint.OrExpr:
		return append(positive(expression.X), positive(expression.Y)...)
	default:
		return nil
	}
}
