package cluster

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mainstay-platform/mainstay/testbed/internal/proc"
)

// The components of the control plane run in the machine's own network namespace,
// so that the API server is at hand for tests on this machine; nodes have their own.
const (
	etcdName        = "etcd"
	apiserverName   = "kube-apiserver"
	managerName     = "kube-controller-manager"
	schedulerName   = "kube-scheduler"
	hostProxyName   = "kube-proxy-host"
	provisionerProc = "provisioner"
)

func containerdName(node string) string { return "containerd-" + node }

func kubeletName(node string) string { return "kubelet-" + node }

// kubeletNumber returns the number of the node that the kubelet of this name is for.
func kubeletNumber(name string) (int, error) {
	node, found := strings.CutPrefix(name, kubeletName(""))
	if !found {
		return 0, fmt.Errorf("%s is no kubelet", name)
	}
	return NodeNumber(node)
}

func nodeProxyName(node string) string { return "kube-proxy-" + node }

// spec adds what all components share.
func (c *Cluster) spec(name, namespace string, arguments ...string) proc.Spec {
	return proc.Spec{Name: name, Arguments: arguments, Namespace: namespace, Log: c.dir.Log(name)}
}

// kube returns the path of a Kubernetes command: a symlink to the one binary.
func (c *Cluster) kube(command string) string { return filepath.Join(c.binaries, command) }

func (c *Cluster) etcd() proc.Spec {
	return c.spec(etcdName, "", c.kube("etcd"),
		"--name=testbed",
		"--data-dir="+c.dir.Etcd(),
		"--listen-client-urls=http://"+etcdAddress,
		"--advertise-client-urls=http://"+etcdAddress,
		"--listen-peer-urls=http://"+etcdPeer,
		"--initial-advertise-peer-urls=http://"+etcdPeer,
		"--initial-cluster=testbed=http://"+etcdPeer,
		// The data is deleted with the cluster, so it need not survive a power cut.
		"--unsafe-no-fsync",
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	)
}

func (c *Cluster) apiserver() proc.Spec {
	return c.spec(apiserverName, "", c.kube("kube-apiserver"),
		"--etcd-servers=http://"+etcdAddress,
		// Only the nodes' network: the machine's other networks do not see the cluster.
		"--bind-address="+hostAddress,
		"--advertise-address="+hostAddress,
		"--secure-port=6443",
		"--service-cluster-ip-range="+serviceRange,
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		"--client-ca-file="+c.store.CertificateFile(clusterAuthority),
		"--tls-cert-file="+c.store.CertificateFile(apiServing),
		"--tls-private-key-file="+c.store.KeyFile(apiServing),
		"--kubelet-certificate-authority="+c.store.CertificateFile(clusterAuthority),
		"--kubelet-client-certificate="+c.store.CertificateFile(kubeletClient),
		"--kubelet-client-key="+c.store.KeyFile(kubeletClient),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc."+clusterDomain,
		"--service-account-key-file="+c.store.KeyFile(tokenKey),
		"--service-account-signing-key-file="+c.store.KeyFile(tokenKey),
		// Aggregated APIs and webhooks: reach the pods themselves, which this machine can.
		"--requestheader-client-ca-file="+c.store.CertificateFile(proxyAuthority),
		"--requestheader-allowed-names="+proxyClient,
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file="+c.store.CertificateFile(proxyClient),
		"--proxy-client-key-file="+c.store.KeyFile(proxyClient),
		"--enable-aggregator-routing=true",
		"--audit-policy-file="+c.dir.Config("audit-policy.yaml"),
		"--audit-log-path="+c.dir.Audit(),
		"--audit-log-maxsize=200",
		"--audit-log-maxbackup=2",
		"--event-ttl=24h",
		"--profiling=false",
	)
}

func (c *Cluster) manager() proc.Spec {
	kubeconfig := c.dir.Config(managerClient + ".kubeconfig")
	return c.spec(managerName, "", c.kube("kube-controller-manager"),
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+c.store.KeyFile(tokenKey),
		"--root-ca-file="+c.store.CertificateFile(clusterAuthority),
		"--cluster-signing-cert-file="+c.store.CertificateFile(clusterAuthority),
		"--cluster-signing-key-file="+c.store.KeyFile(clusterAuthority),
		"--cluster-cidr="+podRange,
		"--allocate-node-cidrs=false",
		"--controllers=*",
		// The default is to think for 15 s, and to distrust a pod's CPU use for 5 minutes:
		// tests of autoscaling should not wait for that.
		"--horizontal-pod-autoscaler-sync-period=5s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=5s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=10s",
		"--profiling=false",
	)
}

func (c *Cluster) scheduler() proc.Spec {
	kubeconfig := c.dir.Config(schedulerClient + ".kubeconfig")
	return c.spec(schedulerName, "", c.kube("kube-scheduler"),
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--profiling=false",
	)
}

func (c *Cluster) containerd(number int) proc.Spec {
	node := NodeName(number)
	return c.spec(containerdName(node), nodeNamespaceFile(number),
		c.programs["containerd"], "--config", c.dir.Config(containerdName(node)+".toml"))
}

func (c *Cluster) kubelet(number int) proc.Spec {
	node := NodeName(number)
	return c.spec(kubeletName(node), nodeNamespaceFile(number), c.kube("kubelet"),
		"--config="+c.dir.Config(kubeletName(node)+".yaml"),
		"--kubeconfig="+c.dir.Config(nodeClient(node)+".kubeconfig"),
		"--root-dir="+c.dir.Node(node, "kubelet"),
		"--hostname-override="+node,
		"--node-ip="+nodeAddress(number),
	)
}

func (c *Cluster) nodeProxy(number int) proc.Spec {
	node := NodeName(number)
	return c.spec(nodeProxyName(node), nodeNamespaceFile(number), c.kube("kube-proxy"),
		"--config="+c.dir.Config("kube-proxy.yaml"), "--hostname-override="+node)
}

// hostProxy makes Services reachable for programs on this machine. kube-proxy needs the name of a
// node and gets that of the first one. That only matters for Services that keep their traffic on
// one node.
func (c *Cluster) hostProxy() proc.Spec {
	return c.spec(hostProxyName, "", c.kube("kube-proxy"),
		"--config="+c.dir.Config("kube-proxy.yaml"), "--hostname-override="+NodeName(1))
}

// provisioner returns our own program. revision changes with the program, so that `up` replaces an
// older provisioner.
func (c *Cluster) provisioner(self, revision string) proc.Spec {
	return c.spec(provisionerProc, "", self, "provisioner", "--revision", revision,
		"--kubeconfig", c.dir.Config(provisionerUser+".kubeconfig"), "--folder", c.dir.Volumes())
}
