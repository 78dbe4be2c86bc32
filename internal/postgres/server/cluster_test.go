//go:build instances

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// rootVariable names the unpacked image of PostgreSQL in which the instances run.
const rootVariable = "MAINSTAY_POSTGRESQL_ROOT"

const (
	testUser = 65532
	testPort = 15432
	// waitLimit is how long the test waits, on a busy machine, for what takes a second on an idle one.
	waitLimit = 2 * time.Minute
)

// cluster are three instances, each a program of its own in the root file system of an image.
type cluster struct {
	t         *testing.T
	root      string
	authority *authority
	instances []*instance
}

// instance is one of them, as the test sees it.
type instance struct {
	t    *testing.T
	name string
	host string
	run  string
	// socket is a link to run, with a path that is short enough for a socket.
	socket string
	client *rpc.Client
	cmd    *exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	root := os.Getenv(rootVariable)
	if root == "" {
		t.Fatalf("%s must name the unpacked image of a PostgreSQL", rootVariable)
	}
	prepareRoot(t, root)
	//nolint:usetesting // It must be in the image's root, and its path be short.
	base, err := os.MkdirTemp(filepath.Join(root, "tmp"), "m")
	check(t, err)
	check(t, os.Chmod(base, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	copyFile(t, os.Args[0], filepath.Join(base, "instance"))
	c := &cluster{t: t, root: root, authority: newAuthority(t)}
	for number := range 3 {
		i := &instance{t: t, name: fmt.Sprintf("db-%d", number), host: fmt.Sprintf("127.0.0.%d", number+2)}
		home := filepath.Join(base, i.name)
		i.run = filepath.Join(home, "run")
		for _, name := range []string{"", "volume", "run", "certificates"} {
			check(t, os.Mkdir(filepath.Join(home, name), 0o700))
		}
		c.authority.sign(t, filepath.Join(home, "certificates"), i)
		check(t, filepath.Walk(home, func(path string, _ os.FileInfo, err error) error {
			check(t, err)
			return os.Chown(path, testUser, testUser)
		}))
		i.socket = filepath.Join(t.TempDir(), "run")
		check(t, os.Symlink(i.run, i.socket))
		i.launch(root, base, home)
		c.instances = append(c.instances, i)
	}
	return c
}

// prepareRoot adds to the root what a container has: /proc, and an entry for the user.
func prepareRoot(t *testing.T, root string) {
	for _, directory := range []string{"proc", "dev", "tmp"} { // An image need not have them.
		check(t, os.MkdirAll(filepath.Join(root, directory), 0o755)) //nolint:gosec // It is the image's root, not ours.
	}
	if _, err := os.Stat(filepath.Join(root, "proc", "self")); err != nil {
		check(t, syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""))
		t.Cleanup(func() { _ = syscall.Unmount(filepath.Join(root, "proc"), syscall.MNT_DETACH) })
	}
	makeDevices(t, filepath.Join(root, "dev"))
	path := filepath.Join(root, "etc", "passwd")
	users, err := os.ReadFile(path)
	check(t, err)
	if entry := fmt.Sprintf("mainstay:x:%d:%d::/:/bin/sh\n", testUser, testUser); !strings.Contains(string(users), entry) {
		check(t, os.WriteFile(path, append(users, entry...), 0o644))
	}
}

// makeDevices creates the devices of a container in /dev, unless they exist. /dev is a file system
// of its own, so that removing the image's files does not remove the machine's devices.
func makeDevices(t *testing.T, directory string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(directory, "shm")); err == nil {
		return
	}
	check(t, syscall.Mount("tmpfs", directory, "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { _ = syscall.Unmount(directory, syscall.MNT_DETACH) })
	for name, minor := range map[string]uint32{"null": 3, "zero": 5, "random": 8, "urandom": 9} {
		path := filepath.Join(directory, name)
		check(t, unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor)))) //nolint:gosec // it is small
		check(t, os.Chmod(path, 0o666))                                           // Whatever the umask is.
	}
	shared := filepath.Join(directory, "shm")
	check(t, os.Mkdir(shared, 0o777))
	check(t, os.Chmod(shared, 0o777|os.ModeSticky))
}

// launch starts the copy of this test that is the instance.
func (i *instance) launch(root, base, home string) {
	t := i.t
	inside := func(path string) string { return strings.TrimPrefix(path, root) }
	binaries, err := filepath.Glob(filepath.Join(root, "usr/lib/postgresql/*/bin/postgres"))
	check(t, err)
	if len(binaries) == 0 {
		t.Fatalf("%s contains no PostgreSQL", root)
	}
	content, err := json.Marshal(settings{
		Pod: i.name, Volume: inside(home) + "/volume", Run: inside(i.run), Certificates: inside(home) + "/certificates",
		Listen: i.host, Port: testPort, Path: inside(filepath.Dir(binaries[0])), Libraries: inside(filepath.Dir(filepath.Dir(binaries[0]))) + "/lib",
	})
	check(t, err)
	i.cmd = exec.Command(inside(base) + "/instance")
	i.cmd.Env, i.cmd.Dir = []string{identity + "=" + string(content)}, "/"
	i.cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Credential: &syscall.Credential{Uid: testUser, Gid: testUser}, Pdeathsig: syscall.SIGKILL,
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check(t, err)
	i.cmd.Stderr = log
	input, err := i.cmd.StdinPipe()
	check(t, err)
	output, err := i.cmd.StdoutPipe()
	check(t, err)
	check(t, i.cmd.Start())
	i.client = rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{output, input})
	t.Cleanup(func() {
		_ = i.client.Close()
		if err := i.cmd.Wait(); err != nil {
			t.Errorf("%s: the instance ended: %v", i.name, err)
		}
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%.60000s", i.name, said)
		}
	})
}

// try carries out an operation.
func (i *instance) try(call Call) (Answer, error) {
	var answer Answer
	err := i.client.Call("Instance.Do", call, &answer)
	return answer, err
}

func (i *instance) do(call Call) Answer {
	i.t.Helper()
	began := time.Now()
	answer, err := i.try(call)
	if err != nil {
		i.t.Fatalf("%s: %s: %v", i.name, call.Do, err)
	}
	i.t.Logf("%s: %s: %.3f s, %s", i.name, call.Do, time.Since(began).Seconds(), answer.Observed.Server.Position)
	return answer
}

func (i *instance) observe() engine.Observation {
	i.t.Helper()
	answer, err := i.try(Call{Do: "observe"})
	check(i.t, err)
	return answer.Observed
}

// wait waits until is returns true for what is observed. what is for the message.
func (i *instance) wait(what string, is func(engine.Observation) bool) {
	i.t.Helper()
	began := time.Now()
	gomega.NewWithT(i.t).Eventually(i.observe).WithTimeout(waitLimit).WithPolling(20*time.Millisecond).
		Should(gomega.Satisfy(is), "%s: not %s", i.name, what)
	i.t.Logf("%s: %s: after %.3f s", i.name, what, time.Since(began).Seconds())
}

// upstream returns the instance as a source.
func (i *instance) upstream(term uint64) engine.Upstream {
	return engine.Upstream{Leader: i.member(), Term: term, Host: i.host}
}

func (i *instance) member() election.Member {
	answer, err := i.try(Call{Do: "observe"})
	check(i.t, err)
	return answer.Me
}

// major returns the major version of the server that made the data.
func (i *instance) major() int {
	number, err := readMajor(filepath.Join(filepath.Dir(i.run), "volume", "data"))
	check(i.t, err)
	return number
}

// needsWaldump skips the test if the image has no pg_waldump of a version from least on.
func (c *cluster) needsWaldump(least int) *cluster {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.root, "usr/lib/postgresql/*/bin/pg_waldump"))
	check(c.t, err)
	for _, path := range found {
		if major, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))); err == nil && major >= least {
			return c
		}
	}
	c.t.Skipf("the image has no pg_waldump of PostgreSQL %d or later", least)
	return c
}

// pid returns the PID of the server.
func (i *instance) pid() int {
	i.t.Helper()
	answer, err := i.try(Call{Do: "observe"})
	check(i.t, err)
	return answer.Pid
}

// session opens a session of a client, with these options beside those of each.
func (i *instance) session(options ...string) *pgx.Conn {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), waitLimit)
	defer cancel()
	options = append(options, fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres sslmode=disable", i.socket, testPort))
	session, err := pgx.Connect(ctx, strings.Join(options, " "))
	check(i.t, err)
	i.t.Cleanup(func() { disconnect(session) })
	return session
}

// write writes a number, and returns an error if that was not acknowledged in time.
func (i *instance) write(number int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(i.t.Context(), within)
	defer cancel()
	session, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres sslmode=disable", i.socket, testPort))
	if err != nil {
		return err
	}
	defer disconnect(session)
	_, err = session.Exec(ctx, fmt.Sprintf("INSERT INTO written VALUES (%d)", number))
	return err
}

// numbers returns the numbers in the data.
func (i *instance) numbers() []int32 {
	i.t.Helper()
	rows, err := i.session().Query(i.t.Context(), "SELECT number FROM written ORDER BY number")
	check(i.t, err)
	numbers, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	check(i.t, err)
	return numbers
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	content, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(to, content, 0o755))
}

// authority signs the instances' certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	raw         []byte
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	certificate, err := x509.ParseCertificate(raw)
	check(t, err)
	return &authority{certificate: certificate, key: key, raw: raw}
}

func (a *authority) sign(t *testing.T, directory string, i *instance) {
	a.signAs(t, directory, i, postgres.CertificatePrefix+i.name)
}

func (a *authority) signAs(t *testing.T, directory string, i *instance, name string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{i.name}, IPAddresses: []net.IP{net.ParseIP(i.host)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	check(t, err)
	private, err := x509.MarshalECPrivateKey(key)
	check(t, err)
	for name, block := range map[string]*pem.Block{
		"ca.crt":  {Type: "CERTIFICATE", Bytes: a.raw},
		"tls.crt": {Type: "CERTIFICATE", Bytes: raw},
		"tls.key": {Type: "EC PRIVATE KEY", Bytes: private},
	} {
		check(t, os.WriteFile(filepath.Join(directory, name), pem.EncodeToMemory(block), 0o600))
	}
}
