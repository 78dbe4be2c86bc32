package ecommerceplatform

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Compile returns the AppStack of a defaulted, valid platform. existing is the one that there is;
// nil without one. Of it, or of the one before it, stays what can't be taken back: the version of
// the database, its storage where that would shrink, and its storage class. Of it stays also the
// version of the cache where it would go back.
func Compile(platform *platformv1.EcommercePlatform, existing *platformv1.AppStack, installation Installation) *platformv1.AppStack {
	environment, _ := installation.Environments.Parse(platform.Spec.Environment)
	was := formerDatabase(platform, existing)
	c := compiler{
		platform: platform, existing: existing, was: was, defaults: table[environment], caches: installation.Caches,
		types:   installation.Types,
		version: cmp.Or(platform.Spec.Database.Version, was.Version, newest(installation.versions(platform.Spec.Database.Type))),
	}
	stack := &platformv1.AppStack{
		ObjectMeta: metav1.ObjectMeta{Namespace: platform.Namespace, Name: platform.Name, Labels: ownLabels(platform)},
		Spec:       platformv1.AppStackSpec{Labels: msappsv1.Labels{Label: msappsv1.LabelValue(platform.Name)}},
	}
	for key, value := range platform.Spec.Labels {
		if key != Label {
			stack.Spec.Labels[key] = value
		}
	}
	add := func(name, typeName string, spec any, on ...string) {
		text, _ := json.Marshal(spec) // It has nothing that can't be encoded.
		stack.Spec.Components = append(stack.Spec.Components, platformv1.Component{
			Name: name, Type: typeName, Spec: runtime.RawExtension{Raw: text}, DependsOn: on,
		})
	}
	needed := []string{databaseName}
	if platform.Spec.Database.Type == platformv1.DatabaseMySQL {
		add(databaseName, mysqlType, c.mysql())
	} else {
		add(databaseName, postgresqlType, c.database())
	}
	if *platform.Spec.Cache.Enabled {
		needed = append(needed, cacheName)
	}
	if *platform.Spec.Cache.Enabled || c.keepsCache() {
		add(cacheName, cacheType, c.cache())
	}
	add(backendName, webAppType, c.backend(), needed...)
	add(frontendName, webAppType, c.frontend(), backendName)
	return stack
}

// compiler makes the specs of the components.
type compiler struct {
	platform *platformv1.EcommercePlatform
	existing *platformv1.AppStack
	was      former // the database
	defaults defaults
	version  string
	caches   []string
	types    []string // those of the components whose kinds are on
}

// former is what is kept of an existing component.
type former platformv1.PlatformDatabaseStatus

// maxFormer is the size of the largest spec of a component that is read, in bytes: that of
// AppStacks.
const maxFormer = 1 << 20

// formerly returns what an existing AppStack has of a component.
func formerly(existing *platformv1.AppStack, name string) former {
	var was former
	if c := componentOf(existing, name); c != nil && bounded.Unmarshal(c.Spec.Raw, maxFormer, &was) != nil {
		return former{} // Only an edit by hand makes one that can't be read; the next write undoes that.
	}
	return was
}

// formerDatabase returns what the database was made with. That is what the platform's status says,
// because someone may have edited the AppStack, or deleted it, and the volumes are there. The size
// is the larger one: volumes have grown if the AppStack says so. Without such a status it is what
// the AppStack has.
func formerDatabase(platform *platformv1.EcommercePlatform, existing *platformv1.AppStack) former {
	was := formerly(existing, databaseName)
	if platform.Status.Database == nil {
		return was
	}
	made := former(*platform.Status.Database)
	made.Version = cmp.Or(made.Version, was.Version)
	if grown, size := was.size(), made.size(); size == nil || grown != nil && grown.Cmp(*size) > 0 {
		made.Storage = was.Storage
	}
	return made
}

// componentOf returns a component of an AppStack; nil if it has none.
func componentOf(stack *platformv1.AppStack, name string) *platformv1.Component {
	if stack == nil {
		return nil
	}
	at := slices.IndexFunc(stack.Spec.Components, func(c platformv1.Component) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &stack.Spec.Components[at]
}

// storage returns the size of the database's volumes, which is never less than it was.
func (c compiler) storage() resource.Quantity {
	wanted := resource.MustParse(c.defaults.storage)
	if given := c.platform.Spec.Database.Storage; given != nil {
		wanted = *given
	}
	if was := c.was.size(); was != nil && was.Cmp(wanted) > 0 {
		return *was
	}
	return wanted
}

// size returns the size of the volumes; nil if it is not known.
func (f former) size() *resource.Quantity {
	if f.Storage == "" || bounded.QuantityProblem(f.Storage) != "" {
		return nil
	}
	size, err := resource.ParseQuantity(f.Storage)
	if err != nil {
		return nil
	}
	return &size
}

// storageClass returns the class of the database's volumes; nil for the cluster's default.
func (c compiler) storageClass() *string {
	return cmp.Or(c.platform.Spec.Database.StorageClassName, c.was.StorageClassName)
}

func (c compiler) database() databasev1.PostgreSQLSpec {
	spec := databasev1.PostgreSQLSpec{
		Version: c.version, Replicas: c.defaults.instances, Storage: c.storage(),
		StorageClassName: c.storageClass(),
		Resources:        ptr.Deref(c.platform.Spec.Database.Resources, c.defaults.database.resources()),
		Durability:       c.defaults.durability, TopologySpread: databasev1.SpreadPreferred,
	}
	if c.defaults.backup {
		spec.Backup = databasev1.Backup{Enabled: true, Schedule: backupSchedule, Retention: backupRetention}
	}
	return spec
}

// mysqlSpec is the part of the spec of a MySQLCluster that a platform sets. That kind is not there
// yet: admission refuses such a platform, so that nothing but tests compiles one.
type mysqlSpec struct {
	Version          string                      `json:"version"`
	Replicas         int32                       `json:"replicas"`
	Storage          resource.Quantity           `json:"storage"`
	StorageClassName *string                     `json:"storageClassName,omitempty"`
	Resources        corev1.ResourceRequirements `json:"resources"`
	Durability       databasev1.Durability       `json:"durability"`
	TopologySpread   databasev1.TopologySpread   `json:"topologySpread"`
	Backup           databasev1.Backup           `json:"backup,omitzero"`
}

// mysql returns a MySQLCluster of the size that a PostgreSQL would have.
func (c compiler) mysql() mysqlSpec {
	same := c.database()
	return mysqlSpec{
		Version: same.Version, Replicas: same.Replicas, Storage: same.Storage, StorageClassName: same.StorageClassName,
		Resources: same.Resources, Durability: same.Durability, TopologySpread: same.TopologySpread, Backup: same.Backup,
	}
}

// cacheSpec is the part of the spec of a Cache that a platform sets.
type cacheSpec struct {
	Version   string                      `json:"version"`
	Memory    resource.Quantity           `json:"memory"`
	Replicas  int32                       `json:"replicas"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

func (c compiler) cache() cacheSpec {
	spec := cacheSpec{
		Version:  c.cacheVersion(),
		Memory:   resource.MustParse(c.defaults.cache.memory),
		Replicas: c.defaults.instances,
		// Those of memory follow from the memory.
		Resources: c.defaults.cache.resources(),
	}
	delete(spec.Resources.Limits, corev1.ResourceMemory)
	delete(spec.Resources.Requests, corev1.ResourceMemory)
	if given := c.platform.Spec.Cache.Memory; given != nil {
		spec.Memory = *given
	}
	if given := c.platform.Spec.Cache.Resources; given != nil {
		spec.Resources = *given
	}
	return spec
}

// cacheVersion returns the version of the cache, which is never less than it was: a cache that is
// disabled keeps its own while it has to stay, whatever the next one is to be.
func (c compiler) cacheVersion() string {
	wanted, was := c.platform.Spec.Cache.Version, formerly(c.existing, cacheName).Version
	if number(wanted) < number(was) {
		return was
	}
	return cmp.Or(wanted, was, newest(c.caches), newestCache)
}

// keepsCache reports whether a cache that is disabled has to stay for now, because pods of the
// backend may use it: until the AppStack has made the backend without it, and that is ready. While
// the kind Cache is off, an AppStack with one is refused, and nothing deletes the Cache.
func (c compiler) keepsCache() bool {
	if componentOf(c.existing, cacheName) == nil || !slices.Contains(c.types, cacheType) {
		return false
	}
	backend := componentOf(c.existing, backendName)
	if backend == nil {
		return false
	}
	status := c.existing.Status
	isReady := slices.ContainsFunc(status.Components, func(one platformv1.ComponentStatus) bool {
		return one.Name == backendName && one.Phase == platformv1.ComponentReady
	})
	return slices.Contains(backend.DependsOn, cacheName) || status.ObservedGeneration != c.existing.Generation || !isReady
}

func (c compiler) backend() msappsv1.WebAppSpec {
	spec := c.web(c.platform.Spec.Backend)
	kind := postgresqlKind
	if c.platform.Spec.Database.Type == platformv1.DatabaseMySQL {
		kind = mysqlKind
	}
	spec.Bindings = []msappsv1.Binding{{Kind: kind, Name: objectName(c.platform, databaseName)}}
	if *c.platform.Spec.Cache.Enabled {
		spec.Bindings = append(spec.Bindings, msappsv1.Binding{Kind: cacheKind, Name: objectName(c.platform, cacheName)})
	}
	return spec
}

func (c compiler) frontend() msappsv1.WebAppSpec {
	spec := c.web(c.platform.Spec.Frontend)
	const variable = "BACKEND_URL"
	if !slices.ContainsFunc(spec.Env, func(one corev1.EnvVar) bool { return one.Name == variable }) {
		spec.Env = append(slices.Clone(spec.Env), corev1.EnvVar{Name: variable, Value: backendURL(c.platform)})
	}
	ingress := c.platform.Spec.Ingress
	switch {
	case ingress == nil:
	case ingress.Route != nil:
		spec.Route = &msappsv1.Route{ParentRefs: ingress.Route.ParentRefs}
		if ingress.Host != "" {
			spec.Route.Hostnames = []msappsv1.Hostname{msappsv1.Hostname(ingress.Host)}
		}
	default:
		spec.Ingress = &msappsv1.Ingress{Host: ingress.Host, ClassName: ingress.ClassName, TLSSecretName: ingress.TLSSecretName}
	}
	return spec
}

// web returns what frontend and backend have in common.
func (c compiler) web(given platformv1.PlatformWeb) msappsv1.WebAppSpec {
	spec := msappsv1.WebAppSpec{
		Image: given.Image, Replicas: given.Replicas, Port: given.Port, Env: given.Env, Autoscaling: given.Autoscaling,
		Resources:       ptr.Deref(given.Resources, c.defaults.web.resources()),
		SecurityProfile: c.defaults.profile, TopologySpread: c.defaults.spread,
	}
	if spec.Replicas == nil && spec.Autoscaling == nil {
		spec.Replicas = new(c.defaults.instances)
	}
	if *c.platform.Spec.Monitoring.Enabled {
		spec.Metrics = &msappsv1.Metrics{Port: given.Port, Dashboard: true}
	}
	return spec
}

// backendURL is the address of the backend inside the cluster.
func backendURL(platform *platformv1.EcommercePlatform) string {
	return serviceURL(platform, backendName, platform.Spec.Backend.Port)
}

// serviceURL is the address of a web part inside the cluster: that of its Service.
func serviceURL(platform *platformv1.EcommercePlatform, component string, port int32) string {
	return fmt.Sprintf("http://%s.%s.svc:%d", objectName(platform, component), platform.Namespace, port)
}

// endpoints are the addresses of the web parts.
func endpoints(platform *platformv1.EcommercePlatform) []platformv1.PlatformEndpoint {
	frontend := serviceURL(platform, frontendName, platform.Spec.Frontend.Port)
	if ingress := platform.Spec.Ingress; ingress != nil && ingress.Host != "" && !strings.HasPrefix(ingress.Host, "*") {
		scheme := "http"
		if ingress.TLSSecretName != "" {
			scheme = "https"
		}
		frontend = scheme + "://" + ingress.Host + "/"
	}
	return []platformv1.PlatformEndpoint{{Name: frontendName, URL: frontend}, {Name: backendName, URL: backendURL(platform)}}
}
