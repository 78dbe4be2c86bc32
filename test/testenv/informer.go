package testenv

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// Followed checks the events of an informer or a watch on one resource in one namespace. It expects
// each object to be added once, to get newer with each update, and to be deleted once. It is safe
// for use by multiple goroutines.
type Followed struct {
	mutex    sync.Mutex
	versions map[string]uint64
	problems []string
}

// NewFollowed returns a Followed that knows no objects yet.
func NewFollowed() *Followed { return &Followed{versions: map[string]uint64{}} }

// Handler returns the event handler to add to an informer.
func (f *Followed) Handler() toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: f.Added,
		UpdateFunc: func(before, object any) {
			// After a relist it may be another object of the same name. The informer then reports no
			// deletion of the first.
			old, isOld := before.(metav1.Object)
			current, isCurrent := object.(metav1.Object)
			if isOld && isCurrent && old.GetUID() != current.GetUID() {
				f.Deleted(before)
				f.Added(object)
				return
			}
			f.Updated(object)
		},
		DeleteFunc: func(object any) {
			if unknown, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = unknown.Obj
			}
			f.Deleted(object)
		},
	}
}

// Added records a new object.
func (f *Followed) Added(object any) { f.take("added", object) }

// Updated records a changed object. An unchanged object is no problem: an informer that relists
// reports every object.
func (f *Followed) Updated(object any) { f.take("updated", object) }

// Deleted records the deletion of an object.
func (f *Followed) Deleted(object any) { f.take("deleted", object) }

func (f *Followed) take(event string, object any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	about, err := meta.Accessor(object)
	if err != nil {
		f.problems = append(f.problems, fmt.Sprintf("%s: %v", event, err))
		return
	}
	key := key(about)
	before, isKnown := f.versions[key]
	version, err := strconv.ParseUint(about.GetResourceVersion(), 10, 64)
	if err != nil || isKnown == (event == "added") || version < before {
		f.problems = append(f.problems, fmt.Sprintf("%s %s at %d, after %d, known: %t, %v", event, key, version, before, isKnown, err))
	}
	if event == "deleted" {
		delete(f.versions, key)
	} else {
		f.versions[key] = version
	}
}

// key returns a key that distinguishes objects of the same name.
func key(object metav1.Object) string { return object.GetName() + " " + string(object.GetUID()) }

// Differs returns the problems so far, and the differences between the recorded objects and a list
// of the same resource. It returns an empty string if there are none.
func (f *Followed) Differs(list runtime.Object) string {
	want := map[string]uint64{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		want[key(object)], err = strconv.ParseUint(object.GetResourceVersion(), 10, 64)
		return err
	})
	f.mutex.Lock()
	defer f.mutex.Unlock()
	problems := slices.Clone(f.problems)
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, object := range slices.Sorted(maps.Keys(want)) {
		if have, isKnown := f.versions[object]; !isKnown || have != want[object] {
			problems = append(problems, fmt.Sprintf("%s: known at %d (%t), listed at %d", object, have, isKnown, want[object]))
		}
	}
	for _, object := range slices.Sorted(maps.Keys(f.versions)) {
		if _, isListed := want[object]; !isListed {
			problems = append(problems, fmt.Sprintf("%s: known, and not listed", object))
		}
	}
	return join(problems)
}

func join(problems []string) string {
	var text strings.Builder
	for _, problem := range problems {
		text.WriteString(problem + "\n")
	}
	return text.String()
}
