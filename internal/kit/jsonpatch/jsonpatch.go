// Package jsonpatch says what a change of a typed object changes in the JSON that the object was read from: no more
// than that, so that what the type does not know stays as it was.
package jsonpatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Operation is one of RFC 6902.
type Operation struct {
	// Op is add, replace or remove.
	Op string `json:"op"`
	// Path is a JSON pointer, RFC 6901.
	Path string `json:"path"`
	// Value is nil for remove, and for nothing else.
	Value any `json:"value,omitempty"`
}

// Between are the operations that do to raw what was done to the object that was read from it: before, which became
// after. None is for no change. Raw may have fields that the type does not know, and values that it would leave out:
// they survive, unless what they are in is removed. Elements of lists are recognised by their value and by their
// name; one that was moved is written anew, without its unknown fields. Null counts as absent.
func Between(raw []byte, before, after any) ([]Operation, error) {
	var trees [3]map[string]any
	for i, object := range []any{json.RawMessage(raw), before, after} {
		var err error
		if trees[i], err = treeOf(object); err != nil {
			return nil, fmt.Errorf("comparing an object with what it was before: %w", err)
		}
	}
	changes := &changes{}
	changes.object("", trees[0], trees[1], trees[2])
	return changes.operations, nil
}

// treeOf is an object's JSON. Numbers stay as they are written: a float64 has no room for each int64.
func treeOf(object any) (map[string]any, error) {
	encoded, ok := object.(json.RawMessage)
	if !ok {
		var err error
		if encoded, err = json.Marshal(object); err != nil {
			return nil, err
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	var tree map[string]any
	return tree, decoder.Decode(&tree)
}

// changes collects operations in the order in which they must be done.
type changes struct{ operations []Operation }

func (c *changes) add(op, at string, value any) {
	c.operations = append(c.operations, Operation{Op: op, Path: at, Value: value})
}

// escape is what RFC 6901 asks for in a path.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// object compares the members of one object; before may be nil.
func (c *changes) object(at string, raw, before, after map[string]any) {
	names := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		path := at + "/" + escape.Replace(name)
		value, isThere := raw[name]
		switch {
		case reflect.DeepEqual(before[name], after[name]):
		case after[name] != nil && isThere:
			c.value(path, value, before[name], after[name])
		case after[name] != nil:
			c.add("add", path, after[name])
		case isThere:
			c.add("remove", path, nil)
		}
	}
}

// value compares what is there in raw, and differs. Before is nil where the type left out what is there.
func (c *changes) value(at string, raw, before, after any) {
	switch raw := raw.(type) {
	case map[string]any:
		earlier, _ := before.(map[string]any)
		if later, ok := after.(map[string]any); ok {
			c.object(at, raw, earlier, later)
			return
		}
	case []any:
		earlier, _ := before.([]any)
		if later, ok := after.([]any); ok && len(earlier) == len(raw) {
			c.list(at, raw, earlier, later)
			return
		}
	}
	c.add("replace", at, after)
}

// list removes from the end on, and then goes up, so that each index is right when its operation is done.
func (c *changes) list(at string, raw, before, after []any) {
	from := kept(before, after)
	isKept := make([]bool, len(before))
	for _, j := range from {
		if j >= 0 {
			isKept[j] = true
		}
	}
	for i, stays := range slices.Backward(isKept) {
		if !stays {
			c.add("remove", at+"/"+strconv.Itoa(i), nil)
		}
	}
	for i, value := range after {
		path := at + "/" + strconv.Itoa(i)
		switch j := from[i]; {
		case j < 0:
			c.add("add", path, value)
		case !reflect.DeepEqual(before[j], value):
			c.value(path, raw[j], before[j], value)
		}
	}
}
