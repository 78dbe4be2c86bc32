package appconfig

import (
	"errors"
	"fmt"
	"reflect"
)

// Limits of one Render. The time of the worst that was found within them stands at FuzzRender.
const (
	// maxWork is how many bytes may be moved, counted before each step: a function pays for what it is given and for what it
	// makes, a loop for each node that it goes through (nodeWork).
	maxWork = 64 << 20
	// nodeWork is what one node of a template costs.
	nodeWork = 64
	// maxIterations is how often all loops together may go round.
	maxIterations = 10_000
	// maxActions is how many "{{" one template may have.
	maxActions = 5_000
	// maxTemplates is how long all templates together may be, in bytes.
	maxTemplates = 1 << 20
	// maxInActions is how much of that may stand within {{ and }}: parsed, a byte of it takes up to a hundred.
	maxInActions = 128 << 10
	// maxUses is how many different keys one template may name.
	maxUses = 5_000
	// elementWork is what one element of a list costs beside its bytes.
	elementWork = 32
)

var (
	errWork       = errors.New("the templates of this object do too much: make values shorter, or loops smaller")
	errIterations = fmt.Errorf("loops go round more than %d times: that is all that the templates of one object may", maxIterations)
	errTooLong    = fmt.Errorf("a value of more than %d bytes: a ConfigMap holds no more", maxContent)
)

// meter bounds what one Render does. Templates are written by people who may do less than Mainstay may, and rendered
// where others wait: in a webhook.
type meter struct {
	left, iterations int
	// patterns are the regular expressions that were compiled, and program is how large they are together.
	patterns map[string]boundedPattern
	program  int
}

func newMeter() *meter {
	return &meter{left: maxWork, iterations: maxIterations, patterns: map[string]boundedPattern{}}
}

// work pays for something; an error says that it can't.
func (m *meter) work(cost int) error {
	if cost < 0 || cost > m.left {
		m.left = 0
		return errWork
	}
	m.left -= cost
	return nil
}

// loop pays for going round over a collection, with so many nodes each time.
func (m *meter) loop(nodes int, collection reflect.Value) error {
	rounds := 0
	for collection.Kind() == reflect.Interface {
		collection = collection.Elem()
	}
	switch kind := collection.Kind(); {
	case kind == reflect.Slice || kind == reflect.Array || kind == reflect.Map:
		rounds = collection.Len()
	case collection.CanInt():
		rounds = int(min(max(0, collection.Int()), maxIterations+1))
	case kind == reflect.Invalid:
	default:
		return errors.New("range goes over lists, maps and whole numbers only")
	}
	if rounds > m.iterations {
		return errIterations
	}
	m.iterations -= rounds
	return m.work(rounds * nodes * nodeWork)
}

// sizeOf is what a value of a template weighs. Such values are trees: no function makes a list of what is one.
func sizeOf(value any) int {
	switch value := value.(type) {
	case string:
		return len(value)
	case []any:
		size := 0
		for _, element := range value {
			size += elementWork + sizeOf(element)
		}
		return size
	case map[string]any:
		size := 0
		for key, element := range value {
			size += 2*elementWork + len(key) + sizeOf(element)
		}
		return size
	default:
		return 0
	}
}
