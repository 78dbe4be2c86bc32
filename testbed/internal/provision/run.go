package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// resync is the interval after which given-up work is repeated, for example after the disk was
// full.
const resync = 30 * time.Second

// controller creates, grows and deletes volumes. Only one goroutine works: a volume takes some 50
// ms, and no locks are needed.
type controller struct {
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	queue   workqueue.TypedRateLimitingInterface[key]
	events  record.EventRecorder
	images  images
}

// key names a claim (with a namespace) or a volume (without).
type key struct{ namespace, name string }

// Run serves until ctx ends. It needs root, and the folder must be on a disk.
func Run(ctx context.Context, kubeconfig, folder string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	factory := informers.NewSharedInformerFactory(client, resync)
	c := &controller{
		client:  client,
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: factory.Core().V1().PersistentVolumes().Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](100*time.Millisecond, 10*time.Second)),
		events: broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: Name}),
		images: images(folder),
	}
	for _, informer := range []toolscache.SharedIndexInformer{
		factory.Core().V1().PersistentVolumeClaims().Informer(),
		factory.Core().V1().PersistentVolumes().Informer(),
	} {
		if _, err := informer.AddEventHandler(c.handler()); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	slog.InfoContext(ctx, "provisioner started", "folder", folder)
	for c.next(ctx) {
	}
	factory.Shutdown()
	return nil
}

// handler queues objects that were added or changed. Deletions need no work: we delete a volume
// after its data.
func (c *controller) handler() toolscache.ResourceEventHandler {
	enqueue := func(object any) {
		switch object := object.(type) {
		case *corev1.PersistentVolumeClaim:
			c.queue.Add(key{object.Namespace, object.Name})
		case *corev1.PersistentVolume:
			c.queue.Add(key{name: object.Name})
			if claim := object.Spec.ClaimRef; claim != nil {
				c.queue.Add(key{claim.Namespace, claim.Name})
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	}
}

// next handles one object, and returns false when the queue has shut down.
func (c *controller) next(ctx context.Context) bool {
	item, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(item)
	work := c.syncVolume
	if item.namespace != "" {
		work = c.syncClaim
	}
	if err := work(ctx, item); err != nil {
		slog.ErrorContext(ctx, "volume work failed, retrying", "namespace", item.namespace, "name", item.name, "error", err)
		c.queue.AddRateLimited(item)
		return true
	}
	c.queue.Forget(item)
	return true
}

func (c *controller) syncClaim(ctx context.Context, item key) error {
	claim, err := c.claims.PersistentVolumeClaims(item.namespace).Get(item.name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the claim: %w", err)
	}
	name := claim.Spec.VolumeName
	if name == "" {
		name = volumeName(claim)
	}
	volume, err := c.volumes.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the volume: %w", err)
	}
	if apierrors.IsNotFound(err) {
		volume = nil
	}
	switch decideClaim(claim, volume) {
	case actionCreate:
		if volume != nil {
			return nil // made already; Kubernetes is about to bind it
		}
		err = c.create(ctx, claim)
	case actionGrow:
		err = c.grow(ctx, claim, volume)
	case actionReport:
		err = c.report(ctx, claim, volume.Spec.Capacity[corev1.ResourceStorage])
	case actionNone:
		return nil
	}
	if err != nil {
		c.events.Event(claim, corev1.EventTypeWarning, "VolumeWorkFailed", err.Error())
	}
	return err
}

func (c *controller) create(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if err := checkClaim(claim); err != nil {
		c.events.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
		return nil // trying again would not help: the event tells the user
	}
	class, err := c.client.StorageV1().StorageClasses().Get(ctx, *claim.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the storage class: %w", err)
	}
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	name, size := volumeName(claim), roundSize(request.Value())
	if err := c.images.create(ctx, name, size); err != nil {
		return err
	}
	volume := desiredVolume(claim, class, c.images.mount(name), size)
	_, err = c.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the volume: %w", err)
	}
	slog.InfoContext(ctx, "volume created", "volume", name, "bytes", size)
	return nil
}

// grow enlarges the file system, then updates the volume and the claim. After an error in between,
// all of it is repeated.
func (c *controller) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	size := roundSize(request.Value())
	if err := c.images.grow(ctx, volume.Name, size); err != nil {
		return err
	}
	capacity := *resource.NewQuantity(size, resource.BinarySI)
	// The claim first: between the two, the kubelet would try to grow the volume itself
	// if the volume were larger than its claim says.
	if err := c.report(ctx, claim, capacity); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"capacity": map[string]any{"storage": capacity}}})
	if err != nil {
		return fmt.Errorf("encoding the volume's size: %w", err)
	}
	_, err = c.client.CoreV1().PersistentVolumes().Patch(ctx, volume.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("updating the volume's size: %w", err)
	}
	c.events.Eventf(claim, corev1.EventTypeNormal, "VolumeGrown", "The volume now has %s", capacity.String())
	slog.InfoContext(ctx, "volume grown", "volume", volume.Name, "bytes", size)
	return nil
}

func (c *controller) report(ctx context.Context, claim *corev1.PersistentVolumeClaim, capacity resource.Quantity) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": map[string]any{"storage": capacity}}})
	if err != nil {
		return fmt.Errorf("encoding the claim's size: %w", err)
	}
	_, err = c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).
		Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("updating the claim's status: %w", err)
	}
	return nil
}

func (c *controller) syncVolume(ctx context.Context, item key) error {
	volume, err := c.volumes.Get(item.name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the volume: %w", err)
	}
	if !isReclaimable(volume) || !strings.HasPrefix(volume.Name, "pvc-") {
		return nil
	}
	if err := c.images.remove(ctx, volume.Name); err != nil {
		return err
	}
	err = c.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the volume: %w", err)
	}
	slog.InfoContext(ctx, "volume deleted", "volume", volume.Name)
	return nil
}
