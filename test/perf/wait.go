package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// platformPolicies returns a list of PlatformPolicies. A file that imports Kubernetes' group of
// that name cannot import ours.
func platformPolicies() client.ObjectList { return &mspolicyv1.PlatformPolicyList{} }

// until watches objects of a kind, and sends when n of them meet the condition. The watch begins at
// once.
func (p *plane) until(ctx context.Context, list client.ObjectList, n int, good func(client.Object) bool) <-chan error {
	answer := make(chan error, 1)
	watching, err := client.NewWithWatch(p.config, client.Options{Scheme: p.client.Scheme()})
	if err != nil {
		answer <- err
		return answer
	}
	stream, err := watching.Watch(ctx, list)
	if err != nil {
		answer <- err
		return answer
	}
	go func() { answer <- count(ctx, watching, list, stream, n, good) }()
	return answer
}

// count reads a watch until n objects were good at some time. An API server that has much to do
// ends watches; another one begins with all objects as they are then.
func count(ctx context.Context, watching client.WithWatch, list client.ObjectList, stream watch.Interface, n int,
	good func(client.Object) bool) error {
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
		if stream, err = watching.Watch(ctx, list); err != nil {
			return fmt.Errorf("watching %T: %d of %d objects seen: %w", list, len(found), n, err)
		}
	}
}

// end stops an API server. An error then affects no figure.
func (b *bench) end(p *plane) {
	if err := p.stop(); err != nil {
		b.say("ending the API server: %v", err)
	}
}

// endChild stops a manager.
func (b *bench) endChild(running *child) {
	if err := running.stop(); err != nil {
		b.say("ending the manager: %v", err)
	}
}
