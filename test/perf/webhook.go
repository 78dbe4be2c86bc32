package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// reviews is the number of creations timed on each of two API servers in turn, after warmUp
	// others.
	reviews = 2000
	warmUp  = 200
)

// webhook compares how long users wait with our webhooks, and with no-op webhooks of the same
// rules.
func (b *bench) webhook(ctx context.Context) error {
	ours, err := b.plane(ctx, "webhook")
	if err != nil {
		return err
	}
	defer b.end(ours)
	kubeconfig, _, err := ours.user(managerUser)
	if err != nil {
		return err
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	running, err := startChild(ours.directory, childOptions{Kubeconfig: kubeconfig, WebhookPort: port})
	if err != nil {
		return err
	}
	defer b.endChild(running)
	if err := awaitWebhooks(ctx, ours.client); err != nil {
		return err
	}
	noop, err := b.plane(ctx, "webhook-floor")
	if err != nil {
		return err
	}
	defer b.end(noop)
	stop, err := serveNoop(ctx, ours.client, noop.client)
	if err != nil {
		return err
	}
	defer stop()
	var took [2][]time.Duration
	for i := range warmUp + reviews {
		for side, p := range []*plane{ours, noop} {
			start := time.Now()
			if err := p.client.Create(ctx, newWebApp("default", "reviewed"), client.DryRunAll); err != nil {
				return err
			}
			if i >= warmUp {
				took[side] = append(took[side], time.Since(start))
			}
		}
	}
	for _, share := range []float64{0.5, 0.99} {
		own, floor := percentile(took[0], share), percentile(took[1], share)
		b.add(Figure{Name: fmt.Sprintf("webhook: p%.0f of a creation over that with no-op webhooks", share*100), Kind: Ratio, Limit: new(1.5),
			Value: own.Seconds() / floor.Seconds(),
			Note: fmt.Sprintf("%.2f ms, %.2f ms; %d dry-run creations of a WebApp, one after the other", own.Seconds()*1e3, floor.Seconds()*1e3,
				reviews)})
	}
	return nil
}

func percentile(of []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// awaitWebhooks waits until our webhooks are called: the answer then has the defaults of a policy.
func awaitWebhooks(ctx context.Context, to client.Client) error {
	for {
		app := newWebApp("default", "awaited")
		if err := to.Create(ctx, app, client.DryRunAll); err == nil && len(app.Labels)+len(app.Spec.Labels) > 0 {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// noopCommand is the argument that makes this program a webhook that allows everything.
const noopCommand = "noop"

// noopAnswer has the URL of the webhook.
type noopAnswer struct {
	URL string
	CA  []byte
}

// runNoop serves until standard input ends.
func runNoop(string) error {
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		review.Request = nil
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(review) // the API server would report an error
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := json.NewEncoder(os.Stdout).Encode(noopAnswer{URL: server.URL, CA: ca}); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// serveNoop starts such a webhook, and configures one API server to call it wherever the other
// calls ours.
func serveNoop(ctx context.Context, from, to client.Client) (func(), error) {
	serves, stop, err := startNoop(ctx)
	if err != nil {
		return nil, err
	}
	if err := copyWebhooks(ctx, from, to, serves); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// startNoop starts such a webhook, and returns what ends it.
func startNoop(ctx context.Context) (serves noopAnswer, stop func(), err error) {
	process := exec.CommandContext(ctx, "/proc/self/exe", noopCommand, "")
	input, err := process.StdinPipe()
	if err != nil {
		return serves, nil, err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return serves, nil, err
	}
	if err := process.Start(); err != nil {
		return serves, nil, err
	}
	stop = func() {
		_ = input.Close()
		_ = process.Wait() // it only had to serve
	}
	if err := json.NewDecoder(bufio.NewReader(output)).Decode(&serves); err != nil {
		stop()
		return serves, nil, err
	}
	return serves, stop, nil
}

func copyWebhooks(ctx context.Context, from, to client.Client, serves noopAnswer) error {
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	if err := from.List(ctx, &mutating); err != nil {
		return err
	}
	for _, found := range mutating.Items {
		copied := admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: found.Webhooks}
		copied.Name = found.Name
		for i := range copied.Webhooks {
			copied.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &serves.URL, CABundle: serves.CA}
		}
		if err := to.Create(ctx, &copied); err != nil {
			return err
		}
	}
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := from.List(ctx, &validating); err != nil {
		return err
	}
	for _, found := range validating.Items {
		copied := admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: found.Webhooks}
		copied.Name = found.Name
		for i := range copied.Webhooks {
			copied.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &serves.URL, CABundle: serves.CA}
		}
		if err := to.Create(ctx, &copied); err != nil {
			return err
		}
	}
	if len(mutating.Items) == 0 || len(validating.Items) == 0 {
		return fmt.Errorf("found %d mutating and %d validating webhook configurations: expected both", len(mutating.Items), len(validating.Items))
	}
	return nil
}
