package postgresql

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/podspec"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// PoolerName is the name of the pooler's Deployment, Service, PodDisruptionBudget, NetworkPolicy
// and Secret.
func PoolerName(name string) string { return name + "-pooler" }

const (
	// poolerContainerName is the container of PgBouncer.
	poolerContainerName = "pgbouncer"
	// poolerComponent is that of the pooler's objects: another one than the instances', which must not
	// be selected with them.
	poolerComponent = Component + "-pooler"
	// poolerCertificate is the key of the pooler's certificate in the Secret.
	poolerCertificate = "pooler"
	// poolerEndsWithin is how long, in seconds, clients may take to disconnect from a pooler that
	// ends, poolerGrace what the pod has for that, and poolerStays how long it takes new ones
	// before: proxies need a moment to send them elsewhere.
	poolerEndsWithin, poolerGrace, poolerStays = 60, 90, 5
)

// poolerImage returns the image of PgBouncer; "" if the installation has none.
func poolerImage(db *databasev1.PostgreSQL, observed Observed) string {
	if db.Spec.Pooler.Image != "" {
		return db.Spec.Pooler.Image
	}
	return observed.PoolerImage
}

// extras are the certificates beside those of the instances.
func extras(db *databasev1.PostgreSQL) []database.Extra {
	name := PoolerName(db.Name)
	return []database.Extra{{
		Key: poolerCertificate, CommonName: postgres.PoolerRole, IsNeeded: db.Spec.Pooler != nil,
		Names: []string{name, name + "." + db.Namespace, name + "." + db.Namespace + ".svc"},
	}}
}

// addPooler adds the pooler, once there is a certificate for it and an image.
func addPooler(wanted *plan.Plan, db *databasev1.PostgreSQL, observed Observed) {
	if db.Spec.Pooler == nil {
		if isLeaving(db, observed) {
			wanted.Keep = append(wanted.Keep, poolerRefs(db)...)
		}
		return
	}
	add := func(child plan.Child) { wanted.Children = append(wanted.Children, child) }
	if login := loginOf(db, observed); login.password != "" {
		add(plan.Child{Object: poolerSecret(db, observed, login), Uncached: true, Needs: Common(db, observed).CertificatesRef()})
	} else {
		wanted.Keep = append(wanted.Keep, Ref(db, "Secret", PoolerName(db.Name)))
	}
	add(plan.Child{Object: poolerService(db, observed)})
	add(plan.Child{Object: poolerNetworkPolicy(db, observed)})
	if poolerImage(db, observed) == "" || !database.HasExtra(observed.Certificates, poolerCertificate) {
		wanted.Keep = append(wanted.Keep, Ref(db, "Deployment", PoolerName(db.Name)), Ref(db, "PodDisruptionBudget", PoolerName(db.Name)))
		return
	}
	// One that is refused keeps nothing else of the database from being written.
	add(plan.Child{Object: poolerDeployment(db, observed), Needs: Common(db, observed).CertificatesRef()})
	if db.Spec.Pooler.Instances > 1 && !db.Spec.Hibernated {
		add(plan.Child{Object: poolerOwner(db, observed).Budget()})
	}
}

// poolerPart returns the labels of the pooler's objects.
func poolerPart(db *databasev1.PostgreSQL) naming.Part {
	whole := part(db)
	whole.Component = poolerComponent
	return whole
}

// poolerOwner describes the pooler as databases are described, for what its objects have in common
// with theirs.
func poolerOwner(db *databasev1.PostgreSQL, observed Observed) *database.Database {
	d := *Common(db, observed)
	d.Name, d.Part, d.ContainerName = PoolerName(db.Name), poolerPart(db), poolerContainerName
	return &d
}

// poolerMeta returns the metadata of a child of the pooler.
func poolerMeta(db *databasev1.PostgreSQL, observed Observed) metav1.ObjectMeta {
	return poolerOwner(db, observed).Meta(PoolerName(db.Name))
}

func poolerSelector(db *databasev1.PostgreSQL) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: poolerPart(db).Selector()}
}

func poolerService(db *databasev1.PostgreSQL, observed Observed) *corev1.Service {
	return &corev1.Service{ObjectMeta: poolerMeta(db, observed), Spec: corev1.ServiceSpec{
		Selector: poolerPart(db).Selector(), Ports: []corev1.ServicePort{{
			Name: contract.PortName, Port: serverPort, TargetPort: intstr.FromInt32(serverPort), Protocol: corev1.ProtocolTCP,
		}},
	}}
}

// poolerNetworkPolicy lets clients connect to PgBouncer, and nobody to any other port.
func poolerNetworkPolicy(db *databasev1.PostgreSQL, observed Observed) *networkingv1.NetworkPolicy {
	port := networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt32(serverPort))}
	return &networkingv1.NetworkPolicy{ObjectMeta: poolerMeta(db, observed), Spec: networkingv1.NetworkPolicySpec{
		PodSelector: *poolerSelector(db), PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{port}}},
	}}
}

// poolerDeployment replaces its pods one after the other, each new one first. It has none while the
// database hibernates.
func poolerDeployment(db *databasev1.PostgreSQL, observed Observed) *appsv1.Deployment {
	instances, one, none := db.Spec.Pooler.Instances, intstr.FromInt32(1), intstr.FromInt32(0)
	if db.Spec.Hibernated {
		instances = 0
	}
	meta, template, live := poolerMeta(db, observed), poolerTemplate(db, observed), database.Kept{}
	if deployment := poolerOf(db, observed); deployment != nil {
		live = database.Kept{Annotations: deployment.Annotations, Template: &deployment.Spec.Template}
	}
	meta.Annotations = naming.Merged(meta.Annotations, database.KeepProgram(&template, live))
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &instances, Selector: poolerSelector(db), Template: template,
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &none},
		},
	}}
}

// poolerTemplate returns the template of the pooler's pods. They have no token: they ask the
// primary, and not the API server, what goes on. They are spread as instances are, but those of
// earlier templates do not count: otherwise no node could take the new pod, before which none of
// them ends.
func poolerTemplate(db *databasev1.PostgreSQL, observed Observed) corev1.PodTemplateSpec {
	d, mode := poolerOwner(db, observed), int32(0o440)
	certificate, key := database.ExtraKeys(poolerCertificate, false)
	spec := d.PodSpec(observed.State, poolerContainer(db, observed), []corev1.Volume{{
		Name: database.CertificatesVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: database.CertificatesName(db.Name), DefaultMode: &mode, Items: []corev1.KeyToPath{
				{Key: database.AuthorityKey, Path: "ca.crt"}, {Key: certificate, Path: "tls.crt"}, {Key: key, Path: "tls.key"},
			}},
		},
	}})
	spec.TerminationGracePeriodSeconds, spec.AutomountServiceAccountToken = new(int64(poolerGrace)), new(false)
	for i := range spec.TopologySpreadConstraints {
		spec.TopologySpreadConstraints[i].MatchLabelKeys = []string{appsv1.DefaultDeploymentUniqueLabelKey}
	}
	return corev1.PodTemplateSpec{ObjectMeta: d.PodMeta(nil), Spec: spec}
}

func poolerContainer(db *databasev1.PostgreSQL, observed Observed) corev1.Container {
	pooler := db.Spec.Pooler
	mode := "transaction"
	if pooler.Mode == databasev1.PoolerSession {
		mode = "session"
	}
	mounts := []corev1.VolumeMount{
		{Name: database.RunVolume, MountPath: database.RunPath},
		{Name: database.CertificatesVolume, MountPath: database.CertificatesPath, ReadOnly: true},
		{Name: database.ProgramVolume, MountPath: database.ProgramPath, ReadOnly: true},
		{Name: database.ProgramVolume, MountPath: "/etc/passwd", SubPath: "passwd", ReadOnly: true},
		{Name: database.ProgramVolume, MountPath: "/etc/group", SubPath: "group", ReadOnly: true},
		{Name: database.TemporaryVolume, MountPath: database.TemporaryPath},
	}
	arguments := []string{
		"pooler", "--host=" + primaryHost(db), fmt.Sprintf("--port=%d", serverPort), fmt.Sprintf("--listen-port=%d", serverPort),
		"--run=" + database.RunPath, "--certificates=" + database.CertificatesPath, "--mode=" + mode,
		fmt.Sprintf("--pool-size=%d", pooler.PoolSize), fmt.Sprintf("--max-clients=%d", pooler.MaxClients),
		fmt.Sprintf("--max-connections=%d", max(connectionsOf(db)/(pooler.Instances+1), pooler.PoolSize)),
		fmt.Sprintf("--probes=:%d", database.ProbePort), fmt.Sprintf("--ends-within=%ds", poolerEndsWithin),
	}
	if len(pooler.IgnoreStartupParameters) > 0 {
		arguments = append(arguments, "--ignore="+strings.Join(slices.Sorted(slices.Values(pooler.IgnoreStartupParameters)), ","))
	}
	return corev1.Container{
		Name: poolerContainerName, Image: poolerImage(db, observed), Command: []string{database.Program}, Args: arguments,
		Ports: []corev1.ContainerPort{
			{Name: "postgresql", ContainerPort: serverPort, Protocol: corev1.ProtocolTCP},
			{Name: "probes", ContainerPort: database.ProbePort, Protocol: corev1.ProtocolTCP},
		},
		Resources: pooler.Resources, LivenessProbe: database.LivenessProbe(), ReadinessProbe: database.ReadinessProbe(), VolumeMounts: mounts,
		Lifecycle:       &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: poolerStays}}},
		SecurityContext: database.ContainerSecurity(),
	}
}

// Resources of an instance of the pooler where the spec has none.
var (
	poolerRequests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	poolerLimits   = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")}
)

// poolerSecret is what the user of the application needs to connect through the pooler: what its
// own Secret says, at another address.
func poolerSecret(db *databasev1.PostgreSQL, observed Observed, as login) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: poolerMeta(db, observed), Type: corev1.SecretTypeBasicAuth,
		Data: as.data(poolerHost(db), observed.Certificates[database.AuthorityKey]),
	}
}

// poolerHost is the name of the pooler's Service.
func poolerHost(db *databasev1.PostgreSQL) string {
	return PoolerName(db.Name) + "." + db.Namespace + ".svc"
}

// defaultPooler fills in what is left out.
func defaultPooler(db *databasev1.PostgreSQL) {
	pooler := db.Spec.Pooler
	if pooler == nil {
		return
	}
	const instances, most, half, clients = 2, 20, 2, 1000
	pooler.Instances = cmp.Or(pooler.Instances, instances)
	size := most
	if 0 < pooler.Instances && pooler.Instances <= mostPoolers {
		size = int(min(max(connectionsOf(db)/half/pooler.Instances, 1), most))
	}
	pooler.Mode = cmp.Or(pooler.Mode, databasev1.PoolerTransaction)
	pooler.PoolSize = cmp.Or(pooler.PoolSize, int32(size)) //nolint:gosec // it is at most 20
	pooler.MaxClients = cmp.Or(pooler.MaxClients, clients)
	if pooler.Resources.Requests == nil && pooler.Resources.Limits == nil {
		pooler.Resources.Requests, pooler.Resources.Limits = poolerRequests.DeepCopy(), poolerLimits.DeepCopy()
	}
}

// connectionsOf returns how many connections to the server its poolers may have: max_connections
// without those that are reserved for Mainstay, and two for each pooler itself. It is at least 1.
// While logins take seconds, a pooler may begin some more, which the server may refuse.
func connectionsOf(db *databasev1.PostgreSQL) int32 {
	const servers, longest, own = 100, 10, 2
	text, most := parameters(db)["max_connections"], servers
	if number, err := strconv.Atoi(text); err == nil && len(text) < longest {
		most = number
	}
	return max(int32(most)-postgres.ReservedConnections-own*db.Spec.Pooler.Instances, 1) //nolint:gosec // it has few digits
}

// Limits of spec.pooler, as in the schema.
const mostPoolers, mostPooled, mostClients, mostIgnored, longestIgnored = 10, 1000, 20_000, 20, 63

// parameterName is a name that needs no quotes in PgBouncer's configuration, and alwaysCount are
// those that PgBouncer reads before it looks which ones are ignored (client.c), in lower case. With
// options in its list, it would ignore all that they contain.
var (
	parameterName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.]*$`)
	alwaysCount   = []string{
		"application_name", "client_encoding", "database", "datestyle", "intervalstyle", "options", "replication", "standard_conforming_strings",
		"timezone", "user",
	}
)

// checkIgnored returns what is wrong with the parameters that are ignored.
func checkIgnored(names []string, at *field.Path) field.ErrorList {
	if len(names) > mostIgnored {
		return field.ErrorList{field.TooMany(at, len(names), mostIgnored)}
	}
	var problems field.ErrorList
	for i, name := range names {
		switch {
		case len(name) > longestIgnored:
			problems = append(problems, field.TooLong(at.Index(i), "", longestIgnored))
		case !parameterName.MatchString(name):
			problems = append(problems, field.Invalid(at.Index(i), database.Shown(name), "must be the name of a parameter, for example search_path"))
		case slices.Contains(alwaysCount, strings.ToLower(name)):
			problems = append(problems, field.Invalid(at.Index(i), name,
				"must be a parameter that PgBouncer would refuse, for example search_path: this one must not be ignored"))
		case slices.Contains(names[:i], name):
			problems = append(problems, field.Duplicate(at.Index(i), name))
		}
	}
	return problems
}

// checkPooler returns what is wrong with the pooler.
func checkPooler(db *databasev1.PostgreSQL, at *field.Path) field.ErrorList {
	pooler := db.Spec.Pooler
	if pooler == nil {
		return nil
	}
	var problems field.ErrorList
	within := func(value, most int32, name string) {
		if value < 1 || value > most {
			problems = append(problems, field.Invalid(at.Child(name), value, fmt.Sprintf("must be from 1 to %d", most)))
		}
	}
	within(pooler.Instances, mostPoolers, "instances")
	within(pooler.PoolSize, mostPooled, "poolSize")
	within(pooler.MaxClients, mostClients, "maxClients")
	if pooler.Mode != databasev1.PoolerTransaction && pooler.Mode != databasev1.PoolerSession {
		problems = append(problems, field.NotSupported(at.Child("mode"), pooler.Mode,
			[]databasev1.PoolerMode{databasev1.PoolerTransaction, databasev1.PoolerSession}))
	}
	problems = append(problems, checkIgnored(pooler.IgnoreStartupParameters, at.Child("ignoreStartupParameters"))...)
	if pooler.Image != "" {
		if err := database.CheckImage(pooler.Image); err != nil {
			problems = append(problems, field.Invalid(at.Child("image"), database.Shown(pooler.Image), err.Error()))
		}
	}
	if most := connectionsOf(db); len(problems) == 0 && pooler.PoolSize*pooler.Instances > most {
		problems = append(problems, field.Invalid(at.Child("poolSize"), pooler.PoolSize, fmt.Sprintf("must be at most %d: %d instances of the pooler "+
			"share max_connections, of which %d are for clients", most/pooler.Instances, pooler.Instances, most)))
	}
	return append(problems, podspec.CheckResources(pooler.Resources, at.Child("resources"))...)
}
