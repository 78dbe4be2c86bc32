// Package cluster is an instance's access to the API server: the Lease with the election record,
// the EndpointSlice of the write Service, the instance's own Pod, the ConfigMap with its settings,
// and the Secret with databases and users. Every call is one attempt: the callers decide what is
// retried, and when.
package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// Options say for which instance a Cluster is, and what it publishes.
type Options struct {
	// PodUID is the UID of this instance's own Pod: a report is not written to another Pod of the same
	// name.
	Namespace, Database, Pod, PodUID string
	// Address and Port are published in the EndpointSlice when this instance leads.
	Address string
	Port    int32
	// PlainPort is the port without TLS, which is published too; 0 means none.
	PlainPort int32
	Clock     clock.PassiveClock
	// Log gets an error of the API server only when it differs from the last one of the same call,
	// because everything is retried.
	Log logr.Logger
}

// Cluster is one instance's access to the API server. Its methods may be called by several
// goroutines.
type Cluster struct {
	Options
	clients

	family atomic.Pointer[family]
	// isOrphan is true if the Lease, as last read, has no owner reference.
	isOrphan atomic.Bool

	mu sync.Mutex
	// said is the error of each kind of call that was logged last; "" after a success.
	said map[string]string
}

// New returns the access of an instance, with a configuration from [Configure]. It does not connect
// yet.
func New(config *rest.Config, options Options) (*Cluster, error) {
	made, err := newClients(config, options.Namespace)
	if err != nil {
		return nil, err
	}
	return &Cluster{Options: options, clients: made}, nil
}

var _ instance.Cluster = (*Cluster)(nil)

// Read implements [instance.Cluster].
func (c *Cluster) Read(ctx context.Context) election.ReadResult {
	lease, err := c.leases.Get(ctx, c.Database, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return election.ReadResult{}
	case err != nil:
		c.logChange("reading the Lease", err)
		return election.ReadResult{Failed: true}
	}
	c.logChange("reading the Lease", nil)
	c.isOrphan.Store(len(lease.OwnerReferences) == 0)
	result := election.ReadResult{Version: lease.ResourceVersion}
	if result.Record, err = election.Decode(lease.Annotations[api.AnnotationRecord]); err != nil {
		result.Record, result.Damaged = election.Record{}, true
	}
	return result
}

// Write implements [instance.Cluster].
func (c *Cluster) Write(ctx context.Context, write election.WriteRecord) (election.Outcome, string) {
	lease, err := NewLease(c.Namespace, c.Database, write.Record, c.Clock.Now())
	if err != nil {
		c.logChange("writing the Lease", err)
		return election.Unanswered, "" // The record can't be encoded; nothing was sent.
	}
	if write.Version == "" {
		c.join(lease)
		lease, err = c.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = c.update(ctx, lease, write.Version)
	}
	switch {
	case err == nil:
		c.logChange("writing the Lease", nil)
		return election.Done, lease.ResourceVersion
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		return election.Conflict, ""
	}
	c.logChange("writing the Lease", err)
	return election.Unanswered, ""
}

// logChange logs the result of a call that is retried, if it differs from the last one. what
// describes the call.
func (c *Cluster) logChange(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said[what] == text {
		return
	}
	if c.said == nil {
		c.said = map[string]string{}
	}
	c.said[what] = text
	if err != nil {
		c.Log.Error(err, what+" failed; retrying")
		return
	}
	c.Log.Info(what + " succeeds again")
}

// update patches the Lease, so that other fields keep their values. Because of the version, it
// fails if the Lease has changed since it was read.
func (c *Cluster) update(ctx context.Context, lease *coordinationv1.Lease, version string) (*coordinationv1.Lease, error) {
	metadata := map[string]any{"resourceVersion": version, "annotations": lease.Annotations}
	if c.isOrphan.Load() {
		c.join(lease)
		metadata["ownerReferences"], metadata["labels"] = lease.OwnerReferences, lease.Labels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "spec": lease.Spec})
	if err != nil {
		return nil, fmt.Errorf("encoding the Lease: %w", err)
	}
	return c.leases.Patch(ctx, c.Database, types.MergePatchType, patch, metav1.PatchOptions{})
}

// NewLease returns the Lease of a database with the record, which is in an annotation. The fields
// of its spec are only for people: nothing depends on them.
func NewLease(namespace, database string, record election.Record, now time.Time) (*coordinationv1.Lease, error) {
	text, err := record.Encode()
	if err != nil {
		return nil, err
	}
	holder := record.Holder.Member.Name
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: database, Annotations: map[string]string{api.AnnotationRecord: text}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}
	if terms := int32(min(record.Term, 1<<30)); terms > 0 { //nolint:gosec // it is not larger
		lease.Spec.LeaseTransitions = &terms
		lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	}
	return lease, nil
}

// fieldManager is as whom an instance publishes its address. The manager, which empties the
// EndpointSlice of a database that hibernates, takes it for one of Mainstay's.
var fieldManager = naming.Manager("instance")

// Publish implements [instance.Cluster]. The term in the EndpointSlice, and its resourceVersion,
// keep an earlier leader from replacing a later one. It writes nothing if the EndpointSlice is up
// to date.
func (c *Cluster) Publish(ctx context.Context, term uint64) error {
	err := c.publish(ctx, term)
	c.logChange("publishing the address", err)
	return err
}

func (c *Cluster) publish(ctx context.Context, term uint64) error {
	wanted := c.endpointSlice(term)
	live, err := c.endpoints.Get(ctx, wanted.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.join(wanted)
		_, err = c.endpoints.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
		return err
	}
	if err != nil {
		return err
	}
	if there, err := strconv.ParseUint(live.Annotations[api.AnnotationTerm], 10, 64); err == nil && there > term {
		return fmt.Errorf("the EndpointSlice %s has term %d, which is higher than %d: another instance leads, or, if none does, "+
			"the Lease was deleted: delete the EndpointSlice too", wanted.Name, there, term)
	}
	changed := live.DeepCopy()
	changed.AddressType, changed.Endpoints, changed.Ports = wanted.AddressType, wanted.Endpoints, wanted.Ports
	changed.Labels = naming.Merged(changed.Labels, wanted.Labels)
	changed.Annotations = naming.Merged(changed.Annotations, wanted.Annotations)
	c.join(changed)
	if equality.Semantic.DeepEqual(live, changed) {
		return nil
	}
	_, err = c.endpoints.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// endpointSlice returns the EndpointSlice that makes the write Service route to this instance.
func (c *Cluster) endpointSlice(term uint64) *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if ip := net.ParseIP(c.Address); ip != nil && ip.To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	ready, protocol, port := true, corev1.ProtocolTCP, contract.PortName
	service := contract.WriteServiceName(c.Database)
	ports := []discoveryv1.EndpointPort{{Name: &port, Port: &c.Port, Protocol: &protocol}}
	if c.PlainPort != 0 {
		plain := contract.PlainPortName
		ports = append(ports, discoveryv1.EndpointPort{Name: &plain, Port: &c.PlainPort, Protocol: &protocol})
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: service,
			Labels:      map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: contract.EndpointManager},
			Annotations: map[string]string{api.AnnotationTerm: strconv.FormatUint(term, 10)},
		},
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{c.Address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: c.Namespace, Name: c.Pod},
		}},
		Ports: ports,
	}
}

// Report implements [instance.Cluster]. It does not write to a later Pod of the same name, for
// which that Pod's own program reports.
func (c *Cluster) Report(ctx context.Context, report contract.Report) error {
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("encoding the instance's report: %w", err)
	}
	var role any // null removes the label.
	if report.Role != contract.NoRole {
		role = string(report.Role)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         c.PodUID,
		"annotations": map[string]any{api.AnnotationInstance: string(text)},
		"labels":      map[string]any{api.LabelRole: role},
	}})
	if err != nil {
		return fmt.Errorf("encoding the instance's report: %w", err)
	}
	_, err = c.pods.Patch(ctx, c.Pod, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// A connection to the API server on which nothing has arrived for idleTime is checked by a ping of
// HTTP/2. If that is not answered within pingTime, the connection is closed, and the next request
// makes a new one, perhaps to another API server. client-go's own times are 30 s and 15 s.
const (
	idleTime = 2 * time.Second
	pingTime = 2 * time.Second
)

// FindDeadConnections sets how soon dead connections are found, for all clients that this process
// makes from then on: client-go takes that only from the environment.
func FindDeadConnections() {
	for name, limit := range map[string]time.Duration{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": idleTime, "HTTP2_PING_TIMEOUT_SECONDS": pingTime} {
		_ = os.Setenv(name, strconv.Itoa(int(limit.Seconds()))) // It refuses only impossible names.
	}
}

// Configure returns a copy of the configuration with the User-Agent of an instance, and without
// rate limiting in the client.
func Configure(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.UserAgent = "mainstay-instance"
	config.QPS = -1 // No limit: the election itself paces its calls, and a failover must not wait.
	return config
}
