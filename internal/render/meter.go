package render

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Limits of one Render. FuzzRender has the time of the worst case that was found within them.
const (
	// maxWork is how many bytes may be processed, counted before each step: a function is charged for
	// its arguments and its result, a loop for each node in each iteration (nodeWork).
	maxWork = 64 << 20
	// nodeWork is the cost of one node of a template.
	nodeWork = 64
	// maxIterations limits the iterations of all loops together.
	maxIterations = 10_000
	// maxActions limits the number of "{{" in one template.
	maxActions = 5_000
	// maxTemplates limits the size of all templates together, in bytes.
	maxTemplates = 1 << 20
	// maxInActions limits how much of that may be within {{ and }}: once parsed, each such byte needs
	// up to a hundred.
	maxInActions = 128 << 10
	// maxUses limits how many different keys one template may name.
	maxUses = 5_000
	// elementWork is the cost of one list element in addition to its bytes.
	elementWork = 32
)

var (
	errWork       = errors.New("the templates of this object do too much: make values shorter, or loops smaller")
	errIterations = fmt.Errorf("loops have more than %d iterations: must be at most that in all templates of one object together",
		maxIterations)
	errTooLong = fmt.Errorf("a value of more than %d bytes: a ConfigMap holds no more", maxContent)
)

// meter limits what one Render or one Schema does.
type meter struct {
	left, iterations int
	// budget is that of the request; nil without one.
	budget *Budget
	// patterns compiles regular expressions, and charges this meter.
	patterns *bounded.Patterns
}

func newMeter(budget *Budget) *meter {
	m := &meter{left: maxWork, iterations: maxIterations, budget: budget}
	m.patterns = bounded.NewPatterns(m.work)
	return m
}

// work charges a cost; it returns an error if the limit is exceeded.
func (m *meter) work(cost int) error {
	if cost < 0 || cost > m.left || !m.budget.take(cost, 0, 0) {
		m.left = 0
		return errWork
	}
	m.left -= cost
	return nil
}

// loop charges for iterating over a collection, with a number of nodes per iteration.
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

// sizeOf returns the size of a template value. Such values are trees: no function puts a list into
// a list.
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
