package render

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"
)

// lineError is a problem within a value.
type lineError struct {
	line int
	text string
}

func (e lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// treeName is the name of our templates in Go's errors.
const treeName = "value"

// parsed is a parsed template.
type parsed struct {
	text string
	// tree is nil for a text that is no template.
	tree *parse.Tree
	// nodes is what it costs to execute each node once.
	nodes int
	// uses are the keys of .Values that it names, with their first positions.
	uses map[string]parse.Pos
	// usesAll reports that it uses .Values in ways that do not show the keys.
	usesAll bool
}

// line returns the line of a position. It is computed only for messages.
func (p *parsed) line(at parse.Pos) int { return lineAt(p.text, int(at)) }

func lineAt(text string, at int) int { return 1 + strings.Count(text[:min(at, len(text))], "\n") }

func (p *parsed) hasUse(key string) bool { _, uses := p.uses[key]; return uses }

// read parses a template and refuses what is not accepted, such as a field that is neither .Values
// nor one of the given.
func read(text string, fields []string) (*parsed, error) {
	found := &parsed{text: text, uses: map[string]parse.Pos{}}
	if !isTemplate(text) {
		return found, nil
	}
	if actions := strings.Count(text, "{{"); actions > maxActions {
		return nil, fmt.Errorf("contains {{ %d times: must be at most %d", actions, maxActions)
	}
	tree := parse.New(treeName)
	tree.Mode = parse.SkipFuncCheck // inspection has better messages
	all := map[string]*parse.Tree{}
	tree, err := tree.Parse(text, "", "", all)
	if err != nil {
		return nil, plain(err)
	}
	if len(all) > 1 || all[treeName] != nil && all[treeName] != tree {
		before := define.Split(text, 2)[0]
		return nil, lineError{lineAt(text, len(before)), "{{define}} and {{block}} are not accepted: write the text where it belongs"}
	}
	inspecting := inspection{template: found, fields: fields}
	found.nodes = inspecting.list(tree.Root, true)
	if inspecting.problem != nil {
		return nil, inspecting.problem
	}
	found.tree = tree
	return found, nil
}

var define = regexp.MustCompile(`\{\{-?\s*(define|block)\b`)

// noise matches what Go writes before the text of an error: the name of the template, the line, the
// column, what was executed and, for a function's error, its name.
var noise = regexp.MustCompile(`^template: ` + treeName + `:(\d+)(?::\d+)?: (?:executing "` + treeName + `" at <([^\n]*?)>: )?(?s:(.*))$`)

// plain returns an error of text/template in a form for users.
func plain(err error) error {
	match := noise.FindStringSubmatch(err.Error())
	if match == nil {
		return err
	}
	line, _ := strconv.Atoi(match[1])
	text := match[3]
	if own, ok := errors.AsType[functionError](err); ok {
		text = own.Error()
	} else if match[2] != "" {
		text = match[2] + ": " + text
	}
	return lineError{line, text}
}

// newBase returns what the templates of one Render have in common: the functions, which charge the
// meter. Creating it costs more than most templates do.
func newBase(meter *meter) *template.Template {
	return template.New("").Option("missingkey=error").Funcs(bound(meter))
}

// run executes a template.
func (p *parsed) run(data map[string]any, base *template.Template, meter *meter) (string, error) {
	ready, err := base.AddParseTree(treeName, p.tree)
	if err != nil {
		return "", plain(err)
	}
	if err := meter.work(p.nodes * nodeWork); err != nil {
		return "", err
	}
	into := &limited{meter: meter}
	if err := ready.Execute(into, data); err != nil {
		return "", plain(err)
	}
	if !utf8.ValidString(into.text.String()) {
		return "", errors.New("renders invalid UTF-8: a ConfigMap's data must be text in UTF-8")
	}
	return into.text.String(), nil
}

// limited is a text with a maximum length.
type limited struct {
	text  strings.Builder
	meter *meter
}

var _ io.Writer = (*limited)(nil)

// Write appends to the text.
func (l *limited) Write(more []byte) (int, error) {
	if l.text.Len()+len(more) > maxContent {
		return 0, errTooLong
	}
	if err := l.meter.work(len(more)); err != nil {
		return 0, err
	}
	return l.text.Write(more)
}

// guard is the function that inspection appends to each range. A template that names it is refused,
// because it is not in functions.
const guard = "countLoop"

// scribe is the function that inspection appends to each output: Go would print a list as [a b],
// and nil as <no value>.
const scribe = "writeOut"

// inspection walks a template: it collects the values that are used, refuses what is not accepted,
// and appends a guard to each range.
type inspection struct {
	template *parsed
	// fields are those of the template's data, without Values.
	fields []string
	// variables is how many have been declared so far.
	variables int
	problem   error
}

// search returns what it costs to find a variable, in nodes: text/template compares its name with
// that of each variable that was declared later.
func (i *inspection) search() int {
	const perNode = 16 // names that are compared in the time of a node
	return i.variables / perNode
}

// costOf returns what a node without operands costs, in nodes.
func (i *inspection) costOf(node parse.Node) int {
	if _, isVariable := node.(*parse.VariableNode); isVariable {
		return 1 + i.search()
	}
	return 1
}

// refuse records the first problem.
func (i *inspection) refuse(at parse.Pos, format string, arguments ...any) {
	if i.problem == nil {
		i.problem = lineError{i.template.line(at), fmt.Sprintf(format, arguments...)}
	}
}

// list inspects the content of an action or of the template. isRoot reports that the dot is the
// template's data. It returns the number of nodes.
func (i *inspection) list(list *parse.ListNode, isRoot bool) int {
	if list == nil {
		return 0
	}
	nodes := 1
	for _, node := range list.Nodes {
		nodes += i.node(node, isRoot)
	}
	return nodes
}

// node inspects one node, inserts the calls of guard and scribe, and returns how many nodes it has.
// isRoot reports that the dot is the root of the values.
func (i *inspection) node(node parse.Node, isRoot bool) int {
	switch node := node.(type) {
	case *parse.ActionNode:
		nodes := i.pipe(node.Pipe, isRoot)
		if len(node.Pipe.Decl) == 0 {
			node.Pipe.Cmds = append(node.Pipe.Cmds, calling(scribe, node.Pos))
		}
		return nodes + 1
	case *parse.IfNode:
		return i.pipe(node.Pipe, isRoot) + i.list(node.List, isRoot) + i.list(node.ElseList, isRoot)
	case *parse.WithNode:
		return i.pipe(node.Pipe, isRoot) + i.list(node.List, false) + i.list(node.ElseList, isRoot)
	case *parse.RangeNode:
		nodes := i.pipe(node.Pipe, isRoot)
		body := i.list(node.List, false)
		count := &parse.NumberNode{NodeType: parse.NodeNumber, Pos: node.Pos, IsInt: true, Int64: int64(1 + body), Text: strconv.Itoa(1 + body)}
		node.Pipe.Cmds = append(node.Pipe.Cmds, calling(guard, node.Pos, count))
		return nodes + body + i.list(node.ElseList, isRoot)
	case *parse.TemplateNode:
		i.refuse(node.Pos, "{{template}} is not accepted: write the text where it belongs")
	}
	return 1
}

// calling returns a command that calls a function.
func calling(name string, at parse.Pos, arguments ...parse.Node) *parse.CommandNode {
	called := parse.NewIdentifier(name).SetPos(at)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at, Args: append([]parse.Node{called}, arguments...)}
}

func (i *inspection) pipe(pipe *parse.PipeNode, isRoot bool) int {
	if pipe == nil {
		return 0
	}
	nodes := 1
	for _, command := range pipe.Cmds {
		nodes += 1 + i.command(command, isRoot)
	}
	switch {
	case pipe.IsAssign:
		nodes += len(pipe.Decl) * i.search()
	default:
		i.variables += len(pipe.Decl)
	}
	return nodes
}

func (i *inspection) command(command *parse.CommandNode, isRoot bool) int {
	arguments, nodes := command.Args, 0
	if key, at, ok := indexedKey(arguments, isRoot); ok {
		i.use(key, at)
		arguments, nodes = arguments[3:], 3
	}
	for _, argument := range arguments {
		nodes += i.argument(argument, isRoot)
	}
	return nodes
}

// indexedKey returns the key in: index .Values "some.key".
func indexedKey(arguments []parse.Node, isRoot bool) (string, parse.Pos, bool) {
	if len(arguments) < 3 {
		return "", 0, false
	}
	name, isName := arguments[0].(*parse.IdentifierNode)
	key, isText := arguments[2].(*parse.StringNode)
	path := fromRoot(arguments[1], isRoot)
	if !isName || name.Ident != "index" || !isText || !slices.Equal(path, []string{"Values"}) {
		return "", 0, false
	}
	return key.Text, key.Pos, true
}

// fromRoot returns the fields that a node selects from the template's data: .Values.HOST or
// $.Values.HOST; nil if it selects none.
func fromRoot(node parse.Node, isRoot bool) []string {
	switch node := node.(type) {
	case *parse.FieldNode:
		if isRoot {
			return node.Ident
		}
	case *parse.VariableNode:
		if node.Ident[0] == "$" {
			return node.Ident[1:]
		}
	}
	return nil
}

// argument inspects an operand and returns the number of its nodes.
func (i *inspection) argument(node parse.Node, isRoot bool) int {
	path := fromRoot(node, isRoot)
	switch {
	case len(path) > 1 && path[0] == "Values":
		i.use(path[1], node.Position())
		return i.costOf(node)
	case len(path) == 1 && path[0] == "Values":
		i.template.usesAll = true
		return i.costOf(node)
	case len(path) > 0 && !slices.Contains(i.fields, path[0]):
		accepted := ".Values.KEY"
		if len(i.fields) > 0 {
			accepted = "." + strings.Join(i.fields, ", .") + " or " + accepted
		}
		i.refuse(node.Position(), ".%s does not exist: must be %s", path[0], accepted)
		return 1
	}
	switch node := node.(type) {
	case *parse.IdentifierNode:
		if _, known := slices.BinarySearch(functionNames, node.Ident); !known {
			i.refuse(node.Pos, "there is no function %s: must be one of %s", node.Ident, strings.Join(functionNames, ", "))
		}
	case *parse.DotNode:
		i.template.usesAll = i.template.usesAll || isRoot
	case *parse.VariableNode:
		i.template.usesAll = i.template.usesAll || len(node.Ident) == 1 && node.Ident[0] == "$"
	case *parse.NumberNode:
		if !node.IsFloat && !node.IsInt && !node.IsUint {
			i.refuse(node.Pos, "%s is not a supported number", node.Text)
		}
	case *parse.PipeNode:
		return i.pipe(node, isRoot)
	case *parse.ChainNode:
		return 1 + i.argument(node.Node, isRoot)
	}
	return i.costOf(node)
}

// use records that the template uses a key of the values.
func (i *inspection) use(key string, at parse.Pos) {
	if i.template.hasUse(key) {
		return
	}
	if len(i.template.uses) == maxUses {
		i.refuse(at, "uses more than %d keys", maxUses)
		return
	}
	i.template.uses[key] = at
}

// countLoop returns the guard as a template function.
func countLoop(meter *meter) func(nodes int, collection reflect.Value) (reflect.Value, error) {
	return func(nodes int, collection reflect.Value) (reflect.Value, error) {
		if err := meter.loop(nodes, collection); err != nil {
			return reflect.Value{}, functionError{err}
		}
		return collection, nil
	}
}

// writeOut is the scribe as a template function.
func writeOut(value any) (string, error) {
	switch value.(type) {
	case []any, map[string]any:
		return "", functionError{fmt.Errorf("%s can't be written: use join or toJson", kindOf(value))}
	case nil:
		return "", functionError{errors.New("there is nothing to write: use default")}
	default:
		return written(value), nil
	}
}
