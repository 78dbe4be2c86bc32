package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/mainstay-platform/mainstay/internal/aggregated/aggregatedtest"
)

const (
	// servedCommand is the argument that makes this program our API server.
	servedCommand = "served"
	// informerCommand is the argument that makes this program an informer of all Pods, unchanged.
	informerCommand = "informer"
)

// servedOptions configure either of them.
type servedOptions struct {
	// Kubeconfig is the path of its kubeconfig.
	Kubeconfig string
	// Directory is for the files of the API server.
	Directory string
}

// place is the port of an API server and the CA of its certificate, reported when it listens.
type place struct {
	Port   int
	Bundle []byte
}

// runServed runs our API server as in a cluster, but with another certificate. It answers queries
// from standard input on standard output.
func runServed(encoded string) error {
	var options servedOptions
	if err := json.Unmarshal([]byte(encoded), &options); err != nil {
		return err
	}
	klog.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	kubeconfig, err := os.ReadFile(options.Kubeconfig)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(options.Directory, 0o700); err != nil {
		return err
	}
	server, err := aggregatedtest.NewServer(options.Directory, kubeconfig, "farmpods")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(place{Port: server.Port, Bundle: server.Bundle}); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 2)
	go func() { failed <- server.Run(ctx) }()
	go func() { failed <- answer(os.Stdin, os.Stdout, func() state { return state{} }) }()
	if err := <-failed; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// runInformer prints the number of its Pods once it has all of them, and then answers as runServed
// does.
func runInformer(encoded string) error {
	var options servedOptions
	if err := json.Unmarshal([]byte(encoded), &options); err != nil {
		return err
	}
	klog.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	config, err := clientcmd.BuildConfigFromFlags("", options.Kubeconfig)
	if err != nil {
		return err
	}
	// With the encoding that our server uses.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	factory := informers.NewSharedInformerFactory(clients, 0)
	pods := factory.Core().V1().Pods().Informer()
	factory.Start(ctx.Done())
	for resource, isFilled := range factory.WaitForCacheSync(ctx.Done()) {
		if !isFilled {
			return fmt.Errorf("the informer of %s did not sync", resource)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(len(pods.GetStore().ListKeys())); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- answer(os.Stdin, os.Stdout, func() state { return state{} }) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
