package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/aggregated/aggregatedtest"
)

const (
	// readerUser is the user that lists and watches. It does not have all rights: for such a user our
	// server would not query its rights.
	readerUser = "reader"
	// servedQuiet is how long our server must make no call while it gets no requests.
	servedQuiet = 30 * time.Second
)

// The paths that are compared.
const (
	podsPath     = "/api/v1/pods"
	farmPodsPath = "/apis/farm.mainstay.dev/v1alpha1/farmpods"
)

// served compares FarmPods, read through the API server, with the Pods from which they are
// computed: lists, watches, and the memory and calls of our server.
func (b *bench) served(ctx context.Context) error {
	front := func(environment *envtest.Environment, directory string) error {
		_, _, err := aggregatedtest.Front(environment, directory)
		return err
	}
	p, err := b.plane(ctx, "served", front)
	if err != nil {
		return err
	}
	defer b.end(p)
	f, err := newFarm(ctx, p)
	if err != nil {
		return err
	}
	ours, plain, err := f.empty(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := fillServed(ctx, p.client); err != nil {
		return err
	}
	b.say("made %d Pods in %s", servedPods, time.Since(start).Round(time.Second))
	running, err := f.start(ctx)
	if err != nil {
		return err
	}
	defer b.endChild(running)
	return errors.Join(b.servedHeap(f, running, ours, plain), b.servedRequests(ctx, f, running))
}

// farm is the plane, with its clients.
type farm struct {
	*plane
	// kubeconfig is that of our server, and of the informer with which it is compared.
	kubeconfig string
	// reader is the configuration of the user that lists and watches.
	reader *rest.Config
	// started is the number of our servers started.
	started int
}

func newFarm(ctx context.Context, p *plane) (*farm, error) {
	f := &farm{plane: p}
	var err error
	if f.kubeconfig, _, err = p.user(managerUser); err != nil {
		return nil, err
	}
	added, err := p.environment.AddUser(envtest.User{Name: readerUser}, nil)
	if err != nil {
		return nil, err
	}
	f.reader = rest.CopyConfig(added.Config())
	f.reader.QPS = -1
	verbs := []string{"list", "watch"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: readerUser}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs},
		{APIGroups: []string{farmv1alpha1.GroupVersion.Group}, Resources: []string{"farmpods"}, Verbs: verbs},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: readerUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: readerUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: readerUser}},
	}
	return f, errors.Join(f.client.Create(ctx, role), f.client.Create(ctx, binding))
}

// start starts our server, and waits until the API server reaches it and it has read all Pods.
func (f *farm) start(ctx context.Context) (*child, error) {
	f.started++
	running, err := startProcess(f.directory, servedCommand, servedOptions{
		Kubeconfig: f.kubeconfig, Directory: filepath.Join(f.directory, fmt.Sprintf("%s-%d", servedCommand, f.started)),
	})
	if err != nil {
		return nil, err
	}
	if err := f.register(ctx, running); err != nil {
		return nil, errors.Join(err, running.stop())
	}
	return running, nil
}

func (f *farm) register(ctx context.Context, running *child) error {
	var at place
	if err := running.read(&at); err != nil {
		return err
	}
	// The APIService of an earlier server has another port.
	before := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: farmv1alpha1.GroupVersion.Version +
		"." + farmv1alpha1.GroupVersion.Group}}
	if err := client.IgnoreNotFound(f.client.Delete(ctx, before)); err != nil {
		return err
	}
	server := &aggregatedtest.Server{Port: at.Port, Bundle: at.Bundle}
	if err := server.Register(ctx, f.client); err != nil {
		return err
	}
	from, err := newReader(f.reader)
	if err != nil {
		return err
	}
	for {
		// It answers lists only after it has read all Pods.
		if _, err = from.list(ctx, farmPodsPath+"?limit=1"); err == nil {
			return nil
		}
		if waited := pause(ctx, 100*time.Millisecond); waited != nil {
			return errors.Join(waited, err)
		}
	}
}

// inform starts the informer, and waits until it has all Pods.
func (f *farm) inform(pods int) (*child, error) {
	running, err := startProcess(f.directory, informerCommand, servedOptions{Kubeconfig: f.kubeconfig})
	if err != nil {
		return nil, err
	}
	var found int
	if err := running.read(&found); err != nil {
		return nil, errors.Join(err, running.stop())
	}
	if found != pods {
		return nil, errors.Join(fmt.Errorf("the informer has %d of %d Pods", found, pods), running.stop())
	}
	return running, nil
}

// informed returns the state of the informer with all Pods.
func (f *farm) informed(pods int) (state, error) {
	running, err := f.inform(pods)
	if err != nil {
		return state{}, err
	}
	found, err := running.state(true)
	return found, errors.Join(err, running.stop())
}

// empty returns the states of our server and of the informer without any Pods.
func (f *farm) empty(ctx context.Context) (ours, plain state, err error) {
	running, err := f.start(ctx)
	if err != nil {
		return ours, plain, err
	}
	ours, err = running.state(true)
	if err := errors.Join(err, running.stop()); err != nil {
		return ours, plain, err
	}
	plain, err = f.informed(0)
	return ours, plain, err
}

// servedHeap compares the heap of our server for the Pods with that of an informer.
func (b *bench) servedHeap(f *farm, running *child, ours, plain state) error {
	full, err := running.state(true)
	if err != nil {
		return err
	}
	informed, err := f.informed(servedPods)
	if err != nil {
		return err
	}
	grown, floor := float64(full.Heap)-float64(ours.Heap), float64(informed.Heap)-float64(plain.Heap)
	b.add(
		Figure{Name: fmt.Sprintf("served: heap for %d FarmPods over that of a plain informer of their Pods", servedPods), Kind: Ratio,
			Limit: new(0.4), Value: grown / floor,
			Note: fmt.Sprintf("%.1f MB and %.1f MB without any; %.1f MB and %.1f MB with them", float64(ours.Heap)/megabyte,
				float64(plain.Heap)/megabyte,
				float64(full.Heap)/megabyte, float64(informed.Heap)/megabyte)},
		Figure{Name: "served: heap of one FarmPod", Kind: Info, Unit: "bytes", Value: grown / servedPods,
			Note: fmt.Sprintf("%.0f of a Pod in the informer; who owns whom is counted: %d ReplicaSets and as many Deployments", floor/servedPods,
				servedSets)},
	)
	return nil
}

// servedRequests measures lists and watches, and counts the calls of our server for them and
// afterwards.
func (b *bench) servedRequests(ctx context.Context, f *farm, running *child) error {
	since, err := f.position()
	if err != nil {
		return err
	}
	if err := b.servedLists(ctx, f); err != nil {
		return err
	}
	if err := b.servedWatches(ctx, f); err != nil {
		return err
	}
	changed, err := running.state(true)
	if err != nil {
		return err
	}
	made, err := f.calls(managerUser, since)
	if err != nil {
		return err
	}
	changes := (2*fanOutRounds + 1) * fanOutChanges
	asked := made.that(func(c call) bool { return c.Verb == "list" && c.ObjectRef.Resource == "pods" })
	b.add(
		Figure{Name: "served: heap after that", Kind: Info, Unit: "MB", Value: float64(changed.Heap) / megabyte,
			Note: fmt.Sprintf("all of it, with what watches may still ask for of %d changes", changes)},
		Figure{Name: "served: lists of Pods for all these requests", Kind: Count, Limit: new(0.0), Value: float64(len(asked)),
			Note: made.String()},
	)
	return b.servedAtRest(ctx, f)
}

// servedAtRest counts the calls of our server while only the API server calls it: that fetches the
// OpenAPI once a minute, as a user whose rights are queried each time.
func (b *bench) servedAtRest(ctx context.Context, f *farm) error {
	since, err := f.position()
	if err != nil {
		return err
	}
	if err := pause(ctx, servedQuiet); err != nil {
		return err
	}
	made, err := f.calls(managerUser, since)
	if err != nil {
		return err
	}
	asked := made.that(func(c call) bool { return c.Verb != "watch" }, not(call.isReview))
	b.add(Figure{Name: fmt.Sprintf("served: calls in %.0f s at rest", servedQuiet.Seconds()), Kind: Count, Limit: new(0.0),
		Value: float64(len(asked)),
		Note:  fmt.Sprintf("%s; not counted: %s", asked, made.that(func(c call) bool { return c.isReview() || c.Verb == "watch" }))})
	return nil
}
