package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

// Users whose calls are counted: the manager, and the programs that it is compared with.
const (
	managerUser = "mainstay"
	floorUser   = "floor"
)

// auditPolicy logs each call of the measured users, and none of ours.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [` + managerUser + `, ` + floorUser + `]
- level: None
`

// plane is an API server with its own etcd. Calls are counted from its audit log, independently of
// the measured code.
type plane struct {
	environment *envtest.Environment
	directory   string
	// client is the administrator's client. Its calls are not counted.
	client client.Client
	config *rest.Config
	// processes are stopped before the API server.
	processes []*exec.Cmd
}

// preparation changes an API server before its start. Its files go to directory.
type preparation func(environment *envtest.Environment, directory string) error

// newPlane starts an API server with our CRDs, in its own folder below directory.
func newPlane(ctx context.Context, directory string, prepare ...preparation) (*plane, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	policy := filepath.Join(directory, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	p := &plane{environment: &envtest.Environment{}, directory: directory}
	p.environment.ControlPlane.GetAPIServer().Configure().
		// Enough addresses for a Service of each WebApp.
		Set("service-cluster-ip-range", "10.0.0.0/16").
		Append("audit-policy-file", policy).
		Append("audit-log-path", p.auditLog()).
		// One file: a rotated one would not be counted.
		Append("audit-log-maxsize", "0").
		// Each line is written before the call is answered, so that none is missing later.
		Append("audit-log-mode", "blocking")
	for _, change := range prepare {
		if err := change(p.environment, directory); err != nil {
			return nil, err
		}
	}
	config, err := p.environment.Start()
	if err != nil {
		return nil, fmt.Errorf("starting the API server: %w", err)
	}
	config.QPS, config.Burst = -1, -1
	p.config = config
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *plane) prepare(ctx context.Context) error {
	scheme, err := setup.Scheme()
	if err != nil {
		return err
	}
	direct, err := crds.NewClient(p.config)
	if err != nil {
		return err
	}
	if err := crds.Install(ctx, direct); err != nil {
		return err
	}
	if p.client, err = client.New(p.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}})
}

func (p *plane) auditLog() string { return filepath.Join(p.directory, "audit.log") }

// user creates a user, and returns the path of its kubeconfig and the configuration.
func (p *plane) user(name string) (string, *rest.Config, error) {
	added, err := p.environment.AddUser(envtest.User{Name: name, Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return "", nil, err
	}
	text, err := added.KubeConfig()
	if err != nil {
		return "", nil, err
	}
	path := filepath.Join(p.directory, name+".kubeconfig")
	config := rest.CopyConfig(added.Config())
	config.QPS, config.Burst = -1, -1
	return path, config, os.WriteFile(path, text, 0o600)
}

// run starts a program that ends with the API server. Its output goes to a file of its name.
func (p *plane) run(program, name string, arguments ...string) error {
	output, err := os.Create(filepath.Join(p.directory, name+".log"))
	if err != nil {
		return err
	}
	defer output.Close()
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	p.processes = append(p.processes, command)
	return nil
}

// simulator has the programs that simulate nodes.
type simulator struct {
	// assets is the folder of Kubernetes' programs.
	assets string
	// kwok is the path of kwok, stages the folder of the life cycles that come with it.
	kwok, stages string
}

// configs returns the arguments that name the stages: nodes and pods are ready at once.
func (s simulator) configs() []string {
	var arguments []string
	for _, stage := range []string{"node/fast/node-initialize.yaml", "pod/fast/pod-ready.yaml", "pod/fast/pod-delete.yaml"} {
		arguments = append(arguments, "--config="+filepath.Join(s.stages, stage))
	}
	return arguments
}

// simulate starts what creates pods of Deployments and makes them ready: Kubernetes' own
// controllers and scheduler, and nodes that kwok simulates.
func (p *plane) simulate(ctx context.Context, with simulator, nodes int) error {
	path, _, err := p.user("simulation")
	if err != nil {
		return err
	}
	for i := range nodes {
		if err := p.client.Create(ctx, simulatedNode(i)); err != nil {
			return err
		}
	}
	// Their own rate limits would limit the measurement.
	fast := []string{"--kubeconfig=" + path, "--kube-api-qps=2000", "--kube-api-burst=4000", "--leader-elect=false", "--secure-port=0"}
	return errors.Join(
		p.run(filepath.Join(with.assets, "kube-controller-manager"), "controllers", append(fast,
			"--controllers=deployment-controller,replicaset-controller,disruption-controller,node-lifecycle-controller")...),
		p.run(filepath.Join(with.assets, "kube-scheduler"), "scheduler", fast...),
		p.run(with.kwok, "kwok", append([]string{"--kubeconfig=" + path, "--manage-all-nodes", "--node-lease-duration-seconds=40"},
			with.configs()...)...),
	)
}

func simulatedNode(i int) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods: resource.MustParse("1000"),
	}
	name := fmt.Sprintf("simulated-%d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Allocatable: room, Capacity: room},
	}
}

// stop stops everything.
func (p *plane) stop() error {
	for _, process := range p.processes {
		_ = process.Process.Signal(syscall.SIGTERM)
		ended := time.AfterFunc(10*time.Second, func() { _ = process.Process.Kill() })
		_ = process.Wait() // ends by our signal
		ended.Stop()
	}
	return p.environment.Stop()
}
