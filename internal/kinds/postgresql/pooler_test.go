package postgresql

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// pooled gives a PostgreSQL a pooler.
func pooled(spec *databasev1.PostgreSQLSpec) { spec.Pooler = &databasev1.Pooler{} }

// withPooler is what is observed with a pooler's certificate and image, and so many instances of it
// that take connections; none is made if that is negative.
func withPooler(db *databasev1.PostgreSQL, observed Observed, ready int32) Observed {
	observed.PoolerImage = "registry.example.com/pgbouncer:1.24.1"
	observed.Certificates = map[string][]byte{"pooler.crt": []byte("c"), "pooler.key": []byte("k"), "ca.crt": []byte("a")}
	if ready < 0 {
		return observed
	}
	deployment := poolerDeployment(db, observed)
	deployment.Status = appsv1.DeploymentStatus{
		ReadyReplicas: ready, UpdatedReplicas: *deployment.Spec.Replicas,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "NewReplicaSetAvailable"}},
	}
	observed.Children[Ref(db, "Deployment", "db-pooler")] = plan.Found{Ownership: plan.Ours, Object: deployment}
	observed.Children[Ref(db, "Service", "db-pooler")] = plan.Found{Ownership: plan.Ours, Object: poolerService(db, observed)}
	if secret := Ref(db, "Secret", "db-pooler"); observed.Children[secret].Object == nil {
		observed.Children[secret] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db-pooler"}}}
	}
	return observed
}

// made returns a child of a plan; the zero value if it is not there.
func made[T plan.Object](wanted plan.Plan, name string) T {
	for _, child := range wanted.Children {
		if object, is := child.Object.(T); is && object.GetName() == name {
			return object
		}
	}
	var none T
	return none
}

// TestPoolerObjects: they are made once there is a certificate, select no instance, and meet the
// profile Restricted without a token.
func TestPoolerObjects(t *testing.T) {
	db := newDatabase(pooled, replicas(3))
	if made[*appsv1.Deployment](Desired(newDatabase(), empty(), Decision{Replicas: 1}), "db-pooler") != nil {
		t.Error("there is a pooler that nobody wants")
	}
	early := Desired(db, empty(), Decision{Replicas: 3})
	if made[*appsv1.Deployment](early, "db-pooler") != nil || !slices.Contains(early.Keep, Ref(db, "Deployment", "db-pooler")) {
		t.Error("without a certificate, the Deployment is made, or one that exists is deleted")
	}
	observed := withPooler(db, running(db, 3), -1)
	wanted := Desired(db, observed, Decision{Replicas: 3})
	deployment, service := made[*appsv1.Deployment](wanted, "db-pooler"), made[*corev1.Service](wanted, "db-pooler")
	if deployment == nil || service == nil || made[*policyv1.PodDisruptionBudget](wanted, "db-pooler") == nil {
		t.Fatal("an object is missing")
	}
	labels := deployment.Spec.Template.Labels
	for key, value := range service.Spec.Selector {
		if labels[key] != value {
			t.Errorf("the Service does not select the pods: %s", key)
		}
	}
	for _, instances := range []string{"db-r", "db-pods"} {
		isSelected := true
		for key, value := range made[*corev1.Service](wanted, instances).Spec.Selector {
			isSelected = isSelected && labels[key] == value
		}
		if isSelected {
			t.Errorf("the Service %s selects the pooler", instances)
		}
	}
	if labels["mainstay.dev/owner-kind"] == Component {
		t.Error("the pooler's pods count as instances")
	}
	if found := policy.Unrestricted(&deployment.Spec.Template.ObjectMeta, &deployment.Spec.Template.Spec); len(found) > 0 {
		t.Error(found)
	}
	pod := deployment.Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.ServiceAccountName != "" {
		t.Error("the pods have a token")
	}
	want := "pooler --host=db-rw.shop.svc --port=5432 --listen-port=5432 --run=/run/mainstay --certificates=/etc/mainstay/certificates " +
		"--mode=transaction --pool-size=20 --max-clients=1000 --max-connections=28 --probes=:8080 --ends-within=60s"
	if got := strings.Join(pod.Containers[0].Args, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	db.Spec.Pooler.IgnoreStartupParameters = []string{"search_path", "jit"}
	if got := strings.Join(poolerTemplate(db, observed).Spec.Containers[0].Args, " "); got != want+" --ignore=jit,search_path" {
		t.Errorf("with parameters that are ignored: got %s", got)
	}
	db.Spec.Hibernated = true
	if asleep := made[*appsv1.Deployment](Desired(db, observed, Decision{}), "db-pooler"); asleep == nil || *asleep.Spec.Replicas != 0 {
		t.Error("a pooler of a database that hibernates runs")
	}
}

// TestPoolerKeepsItsProgram: another release of Mainstay replaces no pod.
func TestPoolerKeepsItsProgram(t *testing.T) {
	db := newDatabase(pooled)
	observed := withPooler(db, running(db, 1), 2)
	observed.InstanceImage = "registry.example.com/mainstay:next"
	image := func() string {
		return made[*appsv1.Deployment](Desired(db, observed, Decision{Replicas: 1}), "db-pooler").Spec.Template.Spec.InitContainers[0].Image
	}
	if got := image(); got == observed.InstanceImage {
		t.Errorf("the pods are replaced, for %s", got)
	}
	db.Spec.Pooler.PoolSize = 5
	if got := image(); got != observed.InstanceImage {
		t.Errorf("a template that changes for another reason has the program of %s", got)
	}
}

// TestPoolerSpread: a node may have pods of two templates, because one of the template before ends
// only once a new one is ready. Instances are replaced the other way round.
func TestPoolerSpread(t *testing.T) {
	db := newDatabase(pooled, func(spec *databasev1.PostgreSQLSpec) { spec.TopologySpread = databasev1.SpreadRequired })
	observed := withPooler(db, running(db, 1), -1)
	for name, test := range map[string]struct {
		template corev1.PodTemplateSpec
		keys     []string
	}{
		"the pooler": {poolerTemplate(db, observed), []string{"pod-template-hash"}},
		"instances":  {podTemplate(db, observed), nil},
	} {
		spread := test.template.Spec.TopologySpreadConstraints
		if len(spread) != 1 || spread[0].WhenUnsatisfiable != corev1.DoNotSchedule || !slices.Equal(spread[0].MatchLabelKeys, test.keys) {
			t.Errorf("%s: got %+v", name, spread)
		}
	}
}

// TestPoolerSecret: it has what the application's Secret says, at another address; applications get
// it once an instance has taken connections, and until the spec has no pooler any more.
func TestPoolerSecret(t *testing.T) {
	db := newDatabase(pooled)
	db.Spec.Users = []databasev1.User{{Name: "orders"}}
	observed := withPooler(db, running(db, 1), 0)
	observed.Users = map[string]ObservedUser{"orders": {Password: "p", Verifier: "v"}}
	observed.Children[Ref(db, "Secret", "db-app")] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{Data: map[string][]byte{
		"username": []byte("shop"), "password": []byte("se:cret"), "dbname": []byte("things"), "host": []byte("elsewhere"),
	}}}
	secret := made[*corev1.Secret](Desired(db, observed, Decision{Replicas: 1}), "db-pooler")
	for key, want := range map[string]string{
		"host": "db-pooler.shop.svc", "port": "5432", "uri": "postgresql://shop:se%3Acret@db-pooler.shop.svc:5432/things?sslmode=require",
		"pgpass": "db-pooler.shop.svc:5432:things:shop:se\\:cret\n", "ca.crt": "a",
	} {
		if got := string(secret.Data[key]); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	for _, step := range []struct {
		name   string
		change func()
		app    string
		user   string
	}{
		{"no instance is ready", func() {}, "db-app", "db-rw.shop.svc"},
		{"one is", func() { observed = withPooler(db, observed, 1) }, "db-pooler", "db-pooler.shop.svc"},
		{"none is any more", func() { observed = withPooler(db, observed, 0) }, "db-pooler", "db-pooler.shop.svc"},
		{"the spec has none", func() { db.Spec.Pooler = nil }, "db-app", "db-rw.shop.svc"},
	} {
		step.change()
		status, _ := Status(db, observed, Decision{Replicas: 1}, plan.Result{})
		db.Status.Pooler = status.Pooler
		user := made[*corev1.Secret](Desired(db, observed, Decision{Replicas: 1}), "db-orders")
		if got := Binding().Account(db, "").Secret; got != step.app || string(user.Data["host"]) != step.user {
			t.Errorf("%s: got %s and %s, want %s and %s", step.name, got, user.Data["host"], step.app, step.user)
		}
	}
}

// TestPoolerOfForeignLogin: while the application's Secret is another's, the pooler's stays as it
// is. A password of ours would be a new one in each pass, and replace the pods that are bound to
// it.
func TestPoolerOfForeignLogin(t *testing.T) {
	db := newDatabase(pooled)
	observed := withPooler(db, running(db, 1), 1)
	observed.Children[Ref(db, "Secret", "db-app")] = plan.Found{Ownership: plan.Foreign, Object: &corev1.Secret{}}
	wanted := Desired(db, observed, Decision{Replicas: 1})
	if made[*corev1.Secret](wanted, "db-pooler") != nil || !slices.Contains(wanted.Keep, Ref(db, "Secret", "db-pooler")) {
		t.Error("it gets a password that no role has")
	}
	observed.Children[Ref(db, "Secret", "db-app")] = plan.Found{Ownership: plan.Absent}
	if made[*corev1.Secret](Desired(db, observed, Decision{Replicas: 1}), "db-pooler") == nil {
		t.Error("before the application's Secret is made, the pooler has none")
	}
}

// TestPoolerLeaves: its objects stay for some minutes, which a pause does not take away, so that
// those who use it can be replaced, and longer if that takes longer. Then nothing is looked for
// again and again.
func TestPoolerLeaves(t *testing.T) {
	db := newDatabase()
	db.Status.Pooler = &databasev1.PoolerStatus{SecretName: "db-pooler"}
	observed := withPooler(newDatabase(pooled), running(db, 1), 2)
	now := observed.Now
	step := func(after time.Duration, result plan.Result, stays, isTold bool, again time.Duration) {
		t.Helper()
		observed.Now = now.Add(after)
		kept := slices.Contains(Desired(db, observed, Decision{Replicas: 1}).Keep, Ref(db, "Deployment", "db-pooler"))
		status, requeue := Status(db, observed, Decision{Replicas: 1}, result)
		db.Status.Pooler = status.Pooler
		if kept != stays || (status.Pooler != nil) != isTold || requeue != again {
			t.Errorf("after %s: it stays: %t, and the status says %+v; it is looked at again after %s", after, kept, status.Pooler, requeue)
		}
	}
	none, secret := plan.Result{}, Ref(db, "Secret", "db-pooler")
	db.Spec.Paused = true
	step(-time.Hour, none, true, true, 0)
	step(-time.Minute, none, true, true, 0)
	db.Spec.Paused = false
	step(0, none, true, true, poolerLeaves)
	step(4*time.Minute, none, true, true, time.Minute)
	observed.PoolerWaitsFor = "web"
	step(6*time.Minute, none, true, true, waitsAgain)
	if db.Status.Pooler.WaitsFor != "web" || !MayPoolerLeave(db, observed.Now) {
		t.Errorf("it does not say what it waits for: %+v", db.Status.Pooler)
	}
	observed.PoolerWaitsFor = ""
	step(6*time.Minute, plan.Result{Refusals: map[plan.Ref]string{Ref(db, "ConfigMap", "db-config"): "no"}}, false, true, 0)
	step(6*time.Minute, plan.Result{Changes: []plan.Change{{Ref: secret, Operation: plan.Deleted}}}, false, true, time.Second)
	for _, ref := range poolerRefs(db) {
		if ref != secret {
			delete(observed.Children, ref)
		}
	}
	step(7*time.Minute, none, false, true, 0)
	db.Spec.Users = []databasev1.User{{Name: "pooler"}}
	step(7*time.Minute, none, false, false, 0)
	db.Spec.Users = nil
	delete(observed.Children, secret)
	step(8*time.Minute, none, false, false, 0)
}

// TestPoolerStatus: Ready waits for the pooler.
func TestPoolerStatus(t *testing.T) {
	db := newDatabase(pooled, replicas(3))
	db.Status.FirstReadyTime = new(metav1.Now())
	base := func() Observed {
		observed := aged(running(db, 3))
		for i := range observed.Pods {
			report := contract.Report{Role: contract.Replica, State: "Following", Term: 4}
			if i == 0 {
				report = contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true}
			}
			observed = says(observed, i, report)
		}
		return observed
	}
	without := withPooler(db, base(), -1)
	without.Certificates = nil
	noImage := withPooler(db, base(), 2)
	noImage.PoolerImage = ""
	rolling := withPooler(db, base(), 2)
	poolerOf(db, rolling).Status.Conditions[0].Reason = "ReplicaSetUpdated"
	starting := withPooler(db, base(), 0)
	deployment := poolerOf(db, starting)
	deployment.Status.Conditions = append(deployment.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(starting.Now.Add(-time.Second)),
	})
	failed := withPooler(db, base(), 2)
	poolerOf(db, failed).Status.Conditions[0].Reason = "ProgressDeadlineExceeded"
	poolerOf(db, failed).Status.UpdatedReplicas = 1
	for want, observed := range map[string]Observed{
		"PoolerNotReady 2 of 2 instances of the pooler take connections, and 1 run the current template": failed,
		"Updating 2 of 2 instances of the pooler run the current":                                        starting,
		"Available db-0 takes writes":                                             withPooler(db, base(), 2),
		"PoolerNotReady 1 of 2 instances of the pooler take connections":          withPooler(db, base(), 1),
		"Updating the pooler is being created":                                    withPooler(db, base(), -1),
		"Updating 2 of 2 instances of the pooler run":                             rolling,
		"Updating the pooler waits for its certificate":                           without,
		"ImageNotConfigured spec.pooler.image: Required value: this installation": noImage,
	} {
		status, _ := Status(db, observed, Decision{Replicas: 3}, plan.Result{})
		ready := status.Conditions[slices.IndexFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" })]
		if got := ready.Reason + " " + ready.Message; !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestPoolerProblem: the status says why a pooler can't start now, until it has started once; an
// application that starts meanwhile does not wait for it.
func TestPoolerProblem(t *testing.T) {
	db := newDatabase(pooled)
	paused := newDatabase(pooled, func(spec *databasev1.PostgreSQLSpec) { spec.Paused = true })
	unsigned, noImage := withPooler(db, running(db, 1), -1), withPooler(db, running(db, 1), -1)
	unsigned.Certificates, noImage.PoolerImage = nil, ""
	late := withPooler(db, running(db, 1), 0)
	poolerOf(db, late).Status.Conditions[0].Reason = deadlineExceeded
	podless := withPooler(db, running(db, 1), 0)
	condition := &poolerOf(db, podless).Status.Conditions[0]
	condition.Type, condition.Status = appsv1.DeploymentReplicaFailure, corev1.ConditionTrue
	foreign := withPooler(db, running(db, 1), 1)
	foreign.Children[Ref(db, "Service", "db-pooler")] = plan.Found{Ownership: plan.Foreign, Object: &corev1.Service{}}
	conflict := func(kind string) plan.Result { return plan.Result{Conflicts: []plan.Ref{Ref(db, kind, "db-pooler")}} }
	refused := plan.Result{Refusals: map[plan.Ref]string{Ref(db, "Deployment", "db-pooler"): "applying it: exceeded quota"}}
	endless := plan.Result{Refusals: map[plan.Ref]string{Ref(db, "Deployment", "db-pooler"): strings.Repeat("no ", 10<<10)}}
	mended := withPooler(db, running(db, 1), 0)
	mended.Children[Ref(db, "Deployment", "db-pooler")].Object.SetGeneration(2)
	poolerOf(db, mended).Status.Conditions[0].Reason = deadlineExceeded
	const exists = " exists and was not created by this PostgreSQL"
	was := newDatabase(pooled)
	was.Status.Pooler = &databasev1.PoolerStatus{SecretName: "db-pooler"}
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		result   plan.Result
		want     string
	}{
		"it is being made":                {db, withPooler(db, running(db, 1), -1), plan.Result{}, ""},
		"it starts":                       {db, withPooler(db, running(db, 1), 0), plan.Result{}, ""},
		"it takes connections":            {db, withPooler(db, running(db, 1), 1), plan.Result{}, ""},
		"there is no certificate":         {db, unsigned, plan.Result{}, noPoolerYet},
		"there is no image":               {db, noImage, plan.Result{}, noPoolerImage},
		"nothing is made while paused":    {paused, withPooler(paused, running(paused, 1), -1), plan.Result{}, "the PostgreSQL is paused"},
		"it has started before the pause": {paused, withPooler(paused, running(paused, 1), 0), plan.Result{}, ""},
		"it does not start":               {db, late, plan.Result{}, "its instances have not started in time: see the Deployment db-pooler"},
		"it gets another image":           {db, mended, plan.Result{}, ""},
		"it has been there":               {was, late, plan.Result{}, ""},
		"its Deployment is refused":       {db, withPooler(db, running(db, 1), -1), refused, "applying it: exceeded quota"},
		"its refusal has many words":      {db, withPooler(db, running(db, 1), -1), endless, strings.Repeat("no ", 333)[:997] + "..."},
		"its Deployment is foreign":       {db, withPooler(db, running(db, 1), -1), conflict("Deployment"), "Deployment shop/db-pooler" + exists},
		"its Service is foreign":          {db, foreign, conflict("Service"), "Service shop/db-pooler" + exists},
		"its budget is foreign":           {db, withPooler(db, running(db, 1), 0), conflict("PodDisruptionBudget"), ""},
		"its pods are refused":            {db, podless, plan.Result{}, "its pods can't be created: see the Deployment db-pooler"},
		"it has been there, and is gone":  {was, withPooler(db, running(db, 1), -1), refused, ""},
	} {
		told := test.db.DeepCopy()
		status, _ := Status(test.db, test.observed, Decision{Replicas: 1}, test.result)
		told.Status = status
		if got := status.Pooler.Problem; got != test.want {
			t.Errorf("%s: the problem is %q, not %q", name, got, test.want)
		}
		isPooled := status.Pooler.SecretName != ""
		if waits := Binding().Account(told, "").Starting != ""; waits != (test.want == "" && !isPooled) {
			t.Errorf("%s: an application waits: %t", name, waits)
		}
	}
}

// TestPoolerSize: what is left out fits into the server's connections, and what is given has to.
func TestPoolerSize(t *testing.T) {
	sized := func(memory string, change func(*databasev1.Pooler)) *databasev1.PostgreSQL {
		return newDatabase(func(spec *databasev1.PostgreSQLSpec) {
			spec.Pooler = &databasev1.Pooler{}
			if memory != "" {
				spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
			}
			if change != nil {
				change(spec.Pooler)
			}
		})
	}
	if got := sized("", nil).Spec.Pooler.PoolSize; got != 20 {
		t.Errorf("with 100 connections it is %d", got)
	}
	if got := sized("256Mi", nil).Spec.Pooler.PoolSize; got != 3 {
		t.Errorf("with 28 connections it is %d", got)
	}
	for want, change := range map[string]func(*databasev1.Pooler){
		"": func(p *databasev1.Pooler) { p.PoolSize = 43 },
		"spec.pooler.poolSize: Invalid value: 44: must be at most 43: 2 instances of the pooler share max_connections, " +
			"of which 86": func(p *databasev1.Pooler) { p.PoolSize = 44 },
		"spec.pooler.instances: Invalid value: 11: must be from 1 to 10":          func(p *databasev1.Pooler) { p.Instances = 11 },
		"spec.pooler.maxClients: Invalid value: -1: must be from 1 to 20000":      func(p *databasev1.Pooler) { p.MaxClients = -1 },
		`spec.pooler.mode: Unsupported value: "Statement": supported values:`:     func(p *databasev1.Pooler) { p.Mode = "Statement" },
		`spec.pooler.image: Invalid value: "a b": must be an image reference`:     func(p *databasev1.Pooler) { p.Image = "a b" },
		"spec.pooler.poolSize: Invalid value: 2147483647: must be from 1 to 1000": func(p *databasev1.Pooler) { p.PoolSize = 1<<31 - 1 },
		"spec.pooler.instances: Invalid value: -2147483648: must be from 1 to 10": func(p *databasev1.Pooler) { p.Instances = -1 << 31 },
	} {
		got := ""
		if problems := Validate(sized("", change)); len(problems) > 0 {
			got = problems.ToAggregate().Error()
		}
		if !strings.HasPrefix(strings.TrimPrefix(got, "["), want) || want == "" && got != "" {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestPoolerIsGoverned: policies see its image, limits and number.
func TestPoolerIsGoverned(t *testing.T) {
	db := newDatabase(pooled)
	subject := Wanted(db, withPooler(db, empty(), -1))
	at := slices.IndexFunc(subject.Containers, func(c policy.Container) bool { return c.ImageField.String() == "spec.pooler.image" })
	if at < 0 || subject.Containers[at].Image != "registry.example.com/pgbouncer:1.24.1" {
		t.Errorf("got %+v", subject.Containers)
	}
	if len(subject.Replicas) != 2 || len(subject.Unrestricted()) > 0 {
		t.Errorf("got %+v, %v", subject.Replicas, subject.Unrestricted())
	}
}

// TestPoolerCertificate: it is issued with those of the instances, and one that is missing lets all
// be issued anew.
func TestPoolerCertificate(t *testing.T) {
	all := Common(newDatabase(), Observed{}).Extras
	if len(all) != 1 || all[0].IsNeeded || all[0].CommonName != "mainstay_pooler" || !slices.Contains(all[0].Names, "db-pooler.shop.svc") {
		t.Errorf("got %+v", all)
	}
	if needed := Common(newDatabase(pooled), Observed{}).Extras; !needed[0].IsNeeded {
		t.Error("nothing waits for it")
	}
	if database.HasExtra(map[string][]byte{"pooler.crt": {1}}, "pooler") {
		t.Error("a certificate without a key is one")
	}
}
