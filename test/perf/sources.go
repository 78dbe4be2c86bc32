package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

const (
	// manySecrets and manyConfigMaps are numbers of a large cluster, together sourceBytes. The manager
	// may read all of the Secrets.
	manySecrets    = 20_000
	manyConfigMaps = 15_000
	sourceBytes    = 800_000_000
	sourceSize     = sourceBytes / (manySecrets + manyConfigMaps)
	// users is the number of Deployments, which use a Secret and a ConfigMap each.
	users = 50
	// sourceLimit is in MiB.
	sourceLimit = 80.0
	mebibyte    = 1 << 20
)

// sourceNamespaces are the namespaces of the sources.
var sourceNamespaces = []string{"sources-0", "sources-1", "sources-2", "sources-3"}

// sources measures the manager's memory for the ConfigMaps and Secrets of a large cluster, while
// they are created and when it starts with them.
func (b *bench) sources(ctx context.Context) error {
	p, err := b.plane(ctx, "sources")
	if err != nil {
		return err
	}
	defer b.end(p)
	for _, namespace := range sourceNamespaces {
		if err := makeNamespace(ctx, p.client, namespace); err != nil {
			return err
		}
	}
	kubeconfig, _, err := p.user(managerUser)
	if err != nil {
		return err
	}
	options := childOptions{Kubeconfig: kubeconfig, SecretNamespaces: sourceNamespaces}
	running, err := startChild(p.directory, options)
	if err != nil {
		return err
	}
	empty, full, err := b.fillSources(ctx, p, running)
	if err := errors.Join(err, running.stop()); err != nil {
		return err
	}
	again, peak, err := b.startWithSources(ctx, p, options)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d Secrets and %d ConfigMaps of %d MB together", manySecrets, manyConfigMaps, sourceBytes/1_000_000)
	grown := func(heap uint64) float64 { return max(0, (float64(heap)-float64(empty.Heap))/mebibyte) }
	b.add(
		Figure{Name: "sources: heap for " + what, Kind: Info, Unit: "MiB", Limit: new(sourceLimit), Value: grown(full.Heap),
			Note: fmt.Sprintf("%d of each are used; %.1f MiB without any", users, float64(empty.Heap)/mebibyte)},
		Figure{Name: "sources: heap after a start with them", Kind: Info, Unit: "MiB", Limit: new(sourceLimit), Value: grown(again.Heap),
			Note: fmt.Sprintf("at its most the process had %.0f MiB, garbage among them", float64(peak)/mebibyte)},
	)
	return nil
}

// fillSources creates all of them, and returns the manager's state before and after.
func (b *bench) fillSources(ctx context.Context, p *plane, running *child) (empty, full state, err error) {
	if err := b.awaitManager(ctx, p, running); err != nil {
		return empty, full, err
	}
	if empty, err = running.state(true); err != nil {
		return empty, full, err
	}
	start := time.Now()
	unused := max(manySecrets, manyConfigMaps) - users
	err = each(ctx, unused, clients, func(ctx context.Context, i int) error {
		name, content := sourceMeta(i), randomBytes(i)
		var failed error
		if i < manySecrets-users {
			failed = p.client.Create(ctx, &corev1.Secret{ObjectMeta: name, Data: map[string][]byte{"value": content}})
		}
		if i < manyConfigMaps-users {
			failed = errors.Join(failed, p.client.Create(ctx,
				&corev1.ConfigMap{ObjectMeta: name, Data: map[string]string{"value": base64.RawStdEncoding.EncodeToString(content)[:sourceSize]}}))
		}
		return failed
	})
	if err != nil {
		return empty, full, err
	}
	b.say("created them in %s", time.Since(start).Round(time.Second))
	// The used ones come last: a manager that has seen them has seen all.
	seen := p.until(ctx, &appsv1.DeploymentList{}, users, func(object client.Object) bool {
		return len(workload.ParseStamp(object.GetAnnotations()[configv1.AnnotationObserved]).Sources) == 2
	})
	err = each(ctx, users, clients, func(ctx context.Context, i int) error {
		name, content := sourceMeta(unused+i), randomBytes(unused+i)
		return errors.Join(
			p.client.Create(ctx, &corev1.Secret{ObjectMeta: name, Data: map[string][]byte{"value": content}}),
			p.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: name, Data: map[string]string{"value": "0"}}),
			p.client.Create(ctx, userOf(name)),
		)
	})
	if err := errors.Join(err, <-seen); err != nil {
		return empty, full, err
	}
	full, err = running.state(true)
	return empty, full, err
}

// startWithSources starts a manager with all sources, and returns its state and its peak memory.
func (b *bench) startWithSources(ctx context.Context, p *plane, options childOptions) (state, uint64, error) {
	running, err := startChild(p.directory, options)
	if err != nil {
		return state{}, 0, err
	}
	defer b.endChild(running)
	// A restart for a change shows that the manager has read all Secrets and ConfigMaps of the
	// namespace.
	restarted := p.until(ctx, &appsv1.DeploymentList{}, users, func(object client.Object) bool {
		deployment, ok := object.(*appsv1.Deployment)
		return ok && deployment.Spec.Template.Annotations[configv1.AnnotationRestartedFor] != ""
	})
	first := max(manySecrets, manyConfigMaps) - users
	err = each(ctx, users, clients, func(ctx context.Context, i int) error {
		return p.client.Update(ctx, &corev1.Secret{ObjectMeta: sourceMeta(first + i), Data: map[string][]byte{"value": []byte("another")}})
	})
	if err := errors.Join(err, <-restarted); err != nil {
		return state{}, 0, err
	}
	peak, err := running.peak()
	if err != nil {
		return state{}, 0, err
	}
	found, err := running.state(true)
	return found, peak, err
}

// peak returns the highest memory use of the process so far, in bytes, without the pages of its
// program's file: a container whose limit is reached drops these first. As many are subtracted as
// there are now; at the highest use there may have been fewer.
//
// Source: proc_pid_status(5), VmHWM and RssFile.
func (c *child) peak() (uint64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.process.Process.Pid))
	if err != nil {
		return 0, err
	}
	kilobytes := map[string]uint64{}
	for line := range bytes.Lines(status) {
		name, value, _ := strings.Cut(string(line), ":")
		var n uint64
		if found, _ := fmt.Sscanf(value, "%d kB", &n); found == 1 {
			kilobytes[name] = n
		}
	}
	most, file := kilobytes["VmHWM"], kilobytes["RssFile"]
	if most <= file {
		return 0, fmt.Errorf("/proc says that the process used at most %d kB of memory, %d of them of files", most, file)
	}
	return (most - file) << 10, nil
}

func sourceMeta(i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: sourceNamespaces[i%len(sourceNamespaces)], Name: fmt.Sprintf("configuration-%05d", i),
		Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprintf("app-%d", i), "app.kubernetes.io/managed-by": "Helm"},
	}
}

// randomBytes returns bytes that cannot be compressed and are the same in each run.
func randomBytes(seed int) []byte {
	content := make([]byte, sourceSize)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(content) // it never fails
	return content
}

// userOf returns a Deployment that uses the Secret and the ConfigMap of its name.
func userOf(name metav1.ObjectMeta) *appsv1.Deployment {
	deployment := scaledToZero(name.Namespace, name.Name, name.Name, "auto")
	pod := &deployment.Spec.Template.Spec
	pod.Volumes = []corev1.Volume{{Name: "secret",
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name.Name}}}}
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "secret", MountPath: "/secret"}}
	return deployment
}
