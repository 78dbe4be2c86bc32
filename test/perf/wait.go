package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
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
	go func() {
		defer stream.Stop()
		found := map[types.NamespacedName]bool{}
		for event := range stream.ResultChan() {
			object, ok := event.Object.(client.Object)
			if ok && good(object) {
				found[client.ObjectKeyFromObject(object)] = true
			}
			if len(found) >= n {
				answer <- nil
				return
			}
		}
		answer <- fmt.Errorf("watching %T: the watch ended after %d of %d objects", list, len(found), n)
	}()
	return answer
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
