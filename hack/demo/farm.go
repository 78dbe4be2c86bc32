package main

import (
	"context"
	"fmt"
)

// served is the name of our APIService.
const served = "v1alpha1.farm.mainstay.dev"

// farm shows what our own API server answers: the Pods as an engineer on call wants to see them.
func (s *show) farm(ctx context.Context) error {
	err := await(ctx, "waiting for our API server", func() error {
		available, err := s.kubectl(ctx, "get", "apiservice", served, "-o", `jsonpath={.status.conditions[?(@.type=="Available")].status}`)
		if err == nil && available != "True" {
			return fmt.Errorf("the APIService %s is Available: %q", served, available)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.log.Say("kubectl get farmpods")
	table, err := s.kubectl(ctx, "-n", namespace, "get", "farmpods")
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n", indent(table))
	return nil
}
