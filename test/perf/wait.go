package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// platformPolicy and platformPolicies return a PlatformPolicy and a list of them. A file that
// imports Kubernetes' group of that name cannot import ours.
func platformPolicy() client.Object { return &mspolicyv1.PlatformPolicy{} }

func platformPolicies() client.ObjectList { return &mspolicyv1.PlatformPolicyList{} }

// until watches objects of a kind, and sends when n of them meet the condition. The watch begins at
// once.
func (p *plane) until(ctx context.Context, list client.ObjectList, n int, good func(client.Object) bool) <-chan error {
	answer := make(chan error, 1)
	open := func() (watch.Interface, error) { return p.watch(ctx, list, "") }
	stream, err := open()
	if err != nil {
		answer <- err
		return answer
	}
	go func() {
		err := count(stream, open, n, good)
		if err != nil {
			err = fmt.Errorf("watching %T: %w", list, err)
		}
		answer <- err
	}()
	return answer
}

// count reads a watch until n objects were good at some time. An API server that has much to do
// ends watches; another one, which open returns, begins with all objects as they are then.
func count(stream watch.Interface, open func() (watch.Interface, error), n int, good func(client.Object) bool) error {
	found := map[types.NamespacedName]bool{}
	for {
		for event := range stream.ResultChan() {
			object, ok := event.Object.(client.Object)
			if ok && good(object) {
				found[client.ObjectKeyFromObject(object)] = true
			}
			if len(found) >= n {
				stream.Stop()
				return nil
			}
		}
		stream.Stop()
		var err error
		if stream, err = open(); err != nil {
			return fmt.Errorf("%d of %d objects seen: %w", len(found), n, err)
		}
	}
}

// end stops an API server. An error then affects no figure.
func (b *bench) end(p *plane) {
	if err := p.stop(); err != nil {
		b.say("ending the API server: %v", err)
	}
}

// watch watches the objects of a list in a namespace, or in all.
func (p *plane) watch(ctx context.Context, list client.ObjectList, namespace string) (watch.Interface, error) {
	watching, err := client.NewWithWatch(p.config, client.Options{Scheme: p.client.Scheme()})
	if err != nil {
		return nil, err
	}
	return watching.Watch(ctx, list, client.InNamespace(namespace))
}

// endChild stops a manager.
func (b *bench) endChild(running *child) {
	if err := running.stop(); err != nil {
		b.say("ending the manager: %v", err)
	}
}
