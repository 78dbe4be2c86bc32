package injectiontest_test

import (
	"testing"

	"github.com/mainstay-platform/mainstay/internal/injection"
	"github.com/mainstay-platform/mainstay/internal/injection/injectiontest"
)

// cases is how many are made by chance. The benchmark makes a hundred times as many.
const cases = 1000

func TestProperties(t *testing.T) {
	injected, problems := 0, 0
	for seed := range uint64(cases) {
		n, err := injectiontest.Check(seed)
		if err != nil {
			t.Error(err)
			if problems++; problems == 5 {
				t.Fatal("and so on")
			}
		}
		injected += n
	}
	if injected < cases/2 {
		t.Errorf("%d Instrumentations were injected into %d workloads: what is made by chance tests too little", injected, cases)
	}
}

// What is made by chance is what users may write.
func TestGeneratedAreValid(t *testing.T) {
	for seed := range uint64(cases) {
		for _, object := range injectiontest.New(seed).Objects("agent") {
			if problems := injection.Validate(object.What()); len(problems) > 0 {
				t.Errorf("seed %d: %v", seed, problems)
			}
		}
	}
}
