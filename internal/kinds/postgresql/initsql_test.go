package postgresql

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// TestInitialises: the instances wait for first statements until the PostgreSQL was ready, and
// never again.
func TestInitialises(t *testing.T) {
	db := newDatabase()
	says := func() bool {
		observed := running(db, 1)
		parsed, err := contract.ParseSettings(settings(db, observed, Decide(db, observed)).Data[contract.SettingsKey])
		if err != nil {
			t.Fatal(err)
		}
		return parsed.Initialise
	}
	if says() {
		t.Error("without statements: they are waited for")
	}
	db.Spec.InitSQL = []databasev1.InitSQL{{SQL: "SELECT 1"}}
	if !says() {
		t.Error("with statements: they are not waited for")
	}
	db.Status.FirstReadyTime = new(metav1.NewTime(noon))
	if says() {
		t.Error("of a database that was ready: they are waited for")
	}
}

// TestNextInit: all statements, or none.
func TestNextInit(t *testing.T) {
	read := func(all ...string) (statements []contract.Statement) {
		for _, text := range all {
			statements = append(statements, contract.Statement{SQL: text})
		}
		return statements
	}
	for want, got := range map[string]ObservedInit{
		"": NextInit(read("SELECT 1", "SELECT 2"), nil),
		"spec.initSQL[0]: the Secret a does not exist":                      NextInit(read("", "SELECT 2"), []string{"spec.initSQL[0]: the Secret a does not exist"}),
		"spec.initSQL[1]: must have a statement":                            NextInit(read("SELECT 1", "\n"), nil),
		"spec.initSQL[0]: must be UTF-8 without NUL":                        NextInit(read("SELECT '\xff'"), nil),
		"spec.initSQL: Too long: may not be more than 65536 bytes in total": NextInit(read(strings.Repeat("a", 65536), "b"), nil),
	} {
		if got.Problem != want || (want == "") != (len(got.Statements) == 2) {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
}

// TestInitIsReported: statements that can't be read are named.
func TestInitIsReported(t *testing.T) {
	db, observed := newDatabase(), running(newDatabase(), 1)
	observed.Pods[0] = newPod("db-0", contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true})
	observed.Init.Problem = "spec.initSQL[0]: the Secret a does not exist"
	status, _ := Status(db, observed, Decide(db, observed), plan.Result{})
	for _, one := range status.Conditions {
		if one.Type == databasev1.ConditionReady && (one.Reason != databasev1.ReasonSecretNotUsable ||
			one.Message != "the database app waits for its first statements: spec.initSQL[0]: the Secret a does not exist") {
			t.Errorf("got %s: %s", one.Reason, one.Message)
		}
	}
}

// TestUsersObjectsAreReadAgain: no watch shows that a ConfigMap of the first statements, or a
// Secret, was created or corrected, so they are read again: those of the first statements until the
// PostgreSQL was ready, also while the primary can't execute what was read, and those of users
// while a password can't be used.
func TestUsersObjectsAreReadAgain(t *testing.T) {
	from := corev1.LocalObjectReference{Name: "schema"}
	configMap := databasev1.InitSQL{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: from, Key: "sql"}}
	secret := databasev1.InitSQL{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: from, Key: "sql"}}
	unusable := map[string]ObservedUser{"shop": {Problem: "the Secret mine does not exist"}}
	read := Observed{Init: ObservedInit{Statements: []contract.Statement{{SQL: "SELECT 1"}}}}
	missing := Observed{Init: ObservedInit{Problem: "the ConfigMap schema does not exist"}}
	for name, test := range map[string]struct {
		init     []databasev1.InitSQL
		wasReady bool
		observed Observed
		want     time.Duration
	}{
		"nothing is read":                   {},
		"statements of the spec alone":      {init: []databasev1.InitSQL{{SQL: "SELECT 1"}}, observed: read},
		"a ConfigMap is missing":            {init: []databasev1.InitSQL{configMap}, observed: missing, want: waitsAgain},
		"statements that can't be executed": {init: []databasev1.InitSQL{{SQL: "SELECT 1"}, secret}, observed: read, want: waitsAgain},
		"a database that was ready":         {init: []databasev1.InitSQL{configMap, secret}, wasReady: true},
		"a password that can't be used":     {wasReady: true, observed: Observed{Users: unusable}, want: waitsAgain},
		"all users are too long together":   {wasReady: true, observed: Observed{Users: unusable, ProvisionsProblem: "too long"}},
	} {
		db := newDatabase(withUsers)
		db.Spec.InitSQL = test.init
		if test.wasReady {
			db.Status.FirstReadyTime = new(metav1.NewTime(noon))
		}
		test.observed.State = running(db, 1).State
		if _, after := Status(db, test.observed, Decision{Replicas: 1}, plan.Result{}); after != test.want {
			t.Errorf("%s: it is looked again after %s, want %s", name, after, test.want)
		}
	}
}

// FuzzCheckSQL: what is accepted is sent as it is, so it has no byte that ends a message.
func FuzzCheckSQL(f *testing.F) {
	fuzz.AddBombs(f, "SELECT 1")
	f.Add("'; DROP TABLE a; --")
	f.Add("SELECT '\x00'")
	f.Fuzz(func(t *testing.T, text string) {
		encoded := contract.Provisions{InitSQL: []contract.Statement{{SQL: text}}}.Encode()
		defer fuzz.Budget(t, []byte(text), encoded)()
		if CheckSQL(text) == "" && (strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text || strings.TrimSpace(text) == "") {
			t.Errorf("%q is accepted", text)
		}
		if parsed, err := contract.ParseProvisions(encoded); CheckSQL(text) == "" && (err != nil || parsed.InitSQL[0].SQL != text) {
			t.Errorf("%q became %+v, %v", text, parsed, err)
		}
	})
}
