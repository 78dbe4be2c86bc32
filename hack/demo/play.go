package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

const (
	system    = "mainstay-system"
	namespace = "demo"
	app       = "shop"
	sample    = "config/samples/webapp.yaml"
	// patience bounds each wait; each takes seconds.
	patience = 2 * time.Minute
)

// manifest is the whole installation as one file, for kubectl.
const manifest = "dist/install.yaml"

// install applies the manifest, or upgrades what an earlier one installed.
func (s *show) install(ctx context.Context) error {
	text, err := os.ReadFile(manifest)
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	prepared, err := prepare(string(text), s.image, s.digest)
	if err != nil {
		return err
	}
	s.log.Say("kubectl apply --server-side -f %s", manifest)
	if _, err := s.kubectlWith(ctx, prepared, "apply", "--server-side", "--force-conflicts", "-f", "-"); err != nil {
		return err
	}
	for _, deployment := range []string{"mainstay-manager", "mainstay-apiserver"} {
		if _, err := s.kubectl(ctx, "-n", system, "rollout", "status", "deployment/"+deployment, "--timeout=3m"); err != nil {
			return err
		}
	}
	return nil
}

// serverImages is the argument of the manager with the images of a kind of server.
var serverImages = regexp.MustCompile(`--(postgresql|valkey)-images=\S+`)

// testbedImages are those that the testbed builds, for its nodes can pull no others.
var testbedImages = map[string]string{"postgresql": "17=docker.io/mainstay/postgresql:17", "valkey": "8=docker.io/mainstay/valkey:8"}

// builtImage is the image in the manifest: that of the manager, of our API server, and with the
// program that database pods run.
const builtImage = "docker.io/mainstay/mainstay:0.0.0-dev"

// prepare replaces the image by a pushed one, and adds its digest to the pods. Without a pushed
// image it is the testbed, and databases get its images.
func prepare(text, image, digest string) (string, error) {
	const annotations = "      annotations:\n"
	if image != "" {
		if !strings.Contains(text, builtImage) {
			return "", fmt.Errorf("%s does not have the image %s", manifest, builtImage)
		}
		text = strings.ReplaceAll(text, builtImage, image)
	} else {
		text = serverImages.ReplaceAllStringFunc(text, func(found string) string {
			kind := serverImages.FindStringSubmatch(found)[1]
			return "--" + kind + "-images=" + testbedImages[kind]
		})
	}
	const template = "  template:\n    metadata:\n"
	marked := strings.ReplaceAll(text, template+annotations, template+annotations+"        "+imageMark+": "+digest+"\n")
	if marked == text {
		return "", fmt.Errorf("%s has no pod template with annotations", manifest)
	}
	return marked, nil
}

// play applies the sample, uses it, breaks it and scales it.
func (s *show) play(ctx context.Context) error {
	if _, err := s.kubectlWith(ctx, demoNamespace, "create", "-f", "-"); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
		return err
	}
	text, err := os.ReadFile(sample)
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	s.log.Say("kubectl apply -n %s -f %s", namespace, sample)
	fmt.Println(indent(string(text)))
	if _, err := s.kubectl(ctx, "apply", "-n", namespace, "-f", sample); err != nil {
		return err
	}
	if err := s.until(ctx, "webapp", app, "{.status.phase} {.status.replicaSummary}", "Running 2/2"); err != nil {
		return err
	}
	if err := s.request(ctx); err != nil {
		return err
	}
	s.firstAnswer()
	s.log.Say("kubectl delete service %s: a user deletes a child ...", app)
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
	if err := s.until(ctx, "webapp", app, "{.status.phase} {.status.replicaSummary}", "Running 3/3"); err != nil {
		return err
	}
	if err := s.beRefused(ctx); err != nil {
		return err
	}
	table, err := s.kubectl(ctx, "-n", namespace, "get", "webapps,deployments,pods,services,serviceaccounts,poddisruptionbudgets", "-l",
		"app="+app)
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

// until shows how a value of an object changes, and returns when it has the wanted value.
func (s *show) until(ctx context.Context, kind, name, path, wanted string) error {
	deadline := time.Now().Add(patience)
	last := ""
	for time.Now().Before(deadline) {
		value, err := s.kubectl(ctx, "-n", namespace, "get", kind, name, "-o", "jsonpath="+path)
		if err != nil {
			return err
		}
		if value = strings.TrimSpace(value); value != last && value != "" {
			s.log.Say("  %s %s: %s", kind, name, value)
			last = value
		}
		if value == wanted {
			return nil
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	reason, _ := s.kubectl(ctx, "-n", namespace, "describe", kind, name)
	return fmt.Errorf("%s %s is %q and not %q after %s:\n%s", kind, name, last, wanted, patience, reason)
}

// beRefused requests more replicas than the default policy allows.
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

// request sends requests to the application through its Service, until it answers.
func (s *show) request(ctx context.Context) error {
	return await(ctx, "asking the application", func() error {
		answer, err := s.ask(ctx)
		if err == nil {
			s.log.Say("  it answers: %s", answer)
		}
		return err
	})
}

// ask sends a request through the API server's proxy, which is the only way to reach a user's own
// cluster from this machine.
func (s *show) ask(ctx context.Context) (string, error) {
	path := serviceProxy(app, "/")
	answer, err := s.kubectl(ctx, "get", "--raw", path)
	return fmt.Sprintf("GET %s -> %s", path, strings.Join(strings.Fields(answer), " ")), err
}

func (s *show) farewell() {
	s.log.Say("done: everything keeps running")
	fmt.Printf(`
Go on with:
  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl -n %s get webapps -w
  kubectl -n %s get farmpods -w
  kubectl -n %s get postgresqls -w
  kubectl -n %s get ecommerceplatforms -w
  kubectl explain webapp.spec
  kubectl -n %s logs -l app.kubernetes.io/name=mainstay -f
End it with:
%s
`, s.cluster.Kubeconfig, s.cluster.Kubectl, namespace, namespace, namespace, namespace, system, indent(s.ending()))
}

// ending says how to end what the demo has started.
func (s *show) ending() string {
	if s.registry == "" {
		return "make demo-down"
	}
	return "kubectl delete namespace " + namespace + "\n(docs/uninstall.md says how to remove Mainstay itself)"
}

// remaining says what a run that failed leaves, and how to end it. It is empty on a cluster that
// the demo may not use, where it has made nothing.
func (s *show) remaining() string {
	if s.registry != "" && !s.mayUse {
		return ""
	}
	return "\nWhat has started stays: run `make demo` again to continue, or end it with:\n" + indent(s.ending()) + "\n"
}

// await calls attempt until it succeeds; an error has the last failure.
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

// pause waits a moment, or until ctx ends.
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
