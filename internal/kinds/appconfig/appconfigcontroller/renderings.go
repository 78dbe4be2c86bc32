package appconfigcontroller

import (
	"container/list"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

const (
	// maxRemembered is the total size of the cache, in bytes.
	maxRemembered = 32 << 20
	// entrySize and keySize are about what a rendering and each of its keys need in addition to their
	// texts.
	entrySize, keySize = 1 << 10, 64
)

// renderings caches what specs render, the most recently used ones: an AppConfig is reconciled each
// time one of its workloads changes, and templates and schemas may take long.
type renderings struct {
	render func(*configv1.AppConfig, policy.Environment) appconfig.Rendering

	mutex sync.Mutex
	// room is how many bytes are left.
	room int
	// order has the most recently used elements first; byUID has the element of each AppConfig.
	order *list.List
	byUID map[types.UID]*list.Element
}

// renderingKey is what a rendering depends on.
type renderingKey struct {
	uid         types.UID
	generation  int64
	environment policy.Environment
}

type remembered struct {
	key       renderingKey
	rendering appconfig.Rendering
	size      int
}

func newRenderings(environments policy.Environments) *renderings {
	render := func(config *configv1.AppConfig, environment policy.Environment) appconfig.Rendering {
		return appconfig.RenderingIn(config, environment, environments)
	}
	return &renderings{render: render, room: maxRemembered, order: list.New(), byUID: map[types.UID]*list.Element{}}
}

// of returns what a spec renders in an environment. The caller may modify the result.
func (r *renderings) of(config *configv1.AppConfig, environment policy.Environment) *appconfig.Rendering {
	key := renderingKey{config.UID, config.Generation, environment}
	rendering, known := r.recall(key)
	if !known {
		rendering = r.render(config, environment)
		r.remember(key, rendering)
	}
	rendering.Content = maps.Clone(rendering.Content)
	return &rendering
}

func (r *renderings) recall(key renderingKey) (appconfig.Rendering, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	element, known := r.byUID[key.uid]
	if !known || element.Value.(remembered).key != key {
		return appconfig.Rendering{}, false
	}
	r.order.MoveToFront(element)
	return element.Value.(remembered).rendering, true
}

func (r *renderings) remember(key renderingKey, rendering appconfig.Rendering) {
	if key.uid == "" {
		return // a dry run has no UID
	}
	size := entrySize + len(rendering.Problem)
	for name, value := range rendering.Content {
		size += keySize + len(name) + len(value)
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if earlier, known := r.byUID[key.uid]; known {
		r.forget(earlier)
	}
	r.byUID[key.uid] = r.order.PushFront(remembered{key, rendering, size})
	r.room -= size
	for r.room < 0 {
		r.forget(r.order.Back())
	}
}

func (r *renderings) forget(element *list.Element) {
	was := r.order.Remove(element).(remembered)
	delete(r.byUID, was.key.uid)
	r.room += was.size
}
