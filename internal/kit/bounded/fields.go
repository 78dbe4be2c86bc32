package bounded

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode"
)

// jsonUnmarshaler is the interface of types that parse themselves.
var jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

// indirect returns the type behind pointers.
func indirect(of reflect.Type) reflect.Type {
	for of != nil && of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of
}

// fieldOf returns the type of a field of an object, nil if it has none, and how a path names the
// field.
func fieldOf(of reflect.Type, key string) (field reflect.Type, step string) {
	switch {
	case of == nil || of != quantity && reflect.PointerTo(of).Implements(jsonUnmarshaler):
		return nil, "." + key
	case of.Kind() == reflect.Map:
		return of.Elem(), "[" + key + "]"
	case of.Kind() == reflect.Struct:
		return fieldsOf(of)[folded(key)], "." + key
	default:
		return nil, "." + key
	}
}

// folded returns a name as encoding/json compares it: each letter is the first of those that differ
// in case only, such as S for s and ſ.
func folded(name string) string {
	return strings.Map(func(letter rune) rune {
		for next := unicode.SimpleFold(letter); next != letter; letter, next = next, unicode.SimpleFold(next) {
			if next <= letter {
				return next
			}
		}
		return letter
	}, name)
}

// known has the fields of struct types: a map[string]reflect.Type for each reflect.Type.
var known sync.Map

// fieldsOf returns the types of a struct's fields by their names in JSON, folded, including
// those of embedded structs.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	if found, ok := known.Load(of); ok {
		return found.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if embedded := indirect(field.Type); field.Anonymous && name == "" && embedded.Kind() == reflect.Struct {
			for inner, innerType := range fieldsOf(embedded) {
				if _, shadowed := fields[inner]; !shadowed {
					fields[inner] = innerType
				}
			}
			continue
		}
		if name == "" {
			name = field.Name
		}
		fields[folded(name)] = field.Type
	}
	known.Store(of, fields)
	return fields
}
