package main

import (
	"context"
	"fmt"
)

const (
	// served is how the API server knows of ours, and llamas are samples of what that keeps.
	served = "v1alpha1.farm.mainstay.dev"
	llamas = "config/samples/farm"
)

// farm shows what our own API server answers: the Pods as somebody on call wants to see them, and Llamas.
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
	s.log.Say("kubectl apply -n %s -f %s", namespace, llamas)
	if _, err := s.kubectl(ctx, "apply", "-n", namespace, "-f", llamas); err != nil {
		return err
	}
	for _, resource := range []string{"llamas", "farmpods"} {
		s.log.Say("kubectl get %s", resource)
		table, err := s.kubectl(ctx, "-n", namespace, "get", resource)
		if err != nil {
			return err
		}
		fmt.Printf("\n%s\n\n", indent(table))
	}
	return nil
}
