package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

const (
	system    = "mainstay-system"
	namespace = "demo"
	app       = "shop"
	sample    = "config/samples/webapp.yaml"
	// patience is how long one thing may take; each takes seconds.
	patience = 2 * time.Minute
)

// install installs the chart, or upgrades it. A new image under the same name restarts
// the operator: its digest is among the pods' annotations.
func (s *show) install(ctx context.Context) error {
	image, err := os.ReadFile(step.Image)
	if err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	command := exec.CommandContext(ctx, step.Helm, "upgrade", "--install", "mainstay", "charts/mainstay",
		"--namespace", system, "--create-namespace", "--wait", "--timeout", "3m", "--set", "apiserver.llamas.enabled=true",
		"--set", fmt.Sprintf(`podAnnotations.demo/image=sha-%.12x`, sha256.Sum256(image)))
	command.Env = s.cluster.Environment()
	return s.log.Do(ctx, "installing the chart: helm install mainstay charts/mainstay -n "+system+" --set apiserver.llamas.enabled=true", command)
}

// play applies the sample, and lets it be used, broken and scaled.
func (s *show) play(ctx context.Context) error {
	if _, err := s.kubectl(ctx, "create", "namespace", namespace); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		return err
	}
	manifest, err := os.ReadFile(sample)
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	s.log.Say("kubectl apply -n %s -f %s", namespace, sample)
	fmt.Println(indent(string(manifest)))
	if _, err := s.kubectl(ctx, "apply", "-n", namespace, "-f", sample); err != nil {
		return err
	}
	if err := s.until(ctx, "WebApp "+app, "jsonpath={.status.phase} {.status.replicaSummary}", "Running 2/2"); err != nil {
		return err
	}
	if err := s.request(ctx); err != nil {
		return err
	}
	s.log.Say("kubectl delete service %s: someone deletes a part of it ...", app)
	if _, err := s.kubectl(ctx, "-n", namespace, "delete", "service", app); err != nil {
		return err
	}
	if err := s.request(ctx); err != nil {
		return err
	}
	s.log.Say("kubectl scale webapp %s --replicas=3", app)
	if _, err := s.kubectl(ctx, "-n", namespace, "scale", "webapp", app, "--replicas=3"); err != nil {
		return err
	}
	if err := s.until(ctx, "WebApp "+app, "jsonpath={.status.phase} {.status.replicaSummary}", "Running 3/3"); err != nil {
		return err
	}
	if err := s.beRefused(ctx); err != nil {
		return err
	}
	table, err := s.kubectl(ctx, "-n", namespace, "get", "webapps,deployments,pods,services,serviceaccounts,poddisruptionbudgets", "-l", "app="+app)
	if err != nil {
		return err
	}
	own, err := s.kubectl(ctx, "-n", namespace, "get", "webapps", "-o", "wide")
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n%s\n", indent(own), indent(table))
	return nil
}

// until shows how a value changes, and returns when it is as wanted.
func (s *show) until(ctx context.Context, what, path, wanted string) error {
	deadline := time.Now().Add(patience)
	last := ""
	for time.Now().Before(deadline) {
		value, err := s.kubectl(ctx, "-n", namespace, "get", "webapp", app, "-o", path)
		if err != nil {
			return err
		}
		if value = strings.TrimSpace(value); value != last && value != "" {
			s.log.Say("  %s: %s", what, value)
			last = value
		}
		if value == wanted {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	reason, _ := s.kubectl(ctx, "-n", namespace, "describe", "webapp", app)
	return fmt.Errorf("%s is %q and not %q after %s:\n%s", what, last, wanted, patience, reason)
}

// beRefused asks for more than the default policy allows.
func (s *show) beRefused(ctx context.Context) error {
	err := await(ctx, "waiting for the webhooks", func() error {
		_, err := s.kubectl(ctx, "get", "validatingwebhookconfiguration", "mainstay")
		return err
	})
	if err != nil {
		return err
	}
	s.log.Say("kubectl scale webapp %s --replicas=11", app)
	_, err = s.kubectl(ctx, "-n", namespace, "scale", "webapp", app, "--replicas=11")
	if err == nil || !strings.Contains(err.Error(), "at most 10") {
		return fmt.Errorf("11 replicas were not refused by the default policy: %w", err)
	}
	_, answer, _ := strings.Cut(strings.TrimSpace(err.Error()), "denied the request: ")
	s.log.Say("  refused: %s", answer)
	return nil
}

// request asks the application through its Service, until it answers.
func (s *show) request(ctx context.Context) error {
	return await(ctx, "asking the application", func() error {
		answer, err := s.ask(ctx)
		if err == nil {
			s.log.Say("  it answers: %s", answer)
		}
		return err
	})
}

func (s *show) ask(ctx context.Context) (string, error) {
	address, err := s.kubectl(ctx, "-n", namespace, "get", "service", app, "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1024))
	return fmt.Sprintf("GET http://%s -> %s: %s", address, response.Status, strings.Join(strings.Fields(string(body)), " ")), err
}

func (s *show) farewell() {
	s.log.Say("done: the cluster goes on running")
	fmt.Printf(`
Go on with:
  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl -n %s get webapps -w
  kubectl -n %s get farmpods -w
  kubectl explain webapp.spec
  kubectl -n %s logs -l app.kubernetes.io/name=mainstay -f
End it with:
  make demo-down
`, s.cluster.Kubeconfig, s.cluster.Kubectl, namespace, namespace, system)
}

// await tries something until it succeeds; an error says what it was.
func await(ctx context.Context, doing string, attempt func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := attempt()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits a moment, or for the end.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(250 * time.Millisecond):
		return nil
	}
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
