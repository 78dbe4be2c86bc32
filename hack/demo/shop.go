package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

const (
	// platform is a whole shop: frontend, backend, PostgreSQL and cache.
	platform       = "staging-shop"
	platformDB     = platform + "-db"
	platformSample = "config/samples/staging-platform.yaml"
)

// platformImages are what its parts run, beside the image of the guestbook's server.
var platformImages = []string{"demo-shop", "valkey-8"}

// shop shows a shop from one object: the frontend's page comes from the backend, whose rows come
// from the PostgreSQL, and its counter from the cache. The primary is killed, and the shop goes on.
// It is left out on a cluster of the user's own, which can't pull the images.
func (s *show) shop(ctx context.Context) error {
	if s.registry != "" {
		return nil
	}
	if err := s.loadImages(ctx, platformImages...); err != nil {
		return err
	}
	text, err := os.ReadFile(platformSample)
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	s.log.Say("kubectl apply -n %s -f %s: a whole shop", namespace, platformSample)
	fmt.Println(indent(string(text)))
	begun := time.Now()
	if _, err := s.kubectl(ctx, "apply", "-n", namespace, "-f", platformSample); err != nil {
		return err
	}
	if err := s.until(ctx, "ecommerceplatform", platform, "{.status.phase} {.status.componentSummary}", "Running 4/4"); err != nil {
		return err
	}
	s.log.Say("  all four parts are Ready after %s", time.Since(begun).Round(100*time.Millisecond))
	if err := s.visitShop(ctx); err != nil {
		return err
	}
	if err := s.outliveShopsPrimary(ctx); err != nil {
		return err
	}
	table, err := s.kubectl(ctx, "-n", namespace, "get", "ecommerceplatforms")
	if err != nil {
		return err
	}
	parts, err := s.kubectl(ctx, "-n", namespace, "get", "webapps,postgresqls,caches,pods", "-l", "platform="+platform)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n%s\n\n", indent(table), indent(parts))
	return nil
}

// visitShop shows the page of the frontend.
func (s *show) visitShop(ctx context.Context) error {
	path := serviceProxy(platform+"-frontend", "/")
	return await(ctx, "visiting the shop", func() error {
		page, err := s.kubectl(ctx, "get", "--raw", path)
		if err != nil {
			return err
		}
		for _, part := range []string{"<li>", "orders: ", "views: ", "backend: "} {
			if !strings.Contains(page, part) {
				return fmt.Errorf("the page has no %q: %s", part, page)
			}
		}
		s.log.Say("GET %s: a page from the backend, with rows from PostgreSQL (products, orders) and a counter from Valkey (views)", path)
		fmt.Println(indent(page))
		return nil
	})
}

// outliveShopsPrimary stores an order, kills the primary, and stores another at once, which may
// still have been before its end, and one when the shop has recovered: none of them is lost.
func (s *show) outliveShopsPrimary(ctx context.Context) error {
	before, err := s.order(ctx)
	if err != nil {
		return err
	}
	if err := s.killPrimary(ctx, platformDB); err != nil {
		return err
	}
	during, err := s.order(ctx)
	if err != nil {
		return err
	}
	if err := s.visitShop(ctx); err != nil {
		return err
	}
	s.log.Say("  the shop goes on; the killed instance comes back as a replica ...")
	if err := s.until(ctx, "ecommerceplatform", platform, "{.status.phase} {.status.componentSummary}", "Running 4/4"); err != nil {
		return err
	}
	after, err := s.order(ctx)
	if err != nil {
		return err
	}
	if during <= before || after <= during {
		return fmt.Errorf("there were %d orders before the primary was killed, then %d, and with the next one %d: an order is lost",
			before, during, after)
	}
	s.log.Say("  no order is lost")
	return nil
}

// order stores an order until that succeeds, and returns how many there are.
func (s *show) order(ctx context.Context) (count int, err error) {
	path := serviceProxy(platform+"-backend", "/orders")
	begun := time.Now()
	err = await(ctx, "ordering", func() error {
		answer, err := s.kubectlWith(ctx, "{}", "create", "--raw", path, "-f", "-")
		if err == nil {
			count, err = ordered(answer)
		}
		return err
	})
	if err == nil {
		s.log.Say("  POST %s -> %d orders, after %s", path, count, time.Since(begun).Round(100*time.Millisecond))
	}
	return count, err
}

// ordered returns the number in an answer of the backend.
func ordered(answer string) (int, error) {
	var found struct {
		Orders int `json:"orders"`
	}
	if err := json.Unmarshal([]byte(answer), &found); err != nil || found.Orders < 1 {
		return 0, fmt.Errorf("the backend answers %.100q: want the number of orders", answer)
	}
	return found.Orders, nil
}

// serviceProxy is the path of a page of a Service at the API server.
func serviceProxy(service, page string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/services/%s:http/proxy%s", namespace, service, page)
}

// loadImages builds images, and loads them into the cluster.
func (s *show) loadImages(ctx context.Context, names ...string) error {
	build := append([]string{"image", "build"}, names...)
	title := "images: " + strings.Join(names, ", ")
	if err := s.log.Show(title, exec.CommandContext(ctx, step.Testbed, build...)); err != nil {
		return err
	}
	archives, err := step.Ask(ctx, build...)
	if err != nil {
		return err
	}
	load := append([]string{"image", "load"}, strings.Fields(archives)...)
	return s.log.Do(ctx, "loading them into the cluster", exec.CommandContext(ctx, step.Testbed, load...))
}
