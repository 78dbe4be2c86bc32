package testenv

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/mainstay-platform/mainstay/internal/setup"
)

const (
	// Within is how long a test waits for something before it fails. A success takes some tenths of a
	// second; the rest is for slow and busy machines.
	Within = 4 * time.Minute
	// Poll is the interval between two checks.
	Poll = 20 * time.Millisecond
	// startLimit is how long etcd and the API server may take to start. Each needs some 5 s of one
	// core. When they take longer, envtest starts them again, which does not help.
	startLimit = 5 * time.Minute
	// owned is how many servers of their own tests may run at once. Each takes some 400 MiB, and a
	// whole core to start.
	owned = 3
)

// slots limits the servers to owned.
var slots = make(chan struct{}, owned)

// Options configure an API server.
type Options struct {
	// Definitions installs the CustomResourceDefinitions of the chart.
	Definitions bool
	// Configure changes the environment before the start. May be nil.
	Configure func(*envtest.Environment) error
}

// Server is an etcd with a kube-apiserver. There is no kubelet and there are no controllers: tests
// do their work.
type Server struct {
	Environment *envtest.Environment
	// Config has all rights and no rate limit. Settle waits for what is written through it or a copy
	// of it.
	Config *rest.Config
	// Client knows our kinds and those of Kubernetes.
	Client client.WithWatch

	ports []*reserved
	// etcd and apiServer are what those say about why they end by themselves.
	etcd, apiServer fatal
}

// Start starts a server. The caller must call Stop.
func Start(options Options) (*Server, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil, errors.New("KUBEBUILDER_ASSETS is not set: run `make test-integration`, which builds etcd and kube-apiserver and sets it")
	}
	s := &Server{Environment: &envtest.Environment{ControlPlaneStartTimeout: startLimit, ControlPlaneStopTimeout: time.Minute}}
	if options.Definitions {
		s.Environment.CRDDirectoryPaths = []string{Repository("charts", "mainstay", "crds")}
		s.Environment.ErrorIfCRDPathMissing = true
		s.Environment.CRDInstallOptions.MaxTime = startLimit // of its own, envtest waits for 10 s
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	if options.Configure != nil {
		if err := options.Configure(s.Environment); err != nil {
			s.release()
			return nil, fmt.Errorf("configuring the API server: %w", err)
		}
	}
	begins(s)
	config, err := s.start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting the API server: %w", err), s.Stop())
	}
	config.QPS, config.Burst = -1, -1
	config.Wrap(noteWrites)
	s.Config = config
	if s.Client, err = NewClient(config); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// start starts the environment. envtest gives an API server that answers 5 s to make its namespace
// default, and then fails. The API server runs, so all that follows is done again, until startLimit
// ends.
func (s *Server) start() (*rest.Config, error) {
	begun := time.Now()
	config, err := s.Environment.Start()
	if s.Environment.Config == nil {
		return config, err
	}
	s.Environment.UseExistingCluster = new(true)
	defer func() { s.Environment.UseExistingCluster = nil }()
	for wait.Interrupted(err) && time.Since(begun) < startLimit {
		config, err = s.Environment.Start()
	}
	return config, err
}

// New starts a server that ends with the test. It waits while owned servers are running.
func New(t testing.TB, options Options) *Server {
	t.Helper()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	s, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	return s
}

// listen chooses the ports. envtest would choose any free port, which another process may take
// before the server listens.
func (s *Server) listen() error {
	for range 2 {
		port, err := reserve()
		if err != nil {
			s.release()
			return err
		}
		s.ports = append(s.ports, port)
	}
	s.Environment.ControlPlane.Etcd = &envtest.Etcd{URL: &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", s.ports[0].port)}}
	server := s.Environment.ControlPlane.GetAPIServer()
	server.Address, server.Port = "127.0.0.1", strconv.Itoa(s.ports[1].port)
	if os.Getenv("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT") == "" {
		server.Err, s.Environment.ControlPlane.Etcd.Err = &s.apiServer, &s.etcd
	}
	return nil
}

func (s *Server) release() {
	for _, port := range s.ports {
		port.release()
	}
	s.ports = nil
}

// Stop stops the server and removes its data. It prints why etcd or the API server has ended by
// itself, if one has.
func (s *Server) Stop() error {
	defer s.release()
	defer ends(s)
	for name, ended := range map[string]*fatal{"etcd": &s.etcd, "the API server": &s.apiServer} {
		if why := ended.String(); why != "" {
			fmt.Fprintf(os.Stderr, "%s has ended by itself:\n%s\n", name, why)
		}
	}
	return s.Environment.Stop()
}

// Namespace creates a namespace with a unique name. There is no namespace controller, so its
// objects remain until the server ends.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := s.Client.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	return created.Name
}

// NewClient returns a client that knows our kinds and those of Kubernetes. It reads from the API
// server, not from a cache.
func NewClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := setup.Scheme()
	if err != nil {
		return nil, err
	}
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return made, nil
}

// repository returns the root folder of the repository. Tests run in the folder of their package.
var repository = sync.OnceValue(func() string {
	_, file, _, _ := runtime.Caller(0)
	if filepath.IsAbs(file) {
		return filepath.Join(filepath.Dir(file), "..", "..")
	}
	// Built with -trimpath: use the nearest folder above that has a go.mod.
	here, err := os.Getwd()
	if err != nil {
		return "."
	}
	for at := here; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
	}
	return here
})

// Repository returns the path of a file in the repository, from the test of any package.
func Repository(elements ...string) string {
	return filepath.Join(append([]string{repository()}, elements...)...)
}
