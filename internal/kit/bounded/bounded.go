// Package bounded reads text that users can write, at a price that grows only with its length. JSON
// of a few hundred bytes can otherwise cost seconds and gigabytes: each {} of a list becomes a
// struct of hundreds of bytes, and a quantity such as 1e-999999999 is computed digit by digit.
//
// Whoever reads an annotation, a request or an object that others wrote, and whose reader does not
// bound it itself, reads it with this package. The limits of all such entries stand in one table,
// in docs/threat-model.md, and one test tries each.
package bounded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Limits of JSON texts.
const (
	// MaxDepth is how many lists and objects may be nested.
	MaxDepth = 100
	// freeObjects is the number of objects that a text of any length may have, and bytesPerObject
	// how many bytes it must have for each further one. Those that people and programs write have
	// more.
	freeObjects    = 1000
	bytesPerObject = 16
	// sizeOfObject is how large the struct is that one object becomes, in bytes. An element of a list
	// whose struct is larger counts as several.
	sizeOfObject = 128
)

// Unmarshal parses JSON into a value if Check accepts it. The names of fields count as they are
// written: encoding/json would also take other letters for those of a name, such as ſ for s.
func Unmarshal(text []byte, maxBytes int, into any) error {
	if err := Check(text, maxBytes, reflect.TypeOf(into)); err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// Check returns an error if parsing JSON into a value of a type would cost more than its length
// justifies: if the text has more than maxBytes bytes, more than one object in 16 bytes (the first
// 1,000 are free), more than MaxDepth levels, or, where the type has a quantity, a quantity with a
// QuantityProblem. Such an error is an *Error. Check also returns an error for text that is not
// JSON.
func Check(text []byte, maxBytes int, of reflect.Type) error {
	return NewBudget(len(text)).Check(text, maxBytes, of)
}

// MaxObjects returns how many objects texts of so many bytes may have together.
func MaxObjects(bytes int) int { return freeObjects + bytes/bytesPerObject }

// Budget is the number of objects that several texts may have together, such as the objects of one
// request. It is not safe for concurrent use.
type Budget struct{ objects int }

// NewBudget returns the budget for texts of so many bytes together.
func NewBudget(bytes int) *Budget { return &Budget{MaxObjects(bytes)} }

// Check is like the function, for one of several texts: its objects are taken from the budget.
func (b *Budget) Check(text []byte, maxBytes int, of reflect.Type) error {
	if len(text) > maxBytes {
		return &Error{Problem: fmt.Sprintf("Too long: may not be more than %d bytes", maxBytes)}
	}
	c := checker{decoder: json.NewDecoder(bytes.NewReader(text)), budget: b}
	c.decoder.UseNumber()
	if err := c.value(of, MaxDepth); err != nil {
		if problem, ok := errors.AsType[*Error](err); ok {
			problem.Path = strings.TrimPrefix(problem.Path, ".")
		}
		return err
	}
	if c.decoder.More() {
		return errors.New("must be one JSON value")
	}
	return nil
}

// Error says what would cost too much.
type Error struct {
	// Path leads to it within the text: "limits[cpu]"; empty for the whole text.
	Path string
	// Problem is in the form of the API server: "Too long: may not be more than 10 bytes".
	Problem string
}

// Error returns "limits[cpu]: Too long: may not be more than 10 bytes".
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Problem
	}
	return e.Path + ": " + e.Problem
}

// at adds the step that led to a problem to its path.
func at(step string, err error) error {
	if problem, ok := errors.AsType[*Error](err); ok {
		problem.Path = step + problem.Path
	}
	return err
}

// checker reads tokens beside the type that they would be parsed into. A type of nil has no
// quantities.
type checker struct {
	decoder *json.Decoder
	budget  *Budget
	// isPaid reports that the next value has been counted.
	isPaid bool
}

// value reads one value, which would be parsed into the type of.
func (c *checker) value(of reflect.Type, depth int) error {
	isPaid := c.isPaid
	c.isPaid = false
	token, err := c.decoder.Token()
	if err != nil {
		return unexpected(err)
	}
	of = indirect(of)
	switch token := token.(type) {
	case json.Delim:
		if depth == 0 {
			return &Error{Problem: fmt.Sprintf("Too many: may not have more than %d levels", MaxDepth)}
		}
		if token == '[' {
			return c.list(of, depth-1)
		}
		return c.object(of, depth-1, isPaid)
	case string:
		return checkQuantity(of, token)
	case json.Number:
		return checkQuantity(of, token.String())
	}
	return nil
}

// list reads the elements of a list, after its opening bracket.
func (c *checker) list(of reflect.Type, depth int) error {
	var element reflect.Type
	if of != nil && (of.Kind() == reflect.Slice || of.Kind() == reflect.Array) {
		element = of.Elem()
	}
	for i := 0; c.decoder.More(); i++ {
		// A parser makes room for a struct before it looks at the element, which may be null.
		if element != nil && (element.Kind() == reflect.Struct || element.Kind() == reflect.Array) {
			if err := c.spend(1 + int(element.Size()/sizeOfObject)); err != nil {
				return err
			}
			c.isPaid = true
		}
		if err := c.value(element, depth); err != nil {
			return at("["+strconv.Itoa(i)+"]", err)
		}
	}
	return c.end()
}

// spend counts objects.
func (c *checker) spend(objects int) error {
	if c.budget.objects -= objects; c.budget.objects < 0 {
		return &Error{Problem: fmt.Sprintf("Too many: may not have more than %d objects, plus one for each %d bytes", freeObjects,
			bytesPerObject)}
	}
	return nil
}

// object reads an object; isPaid reports that it has been counted as an element of a list.
func (c *checker) object(of reflect.Type, depth int, isPaid bool) error {
	if !isPaid {
		if err := c.spend(1); err != nil {
			return err
		}
	}
	for c.decoder.More() {
		token, err := c.decoder.Token()
		if err != nil {
			return unexpected(err)
		}
		key, _ := token.(string)
		field, step := fieldOf(of, key)
		if err := c.value(field, depth); err != nil {
			return at(step, err)
		}
	}
	return c.end()
}

// end reads the end of a list or an object.
func (c *checker) end() error {
	_, err := c.decoder.Token()
	return unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
