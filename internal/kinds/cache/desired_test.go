package cache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/golden"
)

// everything uses every field.
func everything(spec *databasev1.CacheSpec) {
	stores(spec)
	spec.Image, spec.Replicas, spec.MinReplicasToWrite = "registry.example.com/valkey:9.1.1", 3, 1
	spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	spec.MaxMemoryPercent, spec.EvictionPolicy = 60, databasev1.EvictVolatileTTL
	spec.PlainPort = 6380
	spec.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	spec.Parameters = map[string]databasev1.ParameterValue{"hz": "20", "io-threads": "2"}
	spec.Failover = databasev1.CacheFailover{After: "20s", AcceptLoss: 7}
	spec.TopologySpread, spec.PriorityClassName = databasev1.SpreadRequired, "high"
	spec.NodeSelector = map[string]string{"disk": "ssd"}
	spec.Tolerations = []corev1.Toleration{{Key: "cache", Operator: corev1.TolerationOpExists}}
	spec.RunAsUser, spec.DeletionPolicy = 70, databasev1.DeletionDelete
	spec.RestartedAt = new(metav1.NewTime(noon))
	spec.Labels, spec.Annotations = databasev1.Labels{"team": "shop"}, databasev1.Annotations{"example.com/owner": "the shop"}
}

// withoutTLS closes the port with TLS.
func withoutTLS(spec *databasev1.CacheSpec) { spec.TLS, spec.PlainPort = new(false), 6380 }

// TestDesired pins every byte of what is created: a change of a pod template replaces the pods of
// all caches, so it must not happen unnoticed.
func TestDesired(t *testing.T) {
	goldens := map[string]*databasev1.Cache{
		"minimal.yaml": newCache(), "everything.yaml": newCache(everything), "without-tls.yaml": newCache(withoutTLS),
	}
	for name, c := range goldens {
		t.Run(name, func(t *testing.T) {
			if problems := Validate(c); len(problems) > 0 {
				t.Fatal(problems)
			}
			observed := empty()
			observed.HasMonitorAPI = name == "everything.yaml"
			golden.Check(t, name, []byte(text(t, Desired(c, observed, Decide(c, observed)))))
		})
	}
	golden.CheckUnused(t, slices.Collect(maps.Keys(goldens)))
}

// text returns the children of a plan in their order.
func text(t *testing.T, wanted plan.Plan) string {
	t.Helper()
	var all strings.Builder
	for _, child := range wanted.Children {
		content, err := yaml.Marshal(child.Object)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "---\n# %T, create once: %t, retain: %t, uncached: %t\n", child.Object, child.CreateOnce, child.Retain, child.Uncached)
		all.Write(content)
	}
	return all.String()
}

// child returns a child of a plan; the zero value if there is none.
func child[T plan.Object](wanted plan.Plan, name string) T {
	for _, one := range wanted.Children {
		if object, is := one.Object.(T); is && object.GetName() == name {
			return object
		}
	}
	return *new(T)
}

// TestInitialise: with persistence, new data may be made only where there is no volume at all;
// without, what volumes an earlier Cache left is not touched, and does not count.
func TestInitialise(t *testing.T) {
	for name, test := range map[string]struct {
		c    *databasev1.Cache
		left bool
		want string
	}{
		"no volume": {newCache(stores), false, "sessions-0"}, "a volume": {newCache(stores), true, ""},
		"in memory": {newCache(), true, "sessions-0"},
	} {
		observed := empty()
		claim := Ref(test.c, "PersistentVolumeClaim", "data-sessions-2")
		if test.left {
			observed.Children[claim] = plan.Found{Ownership: plan.Foreign, Object: &corev1.PersistentVolumeClaim{}}
		}
		wanted := Desired(test.c, observed, Decide(test.c, observed))
		record, err := election.Decode(child[*coordinationv1.Lease](wanted, test.c.Name).Annotations[api.AnnotationRecord])
		if err != nil || record.Initialise != test.want {
			t.Errorf("%s: got %+v, %v", name, record, err)
		}
		if keeps := slices.Contains(wanted.Keep, claim); keeps != (test.c.Spec.Persistence == nil) {
			t.Errorf("%s: the volume is kept: %t", name, keeps)
		}
	}
}

// TestReclaim: the volumes of removed instances stay, unless the spec says otherwise, all that
// remain are ready, and no rule of the Lease names a removed one. Those that an earlier Cache has
// left stay.
func TestReclaim(t *testing.T) {
	member := func(name string) election.Member { return election.Member{Name: name, Incarnation: "1"} }
	reclaims := func(spec *databasev1.CacheSpec) { spec.Reclaim = databasev1.DeletionDelete }
	for name, test := range map[string]struct {
		c       *databasev1.Cache
		ready   int32
		named   string
		deletes bool
	}{
		"asked for":             {newCache(stores, reclaims, replicas(2)), 2, "sessions-1", true},
		"the default":           {newCache(stores, replicas(2)), 2, "sessions-1", false},
		"one is not ready":      {newCache(stores, reclaims, replicas(2)), 1, "sessions-1", false},
		"a rule names it":       {newCache(stores, reclaims, replicas(2)), 2, "sessions-2", false},
		"those of one before":   {newCache(reclaims, replicas(2)), 2, "sessions-1", false},
		"while they hibernate":  {newCache(stores, reclaims, hibernates, replicas(2)), 2, "sessions-1", false},
		"while nothing changes": {newCache(stores, reclaims, pauses, replicas(2)), 2, "sessions-1", false},
	} {
		observed := running(test.c, 2)
		for ordinal := test.ready; ordinal < 2; ordinal++ {
			observed = observed.says(int(ordinal), contract.Report{State: "Starting"})
		}
		text, err := election.Record{
			System: "1", Term: 4, Open: true, Holder: election.Holder{Member: member("sessions-0")},
			Rules: []election.Rule{{Leader: member("sessions-0"), Set: []election.Member{member(test.named)}, Acks: 1, Async: true}},
		}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		observed.Children[Ref(test.c, "Lease", test.c.Name)] = plan.Found{Ownership: plan.Ours, Object: &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationRecord: text}},
		}}
		claim := Ref(test.c, "PersistentVolumeClaim", "data-sessions-2")
		observed.Children[claim] = plan.Found{Ownership: plan.Ours, Object: &corev1.PersistentVolumeClaim{}}
		wanted := Desired(test.c, observed, Decide(test.c, observed))
		if deletes := slices.Contains(wanted.Delete, claim); deletes != test.deletes {
			t.Errorf("%s: the volume is deleted: %t", name, deletes)
		}
	}
}

// TestMemory: the container gets what the program needs beside spec.memory, and maxmemory is a part
// of that.
func TestMemory(t *testing.T) {
	c := newCache(func(spec *databasev1.CacheSpec) {
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	})
	got := podTemplate(c, empty()).Spec.Containers[0].Resources
	if got.Limits.Memory().String() != "296Mi" || got.Requests.Memory().String() != "296Mi" || got.Requests.Cpu().String() != "100m" {
		t.Errorf("got %+v", got)
	}
	if len(c.Spec.Resources.Limits) > 0 {
		t.Errorf("the spec was changed: %+v", c.Spec.Resources)
	}
	if all := parameters(c, memory(c, nil)); all["maxmemory"] != "201326592" || all["maxmemory-policy"] != "allkeys-lru" || all["save"] != "" || all["appendonly"] != "no" {
		t.Errorf("got %v", all)
	}
	if all := parameters(newCache(stores), 1); all["appendonly"] != "yes" || all["appendfsync"] != "everysec" || all["save"] == "" {
		t.Errorf("got %v", all)
	}
}

// TestMoreMemory: the keys may take more only once no pod has the former limit. All instances would
// be killed together. They may take less at once.
func TestMoreMemory(t *testing.T) {
	const former, more, less = "201326592", "402653184", "100663296" // 75 % of 256Mi, 512Mi and 128Mi
	c := newCache(replicas(2))
	observed := running(c, 2)
	for i := range observed.Pods {
		observed.Pods[i].Spec.Containers[0].Resources = resources(c)
	}
	told := func() string {
		t.Helper()
		settings, err := contract.ParseSettings(settings(c, observed, Decision{Replicas: 2}).Data[contract.SettingsKey])
		if err != nil {
			t.Fatal(err)
		}
		return settings.Parameters["maxmemory"]
	}
	c.Spec.Memory = resource.MustParse("512Mi")
	observed.Pods[0].Spec.Containers[0].Resources = resources(c)
	if got := told(); got != former {
		t.Errorf("maxmemory is %s beside a pod with the former limit", got)
	}
	observed.Pods[1].Spec.Containers[0].Resources = resources(c)
	if got := told(); got != more {
		t.Errorf("maxmemory is %s with the new limits", got)
	}
	c.Spec.Memory = resource.MustParse("128Mi")
	if got := told(); got != less {
		t.Errorf("maxmemory is %s with less memory", got)
	}
}

// TestBusyReply: beside a script, the server answers before its instance kills it, whatever the
// spec said earlier.
func TestBusyReply(t *testing.T) {
	type parametersOf = map[string]databasev1.ParameterValue
	for name, test := range map[string]struct {
		after string
		given parametersOf
		want  string
	}{
		"default":          {"11s", nil, "5000"},
		"short":            {"5s", nil, "3000"},
		"just long enough": {"7s", nil, "5000"},
		"given":            {"11s", parametersOf{busyReply: "9000"}, "9000"},
		"former name":      {"11s", parametersOf{formerBusyReply: "100"}, "100"},
	} {
		c := newCache(func(spec *databasev1.CacheSpec) { spec.Failover.After, spec.Parameters = test.after, test.given })
		if problems := Validate(c); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		all := parameters(c, memory(c, nil))
		if _, isFormer := all[formerBusyReply]; isFormer || all[busyReply] != test.want {
			t.Errorf("%s: got %v, want %s", name, all, test.want)
		}
	}
}

// TestRestartingParameters: only what needs a start of the server changes the pods.
func TestRestartingParameters(t *testing.T) {
	with := func(name, value string) string {
		c := newCache(func(spec *databasev1.CacheSpec) {
			spec.Parameters = map[string]databasev1.ParameterValue{name: databasev1.ParameterValue(value)}
		})
		return podTemplate(c, empty()).Annotations[api.AnnotationParameters]
	}
	if with("hz", "20") != "" || with("databases", "4") == "" || with("databases", "4") == with("databases", "5") {
		t.Errorf("got %q, %q, %q", with("hz", "20"), with("databases", "4"), with("databases", "5"))
	}
}

// TestToldSettings: the instances accept the settings; while two versions run, or there is no image
// of the version, none is demanded.
func TestToldSettings(t *testing.T) {
	c := newCache(replicas(2), func(spec *databasev1.CacheSpec) { spec.Failover.AcceptLoss = 7 })
	told := func(observed Observed) contract.Settings {
		t.Helper()
		settings, err := contract.ParseSettings(settings(c, observed, Decision{Replicas: 2, SwitchFrom: 4, SwitchTo: "sessions-1"}).
			Data[contract.SettingsKey])
		if err != nil {
			t.Fatal(err)
		}
		return settings
	}
	got := told(running(c, 2))
	if !slices.Equal(got.Pods, []string{"sessions-0", "sessions-1"}) || got.Version != "9" || got.Durability != "Asynchronous" ||
		got.SwitchFrom != 4 || got.AcceptLoss != 7 || !got.Ephemeral ||
		got.FailoverAfter != "11s" {
		t.Errorf("got %+v", got)
	}
	upgraded := running(c, 2)
	upgraded.Pods[1].Spec.Containers[0].Image = "registry.example.com/valkey:8.1.1"
	if got := told(upgraded); got.Version != "" {
		t.Errorf("the version is %q", got.Version)
	}
	unconfigured := running(c, 2)
	delete(unconfigured.Catalogue, "9")
	if got := told(unconfigured); got.Version != "" {
		t.Errorf("without an image, the version is %q", got.Version)
	}
}

// TestHibernated: no pods, no budget, and everything else stays.
func TestHibernated(t *testing.T) {
	c := newCache(stores, replicas(3), func(spec *databasev1.CacheSpec) { spec.Hibernated = true })
	observed := running(c, 3)
	wanted := Desired(c, observed, Decide(c, observed))
	if set := child[*appsv1.StatefulSet](wanted, c.Name); set == nil || *set.Spec.Replicas != 0 {
		t.Errorf("got %+v", set)
	}
	if child[*corev1.Service](wanted, "sessions-rw") == nil {
		t.Error("the Services go")
	}
	claim := &corev1.PersistentVolumeClaim{}
	observed.Children[Ref(c, "PersistentVolumeClaim", "data-sessions-1")] = plan.Found{Ownership: plan.Ours, Object: claim}
	if child[*corev1.PersistentVolumeClaim](Desired(c, observed, Decide(c, observed)), "data-sessions-1") == nil {
		t.Error("a volume is not kept")
	}
	// Instances that still run must not take those that hibernate with them for removed ones.
	observed.Children[Ref(c, "PersistentVolumeClaim", "data-sessions-4")] = plan.Found{Ownership: plan.Ours, Object: claim}
	told, err := contract.ParseSettings(settings(c, observed, Decide(c, observed)).Data[contract.SettingsKey])
	if err != nil || len(told.Pods) != 5 {
		t.Errorf("it names %v, %v", told.Pods, err)
	}
}

// TestNetwork: a port that clients are not to use is in no Service for them, and nothing lets them
// reach it.
func TestNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*databasev1.CacheSpec)
		services []int32
		admitted []int32
	}{
		"default": {replicas(1), []int32{6379}, []int32{6379, 9121, 8443}},
		"both":    {everything, []int32{6379, 6380}, []int32{6379, 6380, 9121, 8443}},
		"no TLS":  {withoutTLS, []int32{6380}, []int32{6380, 9121, 8443}},
	} {
		c := newCache(test.change)
		wanted := Desired(c, empty(), Decide(c, empty()))
		for _, service := range []string{"sessions-rw", "sessions-ro", "sessions-r"} {
			var ports []int32
			for _, port := range child[*corev1.Service](wanted, service).Spec.Ports {
				ports = append(ports, port.Port)
			}
			if !slices.Equal(ports, test.services) {
				t.Errorf("%s: %s has the ports %v", name, service, ports)
			}
		}
		var admitted []int32
		for _, rule := range child[*networkingv1.NetworkPolicy](wanted, c.Name).Spec.Ingress {
			admitted = append(admitted, rule.Ports[0].Port.IntVal)
		}
		if !slices.Equal(admitted, test.admitted) {
			t.Errorf("%s: admitted are %v", name, admitted)
		}
	}
}

// TestPodMonitor: where its API is, Prometheus gets what exists: the port of the metrics, with
// the credentials for them.
func TestPodMonitor(t *testing.T) {
	c, observed := newCache(), empty()
	if child[*monitoring.PodMonitor](Desired(c, observed, Decision{Replicas: 1}), "sessions") != nil {
		t.Error("it is made without its API")
	}
	observed.HasMonitorAPI = true
	wanted := Desired(c, observed, Decision{Replicas: 1})
	endpoint := child[*monitoring.PodMonitor](wanted, "sessions").Spec.PodMetricsEndpoints[0]
	server := podTemplate(c, observed).Spec.Containers[0]
	isMetrics := func(port corev1.ContainerPort) bool {
		return port.Name == endpoint.Port && port.ContainerPort == metricsPort
	}
	if !slices.ContainsFunc(server.Ports, isMetrics) || !slices.Contains(server.Args, "--metrics=:9121") {
		t.Errorf("it scrapes %s of %v", endpoint.Port, server.Ports)
	}
	for _, key := range []corev1.SecretKeySelector{endpoint.BasicAuth.Username, endpoint.BasicAuth.Password, *endpoint.TLSConfig.CA.Secret} {
		if len(child[*corev1.Secret](wanted, key.Name).Data[key.Key]) == 0 {
			t.Errorf("%s has no %s", key.Name, key.Key)
		}
	}
}

// TestPassword: the user's counts, and what can't be used changes nothing.
func TestPassword(t *testing.T) {
	given := func(spec *databasev1.CacheSpec) { spec.PasswordSecret = "mine" }
	for name, test := range map[string]struct {
		c        *databasev1.Cache
		observed Observed
		uri      string
		problem  string
	}{
		"new":            {newCache(), empty(), "rediss://app:random-password@sessions-rw.shop.svc:6379", ""},
		"there already":  {newCache(), empty().hasApplication(newCache(), "stored-password"), "rediss://app:stored-password@sessions-rw.shop.svc:6379", ""},
		"has signs":      {newCache(), empty().hasApplication(newCache(), "a/b:c@d#e%f"), "rediss://app:a%2Fb%3Ac%40d%23e%25f@sessions-rw.shop.svc:6379", ""},
		"without TLS":    {newCache(withoutTLS), empty(), "redis://app:random-password@sessions-rw.shop.svc:6380", ""},
		"edited to less": {newCache(), empty().hasApplication(newCache(), "short"), "", "the key password of the Secret shop/sessions-app must have from 8"},
		"given":          {newCache(given), gives(PasswordKey, "given-password"), "rediss://app:given-password@sessions-rw.shop.svc:6379", ""},
		"missing":        {newCache(given), empty(), "", "spec.passwordSecret: Not found: Secret shop/mine: create it with the key password"},
		"another key":    {newCache(given), gives("pass", "given-password"), "", "the key password of the Secret shop/mine must have from 8"},
		"bad previous": {newCache(), empty().hasPrevious(newCache(), "stored-password", "former\n"), "",
			"the Secret shop/sessions-app: password.previous: must"},
		"short previous": {newCache(), empty().hasPrevious(newCache(), "stored-password", "former"),
			"rediss://app:stored-password@sessions-rw.shop.svc:6379", ""},
		"has a line feed": {newCache(given), gives(PasswordKey, "given-password\n"), "", "without spaces and line breaks"},
		"endless":         {newCache(given), gives(PasswordKey, strings.Repeat("a", 257)), "", "from 8 to 256"},
	} {
		wanted := Desired(test.c, test.observed, Decide(test.c, test.observed))
		secret, ref := child[*corev1.Secret](wanted, "sessions-app"), Ref(test.c, "Secret", "sessions-app")
		if test.problem == "" {
			if secret == nil || string(secret.Data["uri"]) != test.uri || string(secret.Data["ca.crt"]) != "authority" {
				t.Errorf("%s: got %v", name, secret)
			}
			continue
		}
		if secret != nil || !slices.Contains(wanted.Keep, ref) || child[*appsv1.StatefulSet](wanted, "sessions") != nil {
			t.Errorf("%s: the Secret is written, or pods are started without it", name)
		}
		status, _ := Status(test.c, test.observed, Decide(test.c, test.observed), plan.Result{})
		if ready := condition(status, "Ready"); ready.Reason != databasev1.ReasonPasswordUnavailable ||
			!strings.Contains(ready.Message, test.problem) ||
			strings.Contains(ready.Message, "given-password") || condition(status, "Stalled").Status != metav1.ConditionTrue {
			t.Errorf("%s: got %+v", name, ready)
		}
	}
}

// TestEvictsNothing: while a password can't be used, a rollout waits. A new pod would know none and
// accept no client.
func TestEvictsNothing(t *testing.T) {
	for name, test := range map[string]struct{ password, previous, want string }{
		"usable":       {"stored-password", "former", "sessions-1"},
		"unusable":     {"stored-password\n", "", ""},
		"bad previous": {"stored-password", "former\n", ""},
	} {
		c := worked(2)
		observed := running(c, 2).hasPrevious(c, test.password, test.previous)
		for i := range observed.Pods {
			observed.Pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = "sessions-1"
		}
		got := ""
		if victim := Decide(c, observed).Evict; victim != nil {
			got = victim.Name
		}
		if got != test.want {
			t.Errorf("%s: %q is evicted, want %q", name, got, test.want)
		}
	}
}

// TestPrevious: the former password is accepted until the next one, or until a user empties it.
func TestPrevious(t *testing.T) {
	of := func(password, previous string) map[string][]byte {
		return map[string][]byte{PasswordKey: []byte(password), previousKey: []byte(previous)}
	}
	for name, test := range map[string]struct {
		stored map[string][]byte
		want   string
	}{
		"new": {nil, ""}, "unchanged": {of("password-now", ""), ""}, "changed": {of("password-before", ""), "password-before"},
		"changed again": {of("password-before", "long ago"), "password-before"}, "kept": {of("password-now", "password-before"), "password-before"},
		"back": {of("password-now", "password-now"), ""}, "one that no instance took": {of("short", "password-before"), "password-before"},
	} {
		if got := previous(test.stored, "password-now"); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// gives is what is observed with a Secret that spec.passwordSecret names.
func gives(key, value string) Observed {
	observed := empty()
	observed.Given = map[string][]byte{key: []byte(value)}
	return observed
}

// TestBinding: what an application gets is in the Secret, and in the ConfigMap of the authority.
func TestBinding(t *testing.T) {
	c, binding := newCache(), Binding()
	secret := application(c, empty(), "x")
	for _, output := range binding.Variables(binding.Secret(c.Name)) {
		if _, has := secret.Data[output.Key]; !has || output.Secret != secret.Name {
			t.Errorf("%s: Secret %s has no key %s", output.Name, output.Secret, output.Key)
		}
	}
	name, key := binding.Authority(c.Name)
	if made := Common(c, empty()).Authority(empty().State); made.Name != name {
		t.Errorf("the authority is said to be in %s, and is in %s", name, made.Name)
	} else if _, has := made.Data[key]; !has {
		t.Errorf("%s has no key %s", name, key)
	}
	const names = "REDIS_URL VALKEY_URL REDIS_CA_FILE VALKEY_CA_FILE"
	if got := strings.Join(binding.Names(""), " "); got != names {
		t.Errorf("the variables are %s", got)
	}
	c.Status.CredentialsRevision = "1"
	status, _ := Status(c, empty(), Decision{}, plan.Result{})
	if status.CredentialsRevision != "1" || binding.Account(c, "").Revision != "1" {
		t.Errorf("without a Secret the revision is %q", status.CredentialsRevision)
	}
}

// TestImageOfTheInstallation: another image of the installation replaces the pods of caches that
// name none. docs/versioning.md says so.
func TestImageOfTheInstallation(t *testing.T) {
	for image, isChanged := range map[string]bool{"": true, "registry.example.com/own:9.1": false} {
		c := newCache(func(spec *databasev1.CacheSpec) { spec.Image = image })
		template := func(installed string) string {
			observed := empty()
			observed.Catalogue = map[string]string{"9": installed}
			return child[*appsv1.StatefulSet](Desired(c, observed, Decision{Replicas: 1}), c.Name).Annotations[api.AnnotationTemplate]
		}
		before, after := template("registry.example.com/valkey:9.1.2"), template("registry.example.com/valkey:9.1.3")
		if before == "" || (before != after) != isChanged {
			t.Errorf("spec.image %q: the template was %q and is %q, changed is to be %t", image, before, after, isChanged)
		}
	}
}

// TestAuthorityIsStored: what gives clients an authority needs the Secret with its certificates,
// which another owner may have.
func TestAuthorityIsStored(t *testing.T) {
	c := newCache()
	certificates := Common(c, empty()).CertificatesRef()[0]
	var told []string
	for _, one := range Desired(c, empty(), Decision{Replicas: 1}).Children {
		if slices.Contains(one.Needs, certificates) {
			told = append(told, one.Object.GetName())
		}
	}
	if want := []string{c.Name, c.Name + "-app", c.Name + "-ca"}; !slices.Equal(slices.Sorted(slices.Values(told)), want) {
		t.Errorf("these need it: %v, want %v", told, want)
	}
}
