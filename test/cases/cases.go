// Package cases chooses how many random cases a property test tries, and their seeds. In `make
// test` they are few and always the same; in `make nightly` they are many and new.
package cases

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Variable is the environment variable that chooses the cases:
//   - unset: the small number of `make test`, from seed 0
//   - many: the large number of a nightly run, from seed 0: `make test` uses it for a changed kind
//   - long: the large number of a nightly run, from a new seed, which is logged
//   - seed=N: only the case of that seed, to repeat a failure
const Variable = "MAINSTAY_TEST_CASES"

// choice is a parsed value of Variable.
type choice struct {
	// many requests the nightly number; fresh does so from a new seed.
	many, fresh bool
	// seed is the only seed to try, nil for all.
	seed *uint64
}

func parse(value string) (choice, error) {
	switch text, one := strings.CutPrefix(value, "seed="); {
	case value == "":
		return choice{}, nil
	case value == "many":
		return choice{many: true}, nil
	case value == "long":
		return choice{many: true, fresh: true}, nil
	case one:
		seed, err := strconv.ParseUint(text, 10, 64)
		return choice{seed: &seed}, err
	default:
		return choice{}, fmt.Errorf("%s: unsupported value %q: supported values: \"many\", \"long\", \"seed=N\"", Variable, value)
	}
}

func chosen(t testing.TB) choice {
	t.Helper()
	made, err := parse(os.Getenv(Variable))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Number returns how often a test repeats something: gate times in `make test`, nightly times if
// Variable is many or long, once if it names a seed.
func Number(t testing.TB, gate, nightly int) int {
	t.Helper()
	switch made := chosen(t); {
	case made.seed != nil:
		return 1
	case made.many:
		return nightly
	default:
		return gate
	}
}

// Seeds returns the seeds of a property test: 0 to gate-1 in `make test`, so that a failure comes
// from the change and not from the day. If Variable is many, it returns nightly seeds, and if it is
// long, from the current time on. It stops at the first seed with which the test or one of its
// subtests fails, and logs the command that repeats it.
func Seeds(t testing.TB, gate, nightly int) iter.Seq[uint64] {
	t.Helper()
	made, number := chosen(t), Number(t, gate, nightly)
	first := made.first(0)
	if made.fresh {
		t.Logf("%d cases from seed %d on", number, first)
	}
	return func(yield func(uint64) bool) {
		failedBefore := t.Failed()
		seed := first
		defer func() {
			if !failedBefore && t.Failed() {
				logFailure(t, seed)
			}
		}()
		for range number {
			if !yield(seed) || (!failedBefore && t.Failed()) {
				return
			}
			seed++
		}
	}
}

// Seed returns the seed of a test that has one: the given one in `make test`, a new one if Variable
// is long. If the test or one of its subtests fails, it logs the command that repeats it.
func Seed(t testing.TB, gate uint64) uint64 {
	t.Helper()
	seed := First(t, gate)
	t.Cleanup(func() {
		if t.Failed() {
			logFailure(t, seed)
		}
	})
	return seed
}

// First returns the first seed of a test that counts up from it and says itself which one failed:
// the given one in `make test`, a new one if Variable is long.
func First(t testing.TB, gate uint64) uint64 {
	t.Helper()
	return chosen(t).first(gate)
}

// first returns the first seed, if that of `make test` is given.
func (c choice) first(gate uint64) uint64 {
	switch {
	case c.seed != nil:
		return *c.seed
	case c.fresh:
		return uint64(time.Now().UnixMilli()) //nolint:gosec // the time is after 1970
	default:
		return gate
	}
}

func logFailure(t testing.TB, seed uint64) {
	t.Helper()
	t.Logf("failed with seed %d; to repeat: %s=seed=%d go test -run '^%s$'", seed, Variable, seed, t.Name())
}
