package instances

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance/cluster"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/postgres"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// The ports of every instance, each on an address of its own.
const (
	serverPort = 5432
	peerPort   = 8443
	// plainPort is that of a Valkey without TLS.
	plainPort = 6380
)

// name is that of every database: each is in a namespace of its own.
const name = "db"

// Database is some instances on this machine.
type Database struct {
	t         testing.TB
	server    *testenv.Server
	engine    string
	namespace string
	// block is the second number of all addresses, 127.BLOCK.0.0.
	block int
	// root is the file system of the image, and directory that of this database in it, as the
	// instances see it.
	root, directory string
	// release deletes the directory; nil until there is one.
	release   func()
	authority *Authority
	Pods      []*Pod
	// mostStill is for how long this process may stand still while a leader that nothing happened to
	// must go on leading: a fourth of what may replace it.
	mostStill time.Duration
	// past are the annotations of the Lease as they were, the newest last.
	past     []string
	cleanups []func()
	// lag is how long after the primary each of its answers leaves the write Service, in nanoseconds.
	lag atomic.Int64
}

// Pod is one instance with its volume.
type Pod struct {
	Name    string
	Address string
	uid     string
	d       *Database
	process *Process
	// API is the way to the API server, and Links are those to this pod, by who uses them.
	API   *proxy.Proxy
	Links map[string]*Link
}

// New starts a database with some instances. Its first one initialises it. It ends with the test.
func New(t testing.TB, server *testenv.Server, settings contract.Settings, instances int) *Database {
	t.Helper()
	d := Make(t, server, settings, instances)
	for _, pod := range d.Pods {
		pod.Start()
	}
	return d
}

// engines are the variables with the file systems of the engines' images.
var engines = map[string]string{"postgresql": "MAINSTAY_POSTGRESQL_ROOT", "valkey": "MAINSTAY_VALKEY_ROOT"}

// Make makes all that a database needs, and starts nothing.
func Make(t testing.TB, server *testenv.Server, settings contract.Settings, instances int) *Database {
	t.Helper()
	return makeOf(t, "postgresql", server, settings, instances)
}

// makeOf is Make for an engine.
func makeOf(t testing.TB, engine string, server *testenv.Server, settings contract.Settings, instances int) *Database {
	t.Helper()
	d := &Database{
		t: t, server: server, engine: engine, namespace: server.Namespace(t), root: os.Getenv(engines[engine]),
	}
	binary := os.Getenv("MAINSTAY_INSTANCE")
	if d.root == "" || binary == "" {
		t.Fatalf("%s and MAINSTAY_INSTANCE are not set: run `make test-instances`, which builds both", engines[engine])
	}
	t.Cleanup(d.end)
	d.must(d.claim())
	failoverAfter, err := time.ParseDuration(settings.FailoverAfter)
	d.must(err)
	d.mostStill = failoverAfter / 10
	d.must(d.prepare(binary))
	for i := range instances {
		pod := fmt.Sprintf("%s-%d", name, i)
		settings.Pods = append(settings.Pods, pod)
		d.Pods = append(d.Pods, &Pod{Name: pod, Address: fmt.Sprintf("127.%d.0.%d", d.block, i+1), d: d, Links: map[string]*Link{}})
	}
	d.must(d.create(t.Context(), settings))
	d.remember(t.Context())
	for _, pod := range d.Pods {
		d.must(d.furnish(pod))
	}
	return d
}

func (d *Database) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// claim gives the database its addresses. Each process begins elsewhere to look for them.
func (d *Database) claim() error {
	block, release, err := claimBlock("mainstay-test-database", os.Getpid()*7+int(blocks.Add(1)))
	if err != nil {
		return err
	}
	d.block = block
	d.cleanups = append(d.cleanups, release)
	return nil
}

// prepare makes the folder of the database, with the program.
func (d *Database) prepare(binary string) error {
	outside, release, err := newFolder(filepath.Join(d.root, "tmp"), "database")
	if err != nil {
		return err
	}
	d.release = release
	d.directory = "/tmp/" + filepath.Base(outside)
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("reading the program: %w", err)
	}
	if d.authority, err = NewAuthority(); err != nil {
		return err
	}
	return errors.Join(os.Chmod(outside, 0o755), os.WriteFile(d.outside("mainstay-instance"), content, 0o755))
}

// program is the path of a program of PostgreSQL in the image. The client may be that of another
// version.
func (d *Database) program(name string) string {
	found, err := filepath.Glob(filepath.Join(d.root, "usr/lib/postgresql/*/bin", name))
	if err != nil || len(found) == 0 {
		d.t.Fatalf("%s is no image with PostgreSQL's %s: %v", d.root, name, err)
	}
	return strings.TrimPrefix(found[0], d.root)
}

// environment is that of the containers.
func (d *Database) environment() []string {
	if d.engine == "valkey" {
		return []string{"PATH=/usr/bin:/bin", "HOME=/tmp"}
	}
	return []string{"PATH=" + filepath.Dir(d.program("postgres")) + ":/usr/bin:/bin", "HOME=/tmp"}
}

// outside returns the path of a file of the database as this test sees it.
func (d *Database) outside(elements ...string) string {
	return filepath.Join(append([]string{d.root, d.directory}, elements...)...)
}

// create writes what the manager would: the settings, and the Lease that says who initialises.
func (d *Database) create(ctx context.Context, settings contract.Settings) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("encoding the settings: %w", err)
	}
	lease, err := cluster.NewLease(d.namespace, name, election.Record{Initialise: d.Pods[0].Name}, time.Now())
	if err != nil {
		return err
	}
	objects := []client.Object{lease, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: contract.SettingsName(name)},
		Data:       map[string]string{contract.SettingsKey: string(text)},
	}}
	for _, object := range objects {
		if err := d.server.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	for _, pod := range d.Pods {
		object := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: pod.Name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "database", Image: "database"}}},
		}
		if err := d.server.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating the pod %s: %w", pod.Name, err)
		}
		pod.uid = string(object.UID)
	}
	return nil
}

// furnish gives a pod its folders, certificates, and ways to the API server and the others.
func (d *Database) furnish(pod *Pod) error {
	for _, folder := range []string{"volume", "run", "certificates", "application"} {
		path := d.outside(pod.Name, folder)
		if err := errors.Join(os.MkdirAll(path, 0o700), os.Chown(path, user, user)); err != nil {
			return fmt.Errorf("making a folder of %s: %w", pod.Name, err)
		}
	}
	subject := Subject{
		Name: postgres.CertificatePrefix + pod.Name, Hosts: []string{pod.Name}, Addresses: []net.IP{net.ParseIP(d.serviceAddress())},
	}
	if _, err := d.authority.IssueTo(subject, pod.certificates(), time.Now().Add(time.Hour)); err != nil {
		return err
	}
	way, err := proxy.New(d.server.Config, proxy.Plan{})
	if err != nil {
		return fmt.Errorf("making a way to the API server: %w", err)
	}
	pod.API = way
	d.cleanups = append(d.cleanups, way.Close)
	for i, from := range d.Pods {
		if from != pod {
			failed := func(err error) { d.t.Errorf("a link: %v", err) }
			pod.Links[from.Name] = NewLink(failed, d.linkAddress(i, pod), pod.Address, serverPort, peerPort)
			d.cleanups = append(d.cleanups, pod.Links[from.Name].Shut)
		}
	}
	return errors.Join(os.Chown(d.outside(pod.Name), user, user), writeKubeconfig(d.outside(pod.Name, "kubeconfig"), way.Connect()))
}

// certificates is the directory of the pod's certificate, as this test sees it.
func (p *Pod) certificates() string { return p.d.outside(p.Name, "certificates") }

// serviceAddress is that of the write Service, for clients of which an address must be in the
// certificate.
func (d *Database) serviceAddress() string { return fmt.Sprintf("127.%d.200.1", d.block) }

// linkAddress is where the instance with that index reaches another one.
func (d *Database) linkAddress(from int, to *Pod) string {
	return strings.Replace(to.Address, ".0.", fmt.Sprintf(".%d.", from+1), 1)
}

// writeKubeconfig writes how to connect to an API server.
func writeKubeconfig(path string, config *rest.Config) error {
	made := clientcmdapi.NewConfig()
	made.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host}
	made.AuthInfos["u"] = &clientcmdapi.AuthInfo{} // The way there has the credentials.
	made.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	made.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*made, path); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return os.Chown(path, user, user)
}

// Start starts the program of a pod.
func (p *Pod) Start() {
	p.d.t.Helper()
	process, err := p.launch(p.uid, p.shut)
	p.d.must(err)
	p.process = process
	for _, link := range p.Links {
		p.d.must(link.Open())
	}
}

// again starts the program once more, while it runs: in another pod of that name.
func (p *Pod) again() (*Process, error) { return p.launch("another", func() {}) }

// launch starts a process with the program. atEnd is called when it has ended.
func (p *Pod) launch(uid string, atEnd func()) (*Process, error) {
	hosts := []string{"nobody=0.0.0.0"}
	for i, from := range p.d.Pods {
		if from != p {
			continue
		}
		for _, to := range p.d.Pods {
			if to != p {
				hosts = append(hosts, to.Name+"="+p.d.linkAddress(i, to))
			}
		}
	}
	inside := func(element string) string { return filepath.Join(p.d.directory, p.Name, element) }
	plain := "0"
	if p.d.engine == "valkey" {
		plain = strconv.Itoa(plainPort)
	}
	return start(p.d.root, p.d.outside(p.Name, "log"), p.d.environment(), atEnd,
		filepath.Join(p.d.directory, "mainstay-instance"), "run", "--engine="+p.d.engine, "--plain-port="+plain, "--database="+name, "--namespace="+p.d.namespace, "--pod="+p.Name,
		"--pod-uid="+uid, "--volume="+inside("volume"), "--run="+inside("run"), "--certificates="+inside("certificates"),
		"--listen="+p.Address, "--advertise="+p.advertised(), "--probes="+p.Address+":8080", "--kubeconfig="+inside("kubeconfig"),
		"--hosts="+strings.Join(hosts, ","), "--application="+inside("application"), "--log-format=text")
}

// log is all that the program and its server have said.
func (p *Pod) log() string {
	text, err := os.ReadFile(p.d.outside(p.Name, "log"))
	p.d.must(err)
	return string(text)
}

// shut lets the ports of a pod refuse connections.
func (p *Pod) shut() {
	for _, link := range p.Links {
		link.Shut()
	}
}

// Kill ends the program and all its processes at once, as a lost container does.
func (p *Pod) Kill() {
	p.checkMemory()
	p.process.Kill()
}

// Running reports whether the program runs.
func (p *Pod) Running() bool {
	select {
	case <-p.process.ended:
		return false
	default:
		return true
	}
}

// Isolate cuts a pod off from all others and the API server, or connects it again.
func (p *Pod) Isolate(cut bool) {
	for _, other := range p.d.Pods {
		if other != p {
			p.Links[other.Name].Cut(cut)
			other.Links[p.Name].Cut(cut)
		}
	}
	if cut {
		p.API.Pause()
	} else {
		p.API.Resume()
	}
}

// end ends all instances, and shows their logs if the test failed.
func (d *Database) end() {
	for _, pod := range d.Pods {
		if pod.process != nil {
			pod.Kill()
		}
		if d.t.Failed() {
			log, _ := os.ReadFile(d.outside(pod.Name, "log"))
			d.t.Logf("log of %s:\n%s", pod.Name, log[max(0, len(log)-60_000):])
		}
	}
	for _, cleanup := range slices.Backward(d.cleanups) {
		cleanup()
	}
	if d.release != nil {
		d.release()
	}
}

// advertised is the address that an instance publishes: Kubernetes takes none of loopback.
func (p *Pod) advertised() string { return strings.Replace(p.Address, "127.", "10.", 1) }

// Published returns the pod that the write Service leads to, nil if there is none.
func (d *Database) Published(ctx context.Context) *Pod {
	var slice discoveryv1.EndpointSlice
	if err := d.server.Client.Get(ctx, d.key(contract.WriteServiceName(name)), &slice); err != nil || len(slice.Endpoints) == 0 {
		return nil
	}
	for _, pod := range d.Pods {
		if slice.Endpoints[0].Addresses[0] == pod.advertised() {
			return pod
		}
	}
	return nil
}

func (d *Database) key(object string) client.ObjectKey {
	return client.ObjectKey{Namespace: d.namespace, Name: object}
}

// Lease returns the Lease; an empty one if it can't be read.
func (d *Database) Lease(ctx context.Context) coordinationv1.Lease {
	var lease coordinationv1.Lease
	if err := d.server.Client.Get(ctx, d.key(name), &lease); err != nil {
		return coordinationv1.Lease{}
	}
	return lease
}

// Record returns what the Lease says; an empty record if that can't be read.
func (d *Database) Record(ctx context.Context) election.Record {
	record, err := election.Decode(d.Lease(ctx).Annotations[api.AnnotationRecord])
	if err != nil {
		return election.Record{}
	}
	return record
}

// remember keeps the record for a time when it will be old.
func (d *Database) remember(ctx context.Context) {
	if text := d.Lease(ctx).Annotations[api.AnnotationRecord]; len(d.past) == 0 || text != d.past[len(d.past)-1] {
		d.past = append(d.past, text)
	}
}

// old returns the last record that was remembered and is older than a record.
func (d *Database) old(than election.Record) string {
	for _, text := range slices.Backward(d.past) {
		if record, err := election.Decode(text); err == nil && record.Seq < than.Seq {
			return text
		}
	}
	d.t.Fatal("there was no other record before this one")
	return ""
}

// writeRecord writes what the Lease says, as somebody who is no instance.
func (d *Database) writeRecord(text string) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationRecord: text}}})
	d.must(err)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name}}
	d.must(d.server.Client.Patch(context.Background(), lease, client.RawPatch(types.MergePatchType, patch)))
}

// deleteLease deletes the Lease.
func (d *Database) deleteLease() {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name}}
	d.must(d.server.Client.Delete(context.Background(), lease))
}

// pod returns the pod of that name, nil if there is none.
func (d *Database) pod(name string) *Pod {
	for _, pod := range d.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// IsWhole reports whether one instance leads, all others follow, and commits may wait for any.
func (d *Database) IsWhole(ctx context.Context) bool {
	record, published := d.Record(ctx), d.Published(ctx)
	if !record.Open || published == nil || record.Holder.Member.Name != published.Name || len(record.Rules) != 1 ||
		len(record.Rules[0].Set) != len(d.Pods)-1 {
		return false
	}
	for _, pod := range d.Pods {
		report := pod.Report(ctx)
		member := election.Member{Name: pod.Name, Incarnation: report.Incarnation}
		if report.Term != record.Term {
			return false
		}
		if pod == published && (report.Role != contract.Primary || member != record.Holder.Member) ||
			pod != published && (report.Role != contract.Replica || !slices.Contains(record.Rules[0].Set, member)) {
			return false
		}
	}
	return true
}

// Report returns what the instance says about itself; an empty report if that can't be read.
func (p *Pod) Report(ctx context.Context) contract.Report {
	var object corev1.Pod
	var report contract.Report
	if err := p.d.server.Client.Get(ctx, p.d.key(p.Name), &object); err != nil ||
		json.Unmarshal([]byte(object.Annotations[api.AnnotationInstance]), &report) != nil {
		return contract.Report{}
	}
	return report
}

// SQL runs statements on the server of a pod, as its owner, and returns what they print.
func (p *Pod) SQL(statements string) (string, error) {
	command := exec.Command(p.d.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", filepath.Join(p.d.directory, p.Name, "run"),
		"-U", "postgres", "-tA", "-c", statements)
	command.Env = p.d.environment()
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: p.d.root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	command.Dir = "/"
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("asking the server of %s: %w: %s", p.Name, err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

// within is how long a test waits for something before it fails. What is waited for takes seconds
// on an idle machine, and may take minutes where a dozen databases share two busy processors.
const within = 5 * time.Minute

// Await waits until something is so, and fails the test if that takes too long.
func (d *Database) Await(what string, isSo func() bool) time.Duration {
	d.t.Helper()
	begun := time.Now()
	for ; !isSo(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > within {
			d.t.Fatalf("no %s in %s", what, within)
		}
	}
	return time.Since(begun)
}

// Volume is the directory of the pod's volume, as this test sees it.
func (p *Pod) Volume() string { return p.d.outside(p.Name, "volume") }

// Limit gives a pod that was not started yet a volume of so many MiB: a file system in a file. It
// needs the Debian packages e2fsprogs and mount.
func (p *Pod) Limit(size int64) error {
	const mebibyte = 1 << 20
	file := p.d.outside(p.Name, "disk")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size*mebibyte)); err != nil {
		return fmt.Errorf("making a disk: %w", err)
	}
	for _, command := range [][]string{{"/usr/sbin/mkfs.ext4", "-q", "-F", "-m", "0", file}, {"mount", "-o", "loop", file, p.Volume()}} {
		if output, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("making a disk: %s: %w: %s", command[0], err, output)
		}
	}
	p.d.cleanups = append(p.d.cleanups, func() {
		if output, err := exec.Command("umount", p.Volume()).CombinedOutput(); err != nil {
			p.d.t.Errorf("unmounting a disk: %v: %s", err, output)
		}
	})
	return errors.Join(os.Chown(p.Volume(), user, user), os.Chmod(p.Volume(), 0o700))
}

// Fill fills the volume of a pod, and returns what empties it again.
func (p *Pod) Fill() (empty func() error, err error) {
	ballast := p.d.outside(p.Name, "volume", "lost+found", "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		return nil, fmt.Errorf("filling a disk: %w", err)
	}
	zeros := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(zeros)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("filling a disk: %w", errors.Join(err, file.Close()))
	}
	return func() error { return os.Remove(ballast) }, file.Close()
}

// Wipe loses the volume of a pod that does not run.
func (p *Pod) Wipe() error {
	return errors.Join(os.RemoveAll(p.Volume()), os.Mkdir(p.Volume(), 0o700), os.Chown(p.Volume(), user, user))
}
