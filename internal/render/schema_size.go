package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// schemaSize is the size of a schema, each reference counted as its target: references that fan out
// would otherwise keep a validator busy for ever.
type schemaSize struct {
	// once is the number of values that a validator visits once, and perKey of those that it visits
	// for each key.
	once, perKey int
	// readOnce and readPerKey are how often whole values are read, in the same way.
	readOnce, readPerKey int
	depth                int
	// isForAll reports that all values must be visited for each key, because the validator must know
	// what has not been evaluated.
	isForAll bool
}

// with adds a part of this size.
func (s schemaSize) with(part schemaSize) schemaSize {
	const far = 1 << 30 // far beyond what is accepted, and fits any int
	return schemaSize{
		once: min(s.once+part.once, far), perKey: min(s.perKey+part.perKey, far),
		readOnce: min(s.readOnce+part.readOnce, far), readPerKey: min(s.readPerKey+part.readPerKey, far),
		depth: max(s.depth, part.depth+1), isForAll: s.isForAll || part.isForAll,
	}
}

// forEachKey returns the size if everything is visited for each key.
func (s schemaSize) forEachKey() schemaSize {
	s.once, s.perKey = 0, s.once+s.perKey
	s.readOnce, s.readPerKey = 0, s.readOnce+s.readPerKey
	return s
}

// accepts returns how many values of the schema a validator visits for these values, and how many
// bytes it reads. It returns an error if that is too much: it would take too long, or record too
// much. name is what messages call the values.
func (s schemaSize) accepts(values map[string]string, name string) (visits, read int, err error) {
	visits = s.once + s.perKey*len(values)
	if s.isForAll {
		visits = (s.once + s.perKey) * (1 + len(values))
	}
	if visits > maxVisits {
		return visits, 0, fmt.Errorf("for the %d keys of %s %d of its values would have to be visited, those for every key each time: must "+
			"be at most %d: use properties", len(values), name, visits, maxVisits)
	}
	longest, all := 0, 0
	for _, value := range values {
		longest, all = max(longest, len(value)), all+len(value)
	}
	if read = s.readOnce*longest + s.readPerKey*all; read > maxRead {
		return visits, read, fmt.Errorf("for %s of %d bytes, whose longest value has %d, %d bytes would have to be read: must be at most %d: "+
			"too large for values of this length", name, all, longest, read, maxRead)
	}
	return visits, read, nil
}

// sizeOfSchema computes the size, and refuses schemas that are too large or refer to anything
// outside.
func sizeOfSchema(document any) (schemaSize, error) {
	sizes := schemaSizes{document: document, known: map[string]schemaSize{}}
	size := sizes.of(document)
	switch all := size.once + size.perKey; {
	case sizes.problem != nil:
	case all > maxSchemaNodes:
		sizes.fail("has %d values, with each reference counted as its target: must be at most %d", all, maxSchemaNodes)
	case size.depth > maxSchemaDepth:
		sizes.fail("its values are nested %d deep, with each reference counted as its target: must be at most %d", size.depth,
			maxSchemaDepth)
	}
	return size, sizes.problem
}

// schemaSizes computes sizes.
type schemaSizes struct {
	document any
	// known are the sizes of reference targets; zero while one is being computed.
	known   map[string]schemaSize
	problem error
}

// refused are keywords that can refer to something outside, or whose target is not known
// beforehand.
var refused = []string{"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"}

// of returns the size of a part of the schema, and refuses keywords that can't be measured. Each
// value counts once, except the values of keywords that a validator evaluates for each key.
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
				s.fail("$schema %q is not supported: must be %s", conditions.Short(text), schemaDraft)
			case key == "$ref" && isText:
				size = size.with(s.referred(text))
			default:
				size = size.with(keyword(key, s.of(value[key])))
			}
		}
	}
	return size
}

// measureReads is how much longer it takes to compute a length or check a format than to read a
// value.
const measureReads = 16

// keyword returns the size of a keyword's value. It is an upper bound also for a key of the
// values with the same name.
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

// referred returns the size of a reference's target.
func (s *schemaSizes) referred(reference string) schemaSize {
	size, known := s.known[reference]
	if known {
		if size.once == 0 {
			s.fail("$ref %q refers to itself", conditions.Short(reference))
		}
		return size
	}
	name, ok := strings.CutPrefix(reference, "#/$defs/")
	definitions, _ := s.document.(map[string]any)
	all, _ := definitions["$defs"].(map[string]any)
	target, there := all[name]
	if !ok || !there {
		s.fail("$ref %q is not accepted: must be #/$defs/NAME, where NAME exists", conditions.Short(reference))
		return schemaSize{once: 1}
	}
	// In a JSON Pointer (RFC 6901) these stand for something else, so that the validator would follow
	// the reference to another value than the one that is measured here.
	if strings.ContainsAny(name, "%~/") {
		s.fail("$ref %q is not accepted: NAME of #/$defs/NAME must have no %%, ~ or /", conditions.Short(reference))
		return schemaSize{once: 1}
	}
	s.known[reference] = schemaSize{}
	s.known[reference] = s.of(target)
	return s.known[reference]
}
