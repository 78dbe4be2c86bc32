package bounded

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
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
		// encoding/json finds fields whatever the case of their letters.
		return fieldsOf(of)[strings.ToLower(key)], "." + key
	default:
		return nil, "." + key
	}
}

// known has the fields of struct types: a map[string]reflect.Type for each reflect.Type.
var known sync.Map

// fieldsOf returns the types of a struct's fields by their names in JSON, in lower case, including
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
		fields[strings.ToLower(name)] = field.Type
	}
	known.Store(of, fields)
	return fields
}
