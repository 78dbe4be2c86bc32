package observe

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Refusals remembers which restarts the API server refuses. It can't be recorded on the workloads:
// the API server does not let us write them. A new process learns it with its first attempt. It
// has at most the workloads of each namespace whose restart is due.
type Refusals struct {
	mutex sync.Mutex
	known map[string]map[types.UID]refusal
}

// refusal is about one generation of a workload: its owner may have removed the cause since.
type refusal struct {
	generation int64
	answer     workload.Refusal
}

// NewRefusals returns an empty memory.
func NewRefusals() *Refusals { return &Refusals{known: map[string]map[types.UID]refusal{}} }

// Set replaces what is remembered of a namespace by the refusals of some of its targets, by their
// index. It works on nil.
func (r *Refusals) Set(namespace string, all []workload.Target, refused map[int]workload.Refusal) {
	if r == nil {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if len(refused) == 0 {
		delete(r.known, namespace)
		return
	}
	of := make(map[types.UID]refusal, len(refused))
	for index, answer := range refused {
		of[all[index].UID] = refusal{all[index].Generation, answer}
	}
	r.known[namespace] = of
}

// recall returns the refusal of a workload; zero if there is none, or if the workload has changed
// since. It works on nil.
func (r *Refusals) recall(object client.Object) workload.Refusal {
	if r == nil {
		return workload.Refusal{}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	found := r.known[object.GetNamespace()][object.GetUID()]
	if found.generation != object.GetGeneration() {
		return workload.Refusal{}
	}
	return found.answer
}
