package appconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schemaSize is how much a schema has, each reference counted as what it refers to: references that fan out would else
// keep a validator busy for ever.
type schemaSize struct {
	// once are the values that a validator looks at once, and perKey those that it looks at for each key.
	once, perKey int
	// readOnce and readPerKey are how often whole values are gone over, likewise.
	readOnce, readPerKey int
	depth                int
	// isForAll tells that all have to be looked at for each key, as what has not been evaluated must be known.
	isForAll bool
}

// with adds a part of what has this size.
func (s schemaSize) with(part schemaSize) schemaSize {
	const far = 1 << 30 // far beyond what is accepted, and no int is too small for it
	return schemaSize{
		once: min(s.once+part.once, far), perKey: min(s.perKey+part.perKey, far),
		readOnce: min(s.readOnce+part.readOnce, far), readPerKey: min(s.readPerKey+part.readPerKey, far),
		depth: max(s.depth, part.depth+1), isForAll: s.isForAll || part.isForAll,
	}
}

// forEachKey is the size of what is looked at for each key.
func (s schemaSize) forEachKey() schemaSize {
	s.once, s.perKey = 0, s.once+s.perKey
	s.readOnce, s.readPerKey = 0, s.readOnce+s.readPerKey
	return s
}

// accepts tells why a config can't be checked: a validator would take too long, or note too much.
func (s schemaSize) accepts(config map[string]string) error {
	visits := s.once + s.perKey*len(config)
	if s.isForAll {
		visits = (s.once + s.perKey) * (1 + len(config))
	}
	if visits > maxVisits {
		return fmt.Errorf("for the %d keys of config %d of its values would have to be looked at, those for every key each time; accepted are %d: use properties", len(config), visits, maxVisits)
	}
	longest, all := 0, 0
	for _, value := range config {
		longest, all = max(longest, len(value)), all+len(value)
	}
	if read := s.readOnce*longest + s.readPerKey*all; read > maxRead {
		return fmt.Errorf("for config of %d bytes, whose longest value has %d, %d bytes would have to be read; accepted are %d: it is too large for values of this length", all, longest, read, maxRead)
	}
	return nil
}

// sizeOfSchema refuses what is too large, and what leads elsewhere.
func sizeOfSchema(document any) (schemaSize, error) {
	sizes := schemaSizes{document: document, known: map[string]schemaSize{}}
	size := sizes.of(document)
	switch all := size.once + size.perKey; {
	case sizes.problem != nil:
	case all > maxSchemaNodes:
		sizes.fail("it has %d values, with each reference counted as what it refers to; accepted are %d", all, maxSchemaNodes)
	case size.depth > maxSchemaDepth:
		sizes.fail("its values are %d deep within each other, with each reference counted as what it refers to; accepted are %d", size.depth,
			maxSchemaDepth)
	}
	return size, sizes.problem
}

// schemaSizes finds out sizes.
type schemaSizes struct {
	document any
	// known are the sizes of what references name; empty while one is being found out.
	known   map[string]schemaSize
	problem error
}

// refused are keywords that can lead elsewhere, or nowhere that is known before.
var refused = []string{"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"}

func (s *schemaSizes) of(value any) schemaSize {
	size := schemaSize{once: 1}
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			size = size.with(s.of(element))
		}
	case map[string]any:
		size.readOnce = 1
		for _, key := range slices.Sorted(maps.Keys(value)) {
			text, isText := value[key].(string)
			switch {
			case slices.Contains(refused, key):
				s.fail("%s is not accepted: use $defs, and $ref with #/$defs/NAME", key)
			case key == "$schema" && strings.TrimSuffix(text, "#") != schemaDraft:
				s.fail("$schema is %q; accepted is %s", short(text), schemaDraft)
			case key == "$ref" && isText:
				size = size.with(s.referred(text))
			default:
				size = size.with(keyword(key, s.of(value[key])))
			}
		}
	}
	return size
}

// measureReads is how much longer it takes to find out a length or a format than to read a value.
const measureReads = 16

// keyword is the size of what a keyword has. It is no less than that of a key of config with the same name.
func keyword(name string, size schemaSize) schemaSize {
	switch name {
	case "additionalProperties", "patternProperties", "propertyNames":
		return size.forEachKey()
	case "unevaluatedProperties":
		size = size.forEachKey()
		size.isForAll = true
	case "minLength", "maxLength", "format":
		size.readOnce += measureReads
	}
	return size
}

func (s *schemaSizes) fail(format string, arguments ...any) {
	if s.problem == nil {
		s.problem = fmt.Errorf(format, arguments...)
	}
}

// referred is the size of what a reference names.
func (s *schemaSizes) referred(reference string) schemaSize {
	size, known := s.known[reference]
	if known {
		if size.once == 0 {
			s.fail("$ref %q refers to itself", short(reference))
		}
		return size
	}
	name, ok := strings.CutPrefix(reference, "#/$defs/")
	definitions, _ := s.document.(map[string]any)
	all, _ := definitions["$defs"].(map[string]any)
	target, there := all[name]
	if !ok || !there {
		s.fail("$ref %q is not accepted: it must be #/$defs/NAME, and NAME be there", short(reference))
		return schemaSize{once: 1}
	}
	s.known[reference] = schemaSize{}
	s.known[reference] = s.of(target)
	return s.known[reference]
}
