package postgresql

import (
	"net/url"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Desired returns what should exist for a defaulted, valid PostgreSQL. What pods need comes before
// them: the Lease before the volumes, because it says whether new data may be made.
func Desired(db *databasev1.PostgreSQL, observed Observed, decided Decision) plan.Plan {
	d := Common(db, observed)
	wanted := plan.Plan{Withhold: db.Spec.Paused}
	add := func(child plan.Child) { wanted.Children = append(wanted.Children, child) }
	add(plan.Child{Object: d.Certificates(observed.State), Uncached: true})
	// The authorities are no part of the application's Secret, which is made once: authorities change.
	add(plan.Child{Object: d.Authority(observed.State), Needs: d.CertificatesRef()})
	add(applicationChild(db, observed))
	add(plan.Child{Object: d.MetricsSecret(observed.State), Uncached: true, CreateOnce: true})
	addProvisions(&wanted, db, observed)
	// Settings with the revision of what was not written would be waited for in vain.
	add(plan.Child{Object: settings(db, observed, decided), Needs: neededByProvisioned(db, observed)})
	account, role, binding := d.Access()
	add(plan.Child{Object: account})
	add(plan.Child{Object: role})
	add(plan.Child{Object: binding})
	d.AddLease(&wanted, observed.State, lease(db, observed))
	for _, service := range d.Services() {
		add(plan.Child{Object: service})
	}
	d.AddEndpointSlice(&wanted, observed.State)
	add(plan.Child{Object: d.NetworkPolicy()})
	if observed.HasMonitorAPI {
		add(plan.Child{Object: d.PodMonitor(observed.State)})
	}
	addPooler(&wanted, db, observed)
	if d.Image == "" {
		addVolumes(&wanted, db, observed, Decision{})
		// There is nothing to run; what runs goes on.
		wanted.Keep = append(wanted.Keep, d.Ref("StatefulSet", db.Name), d.Ref("PodDisruptionBudget", db.Name))
		return wanted
	}
	addVolumes(&wanted, db, observed, decided)
	add(plan.Child{Object: statefulSet(db, observed, decided), DryRunFirst: true, Needs: d.NeededByPods(&wanted, decided.Replicas)})
	if decided.Replicas > 1 {
		add(plan.Child{Object: d.Budget()})
	}
	return wanted
}

// addVolumes adds the claims, and keeps those for a log that the spec no longer has.
func addVolumes(to *plan.Plan, db *databasev1.PostgreSQL, observed Observed, decided Decision) {
	Common(db, observed).AddVolumes(to, observed.State, int(decided.Replicas), decided.Reclaims)
	for ordinal := range database.MaxReplicas {
		if db.Spec.WALStorage == nil {
			to.Keep = append(to.Keep, Ref(db, "PersistentVolumeClaim", WALVolumeName(db.Name, ordinal)))
		}
	}
}

// The application's role and database, by their names in the server.
const (
	applicationRole     = "app"
	applicationDatabase = "app"
)

// applicationChild is the Secret with which the application connects. It is made once: what users
// change in it counts. Only its uri is written again, and nothing else of it then.
func applicationChild(db *databasev1.PostgreSQL, observed Observed) plan.Child {
	uri, isStale := staleURI(db, observed)
	if !isStale {
		return plan.Child{Object: application(db, observed), Uncached: true, CreateOnce: true}
	}
	return plan.Child{
		Object: &corev1.Secret{
			ObjectMeta: Common(db, observed).Meta(database.ApplicationName(db.Name)), Data: map[string][]byte{"uri": []byte(uri)},
		},
		Uncached: true, KeepOthers: true,
	}
}

// application is what a client needs to connect.
func application(db *databasev1.PostgreSQL, observed Observed) *corev1.Secret {
	host := contract.WriteServiceName(db.Name) + "." + db.Namespace + ".svc"
	address := host + ":" + strconv.Itoa(serverPort)
	uri := url.URL{
		Scheme: "postgresql", User: url.UserPassword(applicationRole, observed.Password), Host: address, Path: "/" + applicationDatabase,
		RawQuery: "sslmode=require",
	}
	data := map[string]string{
		corev1.BasicAuthUsernameKey: applicationRole, corev1.BasicAuthPasswordKey: observed.Password, "dbname": applicationDatabase,
		"host": host, "port": strconv.Itoa(serverPort), "uri": uri.String(),
	}
	secret := &corev1.Secret{
		ObjectMeta: Common(db, observed).Meta(database.ApplicationName(db.Name)), Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{},
	}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// settings is what the instances follow while they run.
func settings(db *databasev1.PostgreSQL, observed Observed, decided Decision) *corev1.ConfigMap {
	return Common(db, observed).Settings(contract.Settings{
		Version:    db.Spec.Version,
		Durability: string(db.Spec.Durability), FailoverAfter: db.Spec.Failover.After,
		AcceptLoss: uint64(db.Spec.Failover.AcceptLoss), //nolint:gosec // Validate has refused negative terms
		Parameters: parameters(db), Access: db.Spec.PgHBA, Initialise: Initialises(db),
		Provisions: contract.ProvisionsRevision(observed.Provisions),
	}, decided)
}

func lease(db *databasev1.PostgreSQL, observed Observed) *coordinationv1.Lease {
	d := Common(db, observed)
	return d.Lease(observed.HasVolumes(d, database.VolumeName, WALVolumeName))
}

func statefulSet(db *databasev1.PostgreSQL, observed Observed, decided Decision) *appsv1.StatefulSet {
	d := Common(db, observed)
	return d.StatefulSet(podTemplate(db, observed), observed.StatefulSet(d), decided.Replicas)
}

// arguments of the program in the pod.
func arguments(db *databasev1.PostgreSQL, d *database.Database) []string {
	all := d.Arguments()
	if db.Spec.WALStorage != nil {
		all = append(all, "--wal-volume="+walPath)
	}
	return all
}

// image returns the server's image; "" if the installation has none for the version.
func image(db *databasev1.PostgreSQL, observed Observed) string {
	if db.Spec.Image != "" {
		return db.Spec.Image
	}
	return observed.Catalogue[db.Spec.Version]
}
