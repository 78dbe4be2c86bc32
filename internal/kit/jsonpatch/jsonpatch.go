// Package jsonpatch computes a patch from a change of a typed object to the JSON that the object
// was decoded from. The patch has only that change, so that fields that the type does not know
// survive.
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

// Operation is an operation of RFC 6902.
type Operation struct {
	// Op is add, replace, remove or test.
	Op string `json:"op"`
	// Path is a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// Value is nil for remove only.
	Value any `json:"value,omitempty"`
}

// Between returns the operations that make the same change to raw that was made to the object that
// was decoded from it: from before to after. It returns none if there is no change. Raw may have
// fields that the type does not know, and values that it would omit. They survive, unless their
// parent is removed. List elements are matched by value and by name. A moved element is rewritten,
// without its unknown fields. Null counts as absent.
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

// treeOf returns an object's JSON as a tree. Numbers stay as they are written, because a float64
// can't represent every int64.
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

// changes collects operations in the order in which they must be applied.
type changes struct{ operations []Operation }

func (c *changes) add(op, at string, value any) {
	c.operations = append(c.operations, Operation{Op: op, Path: at, Value: value})
}

// escape escapes a path element as RFC 6901 requires.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// object compares the members of one object. before may be nil.
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
			c.add("add", path, added(before[name], after[name]))
		case isThere:
			c.add("remove", path, nil)
		}
	}
}

// added returns what a value has that the value before did not have. The type gives an absent
// object the zero values of its required fields, and those are not to be written.
func added(before, after any) any {
	earlier, _ := before.(map[string]any)
	later, isObject := after.(map[string]any)
	if earlier == nil || !isObject {
		return after
	}
	made := map[string]any{}
	for name, value := range later {
		if !reflect.DeepEqual(earlier[name], value) {
			made[name] = added(earlier[name], value)
		}
	}
	return made
}

// value compares a value that raw has and that differs. before is nil if the type omitted it.
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

// list removes elements from the end, then adds and changes from the start, so that each index is
// valid when its operation is applied.
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
